package fetcher

import (
	"bytes"
	"io"
	"path"
	"sync/atomic"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// write puts a file on a disk in memory.
func write(t *testing.T, d vfs.FS, name string, b []byte) {
	t.Helper()
	if dir := path.Dir(name); dir != "." {
		must(t, d.Mkdir(dir))
	}
	f, err := d.Create(name, false)
	must(t, err)
	_, err = f.WriteAt(b, 0)
	must(t, err)
	must(t, f.Close())
}

func TestANodeWorksOnASimulatedDisk(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	film := bytes.Repeat([]byte("film "), 1<<19)
	for _, name := range []string{"film", "films/film"} {
		from, to := storetest.New(64<<20), storetest.New(64<<20)
		write(t, from.FS(), name, film)
		source := openNode(t, func(c *Config) { c.Dir, c.Simulation.FS = "state", from.FS() })
		at := path.Dir(name) // a folder, or a single file
		if at == "." {
			at = name
		}
		s, err := source.Share(t.Context(), at, ShareOptions{})
		must(t, err)

		first := Config{Dir: "a/state", Listen: loopback, Simulation: Simulation{FS: to.FS()}}
		n, err := Open(t.Context(), first)
		must(t, err)
		id := n.ID()
		x, err := fetchInto(t, n, s.Ticket(), "a/downloads", FetchOptions{})
		must(t, err)
		want := "/a/downloads/" + s.Manifest().Name
		if x.Path() != want {
			t.Errorf("%s is at %s, not %s", name, x.Path(), want)
		}
		r, err := x.Open(t.Context(), s.Manifest().Entry(0).Path)
		must(t, err)
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, film) {
			t.Errorf("%s reads as %d bytes: %v", name, len(got), err)
		}
		must(t, r.Close())
		must(t, n.Close())
		if now, _ := to.Open(); now != 0 {
			t.Error(now, "files are open after Close")
		}

		n, err = Open(t.Context(), first) // with the same key
		must(t, err)
		if n.ID() != id {
			t.Error("the key was not kept")
		}
		x, err = fetchInto(t, n, s.ID().String(), "a/downloads", FetchOptions{}) // from nobody
		must(t, err)
		if p := x.Progress(); p.Resumed != p.Bytes {
			t.Errorf("%d of %d bytes are known", p.Resumed, p.Bytes)
		}
		must(t, n.Close())
	}
}

func TestASimulatedDiskThatIsGoneIsAnError(t *testing.T) {
	d := storetest.New(1 << 20)
	d.CutPower()
	if _, err := Open(t.Context(), Config{Dir: "state", Listen: loopback, Simulation: Simulation{FS: d.FS()}}); err == nil {
		t.Error("no error")
	}
}

func TestSimulationMayChangeWhatIsSent(t *testing.T) {
	t.Parallel()
	src := t.TempDir() + "/film"
	writeRandom(t, src, 1<<20, 3)
	s := shareOf(t, src)
	var sent atomic.Int64
	n := openNode(t, func(c *Config) {
		c.Simulation.Send = func(to peers.ID, frame []byte) [][]byte {
			if to != s.node.ID() {
				t.Error("a message for", to)
			}
			sent.Add(1)
			return [][]byte{{255}, frame} // what is not a message is ignored
		}
	})
	_, err := fetchInto(t, n, s.Ticket(), t.TempDir(), FetchOptions{})
	must(t, err)
	if sent.Load() == 0 {
		t.Error("not asked")
	}
}
