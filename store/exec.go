package store

import (
	"errors"
	"io/fs"
	"path"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// keepsExec says whether the file system of the target keeps executable bits: FAT does not, nor many a
// network drive: there every file shows one, or none does. It is asked where a file differs from the share in that alone,
// or cannot be made executable, and finds out with a file of its own in NAME.partial. While that cannot be made, as on a full disk, what
// tells is that some of the share's files there can be executed, and others cannot.
func (p *Partial) keepsExec() bool {
	keeps, err := p.findExec()
	if err == nil {
		return keeps
	}
	var with, without bool
	for _, e := range p.m.Entries() {
		if info, err := p.dir.Lstat(path.Join(p.m.Name, e.Path)); err == nil && info.Type == 0 { // of a share of one file there is none
			with, without = with || info.Exec, without || !info.Exec
		}
	}
	return with && without
}

// findExec is keepsExec, or says why that cannot be found out now.
func (p *Partial) findExec() (keeps bool, err error) {
	if p.sel.exec == execUnknown {
		keeps, err := p.tryExec()
		if err != nil {
			return false, err
		}
		p.sel.exec = execLost
		if keeps {
			p.sel.exec = execKept
		}
	}
	return p.sel.exec == execKept, nil
}

type execKnown uint8

const (
	execUnknown execKnown = iota
	execKept
	execLost
)

func (p *Partial) tryExec() (keeps bool, err error) {
	if !vfs.HasExec {
		return false, nil
	}
	if p.stage == nil {
		leave, err := p.enterStage()
		if err != nil {
			return false, err
		}
		defer leave()
	}
	const name = "manifest.new" // what a killed run leaves of it is known
	if err := vfs.RemoveFile(p.stage, name); err != nil {
		return false, err
	}
	f, err := p.stage.Create(name, false)
	if err != nil {
		return false, err
	}
	defer p.stage.Remove(name)
	without, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil || without.Exec {
		return false, err
	}
	err = p.stage.SetExec(name)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errors.ErrUnsupported) { // it is refused: for this user, or for all
		return false, nil
	}
	if err != nil {
		return false, err
	}
	with, err := p.stage.Lstat(name)
	return with.Exec, err
}

// enterStage makes a NAME.partial that holds nothing, and that leave removes.
func (p *Partial) enterStage() (leave func(), err error) {
	if err := p.lockStage(); err != nil {
		p.closeStage()
		return nil, err
	}
	if _, err := p.stage.Lstat("manifest"); err == nil { // somebody has just begun
		p.closeStage()
		return nil, share.ErrHeld
	}
	return func() {
		vfs.RemoveFile(p.stage, "lock")
		p.closeStage()
		p.dir.Remove(p.staging)
	}, nil
}

// execOf says whether a file that was found is shared as one that can be executed. What was fetched onto a disk that keeps no such bits
// is still that: it may be one that can only be read, so what tells is that no file there can be executed, or all can.
func (im *importing) execOf(f *found) bool {
	if im.opt.Of != nil && (im.alike || f.noExec) {
		if i, ok := im.opt.Of.Find(f.path); ok {
			return im.opt.Of.Entry(i).Exec
		}
	}
	return f.exec
}
