package rounds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// A Target is what a [Pointer] names: the result of a round. In the store it is
// JSON; docs/formats.md has it.
type Target struct {
	Term  uint64 `json:"term"`   // of the round that made it
	Seq   uint64 `json:"seq"`    // counts the results of one term
	Value string `json:"target"` // the result's name, such as a share ID; at most MaxTarget bytes
}

// MaxTarget bounds Target.Value, in bytes.
const MaxTarget = 4 << 10

// after reports whether t comes later than o.
func (t Target) after(o Target) bool {
	return t.Term > o.Term || t.Term == o.Term && t.Seq > o.Seq
}

func (t Target) check() error {
	switch {
	case t.Term == 0 || t.Term > MaxTerm:
		return fmt.Errorf("its term, %d, is out of range", t.Term)
	case t.Value == "" || len(t.Value) > MaxTarget || cut(t.Value, MaxTarget) != t.Value:
		return fmt.Errorf("its target must be 1 to %d bytes of UTF-8", MaxTarget)
	}
	return nil
}

func decodeTarget(value []byte) (Target, error) {
	var t Target
	if err := decodeJSON(value, &t); err != nil {
		return Target{}, err
	}
	if err := t.check(); err != nil {
		return Target{}, fmt.Errorf("%w: %v", ErrCorrupt, err)
	}
	return t, nil
}

// A Pointer names the latest result of a round. It moves forward only: by term, and by
// sequence within a term, whoever moves it, and whether or not they hold the round.
// Write the result first, so that what the pointer names exists.
type Pointer struct {
	kv   KV
	name string
}

// NewPointer returns the pointer of the round with that name.
func NewPointer(kv KV, name string) (*Pointer, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	return &Pointer{kv, name}, nil
}

// A StaleError says that a pointer was not moved, since it would have gone back.
type StaleError struct {
	Pointer string
	Current Target // the later target; without a Value, a record of that term
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("pointer %s is at term %d, sequence %d; it does not go back", e.Pointer, e.Current.Term, e.Current.Seq)
}

// Get returns what the pointer names, or [ErrNever], or [ErrCorrupt].
func (p *Pointer) Get(ctx context.Context) (Target, error) {
	_, t, err := p.read(ctx)
	if err != nil {
		return Target{}, fmt.Errorf("pointer %s: %w", p.name, err)
	}
	return t, nil
}

func (p *Pointer) read(ctx context.Context) (rev uint64, t Target, err error) {
	e, err := get(ctx, p.kv, pointerKey(p.name), callTimeout)
	switch {
	case err != nil:
		return 0, Target{}, err
	case e.Rev == 0:
		return 0, Target{}, ErrNever
	}
	t, err = decodeTarget(e.Value)
	return e.Rev, t, err
}

// pointerAttempts bounds the calls of a Publish: others may move the pointer too.
const pointerAttempts = 8

// Publish moves the pointer to t, or returns a [StaleError]. Publishing the same target
// again does nothing. After another error the outcome is unknown: publish again.
//
// A pointer that cannot be read is replaced, unless the round itself has a later
// term.
func (p *Pointer) Publish(ctx context.Context, t Target) error {
	if err := t.check(); err != nil {
		return fmt.Errorf("pointer %s: %w", p.name, err)
	}
	value, err := json.Marshal(t)
	if err != nil {
		panic(err) // cannot fail: numbers and text
	}
	var wrote error
	for range pointerAttempts {
		rev, is, err := p.read(ctx)
		switch {
		case errors.Is(err, ErrNever):
		case errors.Is(err, ErrCorrupt):
			switch rec, err := Current(ctx, p.kv, p.name); {
			case errors.Is(err, ErrNever), errors.Is(err, ErrCorrupt): // it says nothing against t
			case err != nil:
				return fmt.Errorf("pointer %s: %w", p.name, errors.Join(err, wrote))
			case rec.Term > t.Term:
				return &StaleError{p.name, Target{Term: rec.Term}}
			}
		case err != nil:
			return fmt.Errorf("pointer %s: %w", p.name, errors.Join(err, wrote))
		case is == t:
			return nil
		case !t.after(is):
			return &StaleError{p.name, is}
		}
		if _, wrote = put(ctx, p.kv, pointerKey(p.name), value, rev, callTimeout); wrote == nil {
			return nil
		}
	}
	return fmt.Errorf("pointer %s: after %d attempts: %w", p.name, pointerAttempts, wrote)
}
