package share

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// String returns h in lower-case hex, as b3sum prints it.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// String is the kind's name.
func (k Kind) String() string {
	switch k {
	case File:
		return "file"
	case Dir:
		return "dir"
	case Symlink:
		return "symlink"
	}
	return "unknown"
}

// Size formats a number of bytes for people: three digits and a unit, powers of 1,000.
func Size[N int | int64](n N) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v := float64(n)
	for _, unit := range []string{"kB", "MB", "GB", "TB"} {
		if v /= 1000; v < 999.5 || unit == "TB" {
			prec := max(0, 2-len(fmt.Sprint(int(v)))+1)
			return strings.TrimSuffix(fmt.Sprintf("%.*f", min(prec, 2), v), ".") + " " + unit
		}
	}
	return ""
}

// NoRoom returns ErrDiskFull with what a person should know: need bytes are missing, and
// free bytes are free, -1 if that is not known.
func NoRoom(need, free int64) error { return noRoom{need, free} }

type noRoom struct{ need, free int64 }

func (e noRoom) Unwrap() error { return ErrDiskFull }

func (e noRoom) Error() string {
	const odd = "; it may hold too many files, or a quota may be used up"
	switch {
	case e.free < 0:
		return ErrDiskFull.Error() + ": it takes no more, and does not say how much is free" + odd
	case e.free >= e.need:
		return fmt.Sprintf("%v: it takes no more, though %s is free%s", ErrDiskFull, Size(e.free), odd)
	}
	return fmt.Sprintf("%v: free %s more; %s is needed and %s is free", ErrDiskFull, Size(e.need-e.free), Size(e.need), Size(e.free))
}
