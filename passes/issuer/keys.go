package issuer

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/store/vfs"
)

const (
	keysFile = "keys" // one line per key: epoch, size in MiB, private key in hex
	keysTemp = "keys.new"
	maxKeys  = 4096 // bytes
)

var errNoKeys = words.Error(ErrDamaged, "the file issuer/keys in the state directory is missing, but its book of spent passes is there; put back a copy of issuer/keys, or move issuer/book"+orElse)

func readKeys(dir vfs.FS) (keys []*passes.PrivateKey, err error) {
	b, err := vfs.ReadFile(dir, keysFile, maxKeys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseKeys(b)
}

func parseKeys(b []byte) (keys []*passes.PrivateKey, err error) {
	for n, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		var epoch, size uint16
		var text string
		var key *passes.PrivateKey
		_, err := fmt.Sscanf(line, "%d %d %64s", &epoch, &size, &text)
		raw, e := hex.DecodeString(text)
		if err = errors.Join(err, e); err == nil {
			key, err = passes.ParsePrivate(passes.Size(size), passes.Epoch(epoch), raw)
		}
		if err != nil {
			return nil, words.Error(ErrDamaged, "the file issuer/keys in the state directory is damaged in line %d; put back a copy of it, or move it and issuer/book"+orElse, n+1)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

func writeKeys(dir vfs.FS, keys []*passes.PrivateKey) error {
	var b bytes.Buffer
	for _, k := range keys {
		fmt.Fprintf(&b, "%d %d %x\n", k.Epoch, k.Size, k.Secret())
	}
	return vfs.WriteFile(dir, keysFile, keysTemp, b.Bytes(), true)
}

// renewed are the keys that are alive at now, were a month ago, or will be, should the clock have been set
// back, with new ones where there is none that signs. Requests name a key by the last byte of its ID, so no two of a size share it.
func renewed(keys []*passes.PrivateKey, now time.Time, chance io.Reader) (alive []*passes.PrivateKey, changed bool, err error) {
	for _, k := range keys {
		if now.Before(k.Epoch.Forget()) { // as long as the book knows what was spent under it
			alive = append(alive, k)
		}
	}
	changed = len(alive) < len(keys)
	for _, size := range passes.Sizes {
		if signs(alive, size, now) {
			continue
		}
		for fresh := false; !fresh; {
			k, err := passes.NewKey(size, passes.EpochAt(now), chance)
			if err != nil {
				return nil, false, err
			}
			fresh = true
			for _, o := range alive {
				if o.Size == size && o.Tag() == k.Tag() {
					fresh = false
				}
			}
			if fresh {
				alive, changed = append(alive, k), true
			}
		}
	}
	return alive, changed, nil
}

func signs(keys []*passes.PrivateKey, size passes.Size, now time.Time) bool {
	for _, k := range keys {
		if k.Size == size && k.Epoch.Signs(now) {
			return true
		}
	}
	return false
}
