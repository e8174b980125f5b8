package vfs

// Listed is a name in a folder, and what is known of it before it is read.
type Listed struct {
	DirEntry
	Left bool  // it was not wanted, and was not checked
	Info Info  // of a file
	Err  error // why a file cannot be read; nil if it can
}

// List lists the folder d, in no order, and finds out for each wanted file whether it
// can be read.
func List(d FS, want func(name string) bool) ([]Listed, error) {
	if l, ok := d.(interface {
		list(want func(name string) bool) ([]Listed, error)
	}); ok {
		return l.list(want)
	}
	names, err := d.ReadDir(".")
	if err != nil {
		return nil, err
	}
	out := make([]Listed, len(names))
	for i, e := range names {
		out[i] = Listed{DirEntry: e}
		if out[i].Left = !want(e.Name); !out[i].Left && e.Type == 0 {
			out[i].look(d)
		}
	}
	return out, nil
}

// Look is List for one name.
func Look(d FS, e DirEntry) Listed {
	out := Listed{DirEntry: e}
	if e.Type == 0 {
		out.look(d)
	}
	return out
}

func (l *Listed) look(d FS) {
	f, err := d.Open(l.Name)
	if err != nil {
		l.Err = err
		return
	}
	defer f.Close()
	l.Info, l.Err = f.Stat()
}
