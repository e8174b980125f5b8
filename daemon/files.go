package daemon

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// listOf returns an entry's keeper and its list of files.
func (d *Daemon) listOf(ctx context.Context, id int64) (*keeper, *share.Manifest, error) {
	k, err := d.keeper(id)
	if err != nil {
		return nil, nil, err
	}
	if m := k.list(); m != nil {
		return k, m, nil
	}
	if e := k.entry(); !e.Share.IsZero() {
		if m, err := d.node.Manifest(ctx, e.Share.String(), nil); err == nil {
			return k, m, nil
		}
	}
	return k, nil, api.Refuse(share.ErrHeld, "the list of files of entry %d is not here yet", id)
}

// Files returns the list of files of an entry.
func (d *Daemon) Files(ctx context.Context, id int64) ([]api.File, error) {
	k, m, err := d.listOf(ctx, id)
	if err != nil {
		return nil, err
	}
	e := k.entry()
	only, err := share.ParseGlobs(e.Only)
	skip, err2 := share.ParseGlobs(e.Skip)
	first, err3 := share.ParseGlobs(e.First)
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	only, skip, first = only.In(m), skip.In(m), first.In(m)
	out := make([]api.File, m.Len())
	for i, f := range m.Entries() {
		out[i] = api.File{Path: f.Path, Kind: f.Kind.String(), Size: f.Size, Priority: "normal"}
		if len(e.Only) > 0 && !only.Match(f.Path) || skip.Match(f.Path) {
			out[i].Priority = "skip"
		} else if first.Match(f.Path) {
			out[i].Priority = "high"
		}
	}
	return out, nil
}

// Pieces returns which pieces of an entry's share are here, while it is fetched or once it is
// complete.
func (d *Daemon) Pieces(ctx context.Context, id int64) (api.Pieces, error) {
	k, m, err := d.listOf(ctx, id)
	if err != nil {
		return api.Pieces{}, err
	}
	n := m.Layout().Pieces()
	here, by := share.NewSet(n), []byte(nil)
	if t := k.running(); t != nil {
		by = t.Brought(ctx)
		if set := t.Pieces(); set != nil {
			here = set
		}
	} else if e := k.entry(); len(e.Only)+len(e.Skip) == 0 && (e.State == catalog.Serving || e.State == catalog.Kept || e.State == catalog.Ended) {
		for p := range n {
			here.Add(share.Piece(p))
		}
	} else {
		return api.Pieces{}, api.Refuse(share.ErrHeld, "entry %d is in the state %q: which of its pieces are here is not known now", id, k.view().State)
	}
	return api.Pieces{Pieces: n, Here: here.Count(), Map: here.Bytes(), By: by}, nil
}

// Sources returns the peers that an entry is fetched from.
func (d *Daemon) Sources(_ context.Context, id int64) ([]api.Source, error) {
	k, err := d.keeper(id)
	if err != nil {
		return nil, err
	}
	return k.sources(), nil
}

// Children returns the peers that fetch an entry from here.
func (d *Daemon) Children(ctx context.Context, id int64) ([]api.Child, error) {
	k, err := d.keeper(id)
	if err != nil {
		return nil, err
	}
	all, err := d.node.Children(ctx)
	if err != nil {
		return nil, err
	}
	var out []api.Child
	of := k.entry().Share
	for _, c := range all {
		if c.Share != of {
			continue
		}
		x := api.Child{Peer: string(c.Peer), Addr: c.Addr, Bytes: c.Bytes, Since: c.Since, Set: peers.Outside.String()}
		if st := c.Standing; st.ID != "" {
			x.Set, x.Tier, x.Location, x.Score, x.Moved, x.Why = st.Set.String(), int(st.Tier), st.Location, st.Score, st.Since, st.Why.String()
		}
		out = append(out, x)
	}
	return out, nil
}

// Why says why an entry is not done.
func (d *Daemon) Why(_ context.Context, id int64) ([]string, error) {
	k, err := d.keeper(id)
	if err != nil {
		return nil, err
	}
	if t := k.running(); t != nil && k.view().State == api.Fetching {
		return t.Why("begins again"), nil
	}
	v := k.view()
	return []string{strings.TrimSuffix(v.State+": "+v.Reason, ": ")}, nil
}

// OpenFile opens a file of an entry by its path in the share, exactly as in the list of
// files: no other path can be opened.
func (d *Daemon) OpenFile(ctx context.Context, id int64, file string) (api.Content, error) {
	k, m, err := d.listOf(ctx, id)
	if err != nil {
		return api.Content{}, err
	}
	i, ok := m.Find(file)
	if !ok || m.Entry(i).Kind != share.File {
		return api.Content{}, api.Refuse(api.ErrNoEntry, "entry %d has no file %q", id, file)
	}
	if t := k.running(); t != nil {
		r, err := t.Open(ctx, file)
		if errors.Is(err, fetcher.ErrSkipped) {
			err = api.Refuse(share.ErrHeld, "%q is not to be fetched; change which files of entry %d are chosen", file, id)
		}
		if err != nil {
			return api.Content{}, err
		}
		return api.Content{ReadSeekCloser: r, Name: file, Share: t.ID().String()}, nil
	}
	e := k.entry()
	if e.State != catalog.Serving && e.State != catalog.Kept && e.State != catalog.Ended {
		return api.Content{}, api.Refuse(share.ErrHeld, "entry %d is in the state %q: its files cannot be read now", id, k.view().State)
	}
	f, err := openInside(e, m, i)
	if err != nil {
		return api.Content{}, err
	}
	return api.Content{ReadSeekCloser: f, Name: file, Share: m.ID().String()}, nil
}

// openInside opens the file of the i-th entry of m where it lies. It cannot leave the paths of the entry.
func openInside(e catalog.Entry, m *share.Manifest, i int) (*localFile, error) {
	roots, file := e.Paths, m.Entry(i)
	path := file.Path
	if e.Kind == catalog.Fetch {
		roots = []string{e.Path}
	}
	at := roots[0]
	if len(roots) > 1 { // each is below the share under its own name
		first, rest, _ := strings.Cut(path, "/")
		root := slices.IndexFunc(roots, func(p string) bool { return filepath.Base(p) == first })
		if root < 0 {
			return nil, api.Refuse(api.ErrNoEntry, "%q", path)
		}
		at, path = roots[root], rest
	} else if m.Single() {
		path = ""
	}
	if path == "" {
		if real, err := filepath.EvalSymlinks(at); err == nil {
			at = real
		}
		at, path = filepath.Split(at)
	}
	root, err := vfs.Dir(at)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(path) // does not block, whatever is there now
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	if info.Size != file.Size {
		f.Close()
		return nil, api.Refuse(share.ErrHeld, "%q is not what it was when the node read it: it has been changed since", file.Path)
	}
	return &localFile{io.NewSectionReader(store.NewChecked(m, i, f), 0, file.Size), f}, nil
}

// localFile is an open file on this machine. What is read of it is the share's, or it is an error.
type localFile struct {
	*io.SectionReader
	io.Closer
}

var _ io.ReadSeekCloser = (*fetcher.Reader)(nil)
