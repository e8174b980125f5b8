package daemon

import (
	"os"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// Where others may use the socket of a node, as on a disk that keeps no permissions, they would read all that its owner can: the node does not listen there.
func TestASocketThatOthersMayUseIsRefused(t *testing.T) {
	t.Parallel()
	dir := rig.NTFS(t)
	l, err := begun(t, dir).Listen()
	if err != nil {
		return
	}
	defer l.close()
	info, err := os.Stat(Socket(dir))
	must(t, err)
	if info.Mode().Perm()&0o077 != 0 {
		t.Error("it listens at a socket that is everybody's:", info.Mode())
	}
}
