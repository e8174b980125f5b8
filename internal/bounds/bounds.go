// Package bounds checks the fields of a configuration, and gives them defaults. It promises nothing to
// outsiders.
package bounds

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/words"
)

// Fields collects what is wrong with the fields of one configuration. The zero
// value has found nothing.
type Fields struct{ errs []error }

// In says that a field must lie between low and high, both included, or be zero,
// which stands for its default. NaN is out of range.
func In[T cmp.Ordered](f *Fields, name string, v, low, high T) {
	var zero T
	if v != zero && !(v >= low && v <= high) {
		f.errs = append(f.errs, fmt.Errorf("%s is %v: it must be from %v to %v, or 0 for its default", name, shown(v), shown(low), shown(high)))
	}
}

// UpToOrOff says that a field must be at most high; zero stands for its default, and negative values, all alike,
// switch something off.
func UpToOrOff[T cmp.Ordered](f *Fields, name string, v, high T) {
	if !(v <= high) {
		var zero T
		f.errs = append(f.errs, fmt.Errorf("%s is %v: it must be from %v to %v, negative to switch it off, or 0 for its default", name, shown(v), shown(zero), shown(high)))
	}
}

// shown is a value as people write it; a time that words would round, as Go does.
func shown(v any) any {
	if d, ok := v.(time.Duration); ok {
		text := words.Duration(d)
		if same, err := words.ParseDuration(strings.NewReplacer(" ", "", "min", "m").Replace(text)); err == nil && same == d {
			return text
		}
	}
	return v
}

// Add adds the error of a part of the configuration, unless it is nil.
func (f *Fields) Add(name string, err error) {
	if err != nil {
		f.errs = append(f.errs, fmt.Errorf("%s: %w", name, err))
	}
}

// Err returns all that was found, or nil.
func (f *Fields) Err() error { return errors.Join(f.errs...) }

// Default gives a field its default, if it is zero.
func Default[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
