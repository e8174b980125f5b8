package store

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// errState says that a path is the state directory of a node, or one of its secrets.
var errState = errors.New("state directory of a node, with its private key, is never shared")

// stateFolders are in each state directory.
var stateFolders = []string{"manifests", "hashes", "imports", "guarded"}

// stateOwn are the other files and folders of a state directory that are for its node alone. A person may keep others there.
var stateOwn = []string{"key", "token", "token-read", "page", "node.toml", "fleet.json", "fleet.of", "catalog.db", ledger,
	"ranking", "port", "temp", "fleets", "issuer", ledgers[0], ledgers[1]}

// ledgers are the folders of a state directory whose files named ledger are served, to the fleet: by their whole paths alone.
var ledgers = []string{"snapshots", "fleet"}

const ledger = "leases.db"

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

// ownOfState returns the file or folder of a state directory that is, or has, what is at a path without symlinks, and belongs to its node;
// empty: there is none.
func ownOfState(path string) string {
	below := "" // the path, from at on
	for at := path; filepath.Dir(at) != at; at = filepath.Dir(at) {
		name := filepath.Base(at)
		is := func(s string) bool { // whatever the case, as some file systems have it; beside a database are its log and older copies
			return strings.EqualFold(s, name) || strings.HasSuffix(s, ".db") && strings.HasPrefix(strings.ToLower(name), s)
		}
		served := filepath.Base(path) == ledger && strings.Count(filepath.ToSlash(below), "/") == 1 && slices.ContainsFunc(ledgers, is)
		if (slices.ContainsFunc(stateOwn, is) || slices.ContainsFunc(stateFolders, is)) && !served && stateAt(filepath.Dir(at)) {
			return strings.ToLower(name)
		}
		below = filepath.Join(name, below)
	}
	return ""
}

// OfState reports whether a path, without symlinks, is that of a node's state directory, or of what is for the node alone there.
func OfState(path string) bool { return stateAt(path) || ownOfState(path) != "" }

// onState reports whether a share in a folder would be, or be among, what is for a node alone in a state directory. The node itself fetches
// into its folders of ledgers.
func onState(dir, name string) bool {
	return OfState(filepath.Join(dir, name)) && !slices.Contains(ledgers, ownOfState(dir))
}

// stateAt is isState for the folder at a path.
func stateAt(path string) bool {
	d, err := vfs.Dir(path)
	if err != nil {
		return false
	}
	defer d.Close()
	return isState(d, func(name string, t fs.FileMode) bool {
		info, err := d.Lstat(name)
		return err == nil && info.Type == t
	})
}

// leaveState leaves a state directory out of what is shared, or refuses it if it is all that was to be shared.
func (s *scan) leaveState(prefix string) error {
	if prefix == "" {
		return words.Error(share.ErrPath, "the %v", errState)
	}
	s.excluded++
	s.left = append(s.left, fmt.Sprintf("%q was left out: the %v", strings.TrimSuffix(prefix, "/"), errState))
	return nil
}
