package vfs

// Hole says whether n bytes of a file from off on were never written, and so are
// zeros that need not be read. Where that cannot be known it says no.
func Hole(f File, off, n int64) bool {
	h, ok := f.(interface{ Hole(off, n int64) bool })
	return ok && h.Hole(off, n)
}
