package store

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Found is what Find found.
type Found struct {
	Manifest *share.Manifest // nil: no transfer of the share is here
	Path     string          // of its NAME.partial
	Copy     bool            // ... which has another name, and with which no transfer goes on

	// Placed are the files, by their paths in the share, that it has put in their place below
	// NAME, or found there; nil if it gives all of the share its name at once, and for a copy.
	Placed map[string]bool
}

// Find looks in the folder dir for a transfer of the share id that was begun earlier, so
// that a rerun knows the manifest before it asks a peer. A folder that does not exist
// holds none.
func Find(dir string, id share.ID) (Found, error) {
	d, abs, err := locateDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Found{}, nil
	}
	if err != nil {
		return Found{}, fmt.Errorf("look into %s: %w", dir, err)
	}
	defer d.Close()
	f, err := FindIn(d, id)
	if err != nil {
		return Found{}, fmt.Errorf("look into %s: %w", dir, err)
	}
	if f.Manifest != nil {
		f.Path = filepath.Join(abs, f.Path)
	}
	return f, nil
}

// Discard removes what an abandoned transfer of m has left in the folder dir, if there was
// one: its NAME.partial, but nothing that others put there. The path of that folder is
// returned as gone, or as kept if something in it stays. The error wraps share.ErrHeld while
// somebody works on the transfer.
func Discard(dir string, m *share.Manifest) (gone, kept string, err error) {
	d, abs, err := locateDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err != nil {
		return "", "", err
	}
	p := newPartial(d, abs, m, PartialOptions{})
	p.ownDir = true
	found, err := p.openStage()
	if found && err == nil {
		err = p.dropStage()
	}
	if _, e := d.Lstat(p.staging); found && e == nil {
		kept = filepath.Join(abs, p.staging)
		if why := d.Remove(p.staging); errors.Is(why, fs.ErrPermission) { // it may be empty
			err = errors.Join(err, why)
		}
	} else if found {
		gone = filepath.Join(abs, p.staging)
	}
	return gone, kept, errors.Join(err, p.release())
}

// FindIn is Find in d; the path is relative to it.
func FindIn(d vfs.FS, id share.ID) (Found, error) {
	list, err := d.ReadDir(".")
	if err != nil {
		return Found{}, err
	}
	for _, e := range list {
		m := manifestIn(d, e.Name, id)
		if m == nil {
			continue
		}
		name := stagingName(m)
		if manifestIn(d, name, id) == nil {
			return Found{Manifest: m, Path: e.Name, Copy: true}, nil
		}
		placed, err := placedIn(d, name, m)
		return Found{Manifest: m, Path: name, Placed: placed}, err
	}
	return Found{}, nil
}

// manifestIn returns the manifest of the share id, if the folder name has the name of a NAME.partial and that in it.
func manifestIn(d vfs.FS, name string, id share.ID) *share.Manifest {
	if !strings.HasSuffix(name, partialSuffix) {
		return nil
	}
	if info, err := d.Lstat(name); err != nil || !info.Type.IsDir() {
		return nil
	}
	b, err := vfs.ReadFile(d, path.Join(name, "manifest"), share.MaxManifest)
	if err != nil || share.IDOf(b) != id {
		return nil
	}
	m, err := share.DecodeManifest(b)
	if err != nil {
		return nil
	}
	return m
}

// IsStage reports whether the folder at a path is the NAME.partial of a fetch.
func IsStage(at string) bool {
	if !strings.HasSuffix(at, partialSuffix) {
		return false
	}
	d, err := vfs.Dir(at)
	if err != nil {
		return false
	}
	defer d.Close()
	return isStage(d, at)
}

// isStage reports whether d, at a path, is the NAME.partial of a fetch.
func isStage(d vfs.FS, at string) bool {
	if !strings.HasSuffix(at, partialSuffix) {
		return false
	}
	b, err := vfs.ReadFile(d, "manifest", share.MaxManifest)
	if err != nil {
		return false
	}
	_, err = share.DecodeManifest(b)
	return err == nil
}

// placedIn returns the files that the note in the folder name says are in their place.
func placedIn(d vfs.FS, name string, m *share.Manifest) (map[string]bool, error) {
	stage, err := d.Sub(name)
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	placed, err := readPlaced(stage, m)
	if placed == nil || err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for entry := range placed {
		out[m.Entry(entry).Path] = true
	}
	return out, nil
}

// locateDir opens the folder that a share is fetched into.
func locateDir(dir string) (vfs.FS, string, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = realPath(abs)
	}
	if err != nil {
		return nil, "", err
	}
	d, err := vfs.Dir(abs)
	return d, abs, err
}

// stagingName is NAME.partial, shortened where that would be too long a name.
func stagingName(m *share.Manifest) string {
	name := m.Name
	if len(name)+len(partialSuffix) > maxName {
		cut := maxName - len(partialSuffix) - 9
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "-" + m.ID().Short()
	}
	return name + partialSuffix
}
