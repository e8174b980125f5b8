package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/piecelease/fetcher/share"
)

// ImportAll makes one share of several files and folders, which stay where they
// are: a folder called opt.Name, in which each has its own name. Otherwise it is like
// Import: each is remembered by itself, and is known if it was shared before.
func ImportAll(ctx context.Context, paths []string, opt ImportOptions) (*Imported, error) {
	j := joining{opt: opt}
	out, err := j.run(ctx, paths)
	if err != nil {
		for _, p := range j.parts {
			p.close()
		}
		return nil, err
	}
	return out, nil
}

// joining is one run of ImportAll.
type joining struct {
	opt   ImportOptions
	parts []*part
	done  ImportProgress // of the parts before the present one
	all   ImportProgress // the totals
}

// part is one of several files and folders.
type part struct {
	*importing
	todo []int
	out  *Imported // once it is imported
}

// least is a path that sorts as all paths of the part do; they are neighbours in the share.
func (p *part) least() string {
	if m := p.out.Manifest; !m.Single() {
		return m.Name + "/"
	}
	return p.out.Manifest.Name
}

func (p *part) close() {
	if p.out != nil {
		p.out.Tree.Close()
	} else {
		p.where.dir.Close()
	}
}

func (j *joining) run(ctx context.Context, paths []string) (*Imported, error) {
	if err := j.locate(paths); err != nil {
		return nil, err
	}
	if err := j.prepare(ctx); err != nil {
		return nil, err
	}
	for _, p := range j.parts {
		var err error
		if p.out, err = p.run(ctx, p.todo); err != nil {
			return nil, fmt.Errorf("%s: %w", p.where.path, err)
		}
		j.done.Files += p.done.TotalFiles
		j.done.Bytes += p.done.Total
		j.done.Hashed += p.done.Hashed
	}
	return j.join()
}

// locate finds the paths, and refuses two with the same name.
func (j *joining) locate(paths []string) error {
	for _, at := range paths {
		opt := j.opt
		opt.Name, opt.Progress = "", nil
		if j.opt.Progress != nil {
			opt.Progress = j.progress
		}
		im, err := newImporting(at, opt)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		name := im.where.name
		if i := slices.IndexFunc(j.parts, func(p *part) bool { return p.where.name == name }); i >= 0 {
			im.where.dir.Close()
			return fmt.Errorf("%s and %s would both be %q in the share; rename one of them", j.parts[i].where.path, im.where.path, name)
		}
		if j.opt.Exclude != nil {
			single := im.where.base != ""
			im.opt.Exclude = func(p string) bool {
				if !single {
					p = name + "/" + p
				}
				return j.opt.Exclude(p)
			}
		}
		j.parts = append(j.parts, &part{importing: im})
	}
	return nil
}

// prepare checks all of them before the first is hashed, and gathers what is wrong.
func (j *joining) prepare(ctx context.Context) error {
	var bad problems
	for _, p := range j.parts {
		var err error
		p.todo, err = p.prepare(ctx)
		var some *ProblemsError
		switch {
		case errors.As(err, &some):
			for _, x := range some.Problems {
				at := p.where.name
				if p.where.base == "" {
					at = path.Join(at, x.Path)
				}
				bad.add(at, x.Err)
			}
			bad.more += some.Count - len(some.Problems)
		case err != nil:
			return fmt.Errorf("%s: %w", p.where.path, err)
		}
		j.all.TotalFiles += p.done.TotalFiles
		j.all.Total += p.done.Total
	}
	return bad.err()
}

func (j *joining) progress(p ImportProgress) {
	j.opt.Progress(ImportProgress{
		Files: j.done.Files + p.Files, TotalFiles: j.all.TotalFiles,
		Bytes: j.done.Bytes + p.Bytes, Total: j.all.Total,
		Hashed: j.done.Hashed + p.Hashed,
	})
}

// join makes one share of those imported.
func (j *joining) join() (*Imported, error) {
	out := &Imported{}
	var entries []share.Entry
	for _, p := range j.parts {
		m := p.out.Manifest
		below := m.Name + "/"
		if m.Single() {
			below = ""
		}
		for _, e := range m.Entries() {
			e.Path = below + e.Path
			entries = append(entries, e)
		}
		if m.Len() == 0 {
			entries = append(entries, share.Entry{Path: m.Name, Kind: share.Dir})
		}
		out.Hashed += p.out.Hashed
		out.Cached += p.out.Cached
		out.Skipped += p.out.Skipped
		out.Excluded += p.out.Excluded
		for _, w := range p.out.Warnings {
			out.Warnings = append(out.Warnings, p.where.name+": "+w)
		}
	}
	m, err := share.NewManifest(j.opt.Name+"/", entries)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(j.parts, func(a, b *part) int { return cmp.Compare(a.least(), b.least()) })
	t := &Tree{m: m, where: location{name: m.Name}}
	var pieces share.Piece
	for _, p := range j.parts {
		t.parts, t.starts = append(t.parts, p.out.Tree), append(t.starts, pieces)
		pieces += share.Piece(p.out.Manifest.Layout().Pieces())
	}
	out.Manifest, out.Tree = m, t
	return out, nil
}
