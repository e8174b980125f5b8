package store

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// errState says that a path is the state directory of a node, or one of its secrets.
var errState = errors.New("state directory of a node, with its private key, is never shared")

// stateFolders are in each state directory.
var stateFolders = []string{"manifests", "hashes", "imports", "guarded"}

// stateSecrets are files of a state directory that are for its node alone. A person may keep other files there.
var stateSecrets = []string{"key", "token", "token-read", "page", "node.toml", "fleet.json", "catalog.db", "catalog.db-wal"}

// isState reports whether d is a state directory, whatever it is called and wherever it is mounted: it has a
// node's key, or all the folders of one.
func isState(d vfs.FS, has func(name string, t fs.FileMode) bool) bool {
	if has("key", 0) {
		if _, err := vfs.ReadRecord(d, "key", vfs.KeyRecord, ed25519.SeedSize); err == nil {
			return true
		}
	}
	return !slices.ContainsFunc(stateFolders, func(name string) bool { return !has(name, fs.ModeDir) })
}

// stateAmong is isState for a folder that was listed.
func stateAmong(d vfs.FS, list []vfs.Listed) bool {
	return isState(d, func(name string, t fs.FileMode) bool {
		return slices.ContainsFunc(list, func(e vfs.Listed) bool { return e.Name == name && e.Type == t })
	})
}

// secretOfState reports whether a file of d is a secret of the node of which d is the state directory.
func secretOfState(d vfs.FS, name string) bool {
	return slices.Contains(stateSecrets, name) && isState(d, func(name string, t fs.FileMode) bool {
		info, err := d.Lstat(name)
		return err == nil && info.Type == t
	})
}

// leaveState leaves a state directory out of what is shared, or refuses it if it is all that was to be shared.
func (s *scan) leaveState(prefix string) error {
	if prefix == "" {
		return fmt.Errorf("%w: the %w", share.ErrPath, errState)
	}
	s.excluded++
	s.states = append(s.states, fmt.Sprintf("%q was left out: the %v", strings.TrimSuffix(prefix, "/"), errState))
	return nil
}
