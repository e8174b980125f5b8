package share

import "encoding/hex"

// String is h in lower-case hex, as b3sum prints it.
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
