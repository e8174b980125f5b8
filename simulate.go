package fetcher

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// Simulation replaces the machine that a node runs on, and can make a node lie.
// Package simnet/bubble fills it in; the zero value is the real machine
// and an honest node. For its network see p2p.Config.Packets.
type Simulation struct {
	// FS is the disk on which Config.Dir and FetchOptions.Dir lie, and what is
	// shared. Names on it are relative and slash-separated. It stays the caller's.
	FS vfs.FS
	// Serve wraps what is offered, for each peer that asks for it.
	Serve func(b p2p.Blocks) (to func(child peers.ID) p2p.Blocks)
	// Send filters the node's messages to others: what it returns is sent in place of
	// frame.
	Send func(to peers.ID, frame []byte) [][]byte
}

// openState opens the state directory; closing what is returned closes it.
func (s Simulation) openState(dir string) (*store.State, io.Closer, error) {
	if s.FS == nil {
		state, err := store.OpenState(dir)
		return state, state, err
	}
	d, err := s.folder(dir)
	if err != nil {
		return nil, nil, err
	}
	state, err := store.OpenStateIn(d)
	if err != nil {
		d.Close()
		return nil, nil, err
	}
	return state, both{state, d}, nil
}

type both [2]io.Closer

func (b both) Close() error { return errors.Join(b[0].Close(), b[1].Close()) }

// find looks for a transfer that was begun in dir, and makes dir.
func (s Simulation) find(dir string, id share.ID) (store.Found, error) {
	if s.FS == nil {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return store.Found{}, fmt.Errorf("the folder to fetch into: %w", err)
		}
		return store.Find(dir, id)
	}
	d, err := s.folder(dir)
	if err != nil {
		return store.Found{}, fmt.Errorf("the folder to fetch into: %w", err)
	}
	defer d.Close()
	return store.FindIn(d, id)
}

// folder opens a folder of FS, and makes it if it is not there.
func (s Simulation) folder(name string) (vfs.FS, error) {
	name = path.Clean(name)
	for i, c := range name + "/" {
		if c != '/' || name == "." {
			continue
		}
		if err := s.FS.Mkdir(name[:i]); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return s.FS.Sub(name)
}

// finished is a file of a share that is whole.
type finished interface {
	io.ReaderAt
	io.Closer
}

// open opens a file of a share at root; inside is its path in it, empty if the
// share is that file.
func (s Simulation) open(root, inside string) (finished, error) {
	switch {
	case s.FS != nil:
		return s.FS.Open(strings.TrimPrefix(path.Join(root, inside), "/"))
	case inside == "":
		root, inside = filepath.Split(root)
	}
	d, err := vfs.Dir(root)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Open(filepath.ToSlash(inside))
}

// bent is a network that changes a node's messages on their way out.
type bent struct {
	network
	send func(to peers.ID, frame []byte) [][]byte
}

func (b bent) Send(to peers.ID, frame []byte) bool {
	for _, f := range b.send(to, frame) {
		if !b.network.Send(to, f) {
			return false
		}
	}
	return true
}
