package vfs

// BeginFlush asks the system to begin writing out what was written to a file, without
// waiting for it, so that the Sync that follows has less to do. It is a hint, which
// promises nothing and cannot fail.
func BeginFlush(f File) {
	if f, ok := f.(interface{ BeginFlush() }); ok {
		f.BeginFlush()
	}
}
