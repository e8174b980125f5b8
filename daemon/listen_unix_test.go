//go:build unix

package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

func TestASocketIsItsOwnersFromTheBeginning(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system goes by the umask")
	}
	at := filepath.Join(t.TempDir(), "s")
	defer unix.Umask(unix.Umask(0))
	l, err := ownersListener(at)
	must(t, err)
	defer l.Close()
	if info, err := os.Lstat(at); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestOneSocketIsOfOneDaemon(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	at := filepath.Join(t.TempDir(), "s")
	one := begun(t, t.TempDir(), func(c *Config) { c.Socket = at })
	l, err := one.Listen()
	must(t, err)
	two := begun(t, t.TempDir(), func(c *Config) { c.Socket = at })
	if _, err := two.Listen(); !errors.Is(err, share.ErrHeld) || !strings.Contains(err.Error(), "another fetcher uses the socket "+at+"; set socket to another path") {
		t.Errorf("the second: %v", err)
	}
	c, err := net.Dial("unix", at)
	must(t, err) // the first still answers
	c.Close()
	l.close()
	l, err = two.Listen()
	must(t, err)
	l.close()
}

// The socket for others cannot be the one that is its owner's alone.
func TestTheOwnersSocketIsNotForOthers(t *testing.T) {
	t.Parallel()
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "l")
	must(t, os.Symlink(dir, link))
	for socket, at := range map[string]string{dir + "/x/../" + SocketName: dir, dir + "/" + SocketName + "/": dir, filepath.Join(link, SocketName): dir, filepath.Join(dir, SocketName): link} {
		d := begun(t, at, func(c *Config) { c.Socket = socket })
		if _, err := d.Listen(); !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), "only the owner of this state directory may open") {
			t.Errorf("%s: %v", socket, err)
		}
		must(t, d.Close())
	}
}

// A socket on which another program listens is not replaced, though that program holds no lock of ours.
func TestASocketTakesThePlaceOfNoOtherPrograms(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for _, network := range []string{"unix", "unixgram"} {
		at := filepath.Join(t.TempDir(), "s")
		var theirs interface{ Close() error }
		var err error
		if network == "unix" {
			theirs, err = net.Listen(network, at)
		} else {
			theirs, err = net.ListenPacket(network, at)
		}
		must(t, err)
		d := begun(t, t.TempDir(), func(c *Config) { c.Socket = at })
		l, err := d.Listen()
		if err == nil {
			l.close()
		}
		if !errors.Is(err, share.ErrHeld) {
			t.Errorf("%s: %v", network, err)
		}
		if c, err := net.Dial(network, at); err != nil {
			t.Errorf("%s: its program cannot be asked any more: %v", network, err)
		} else {
			c.Close()
		}
		theirs.Close()
	}
}

// A file of an entry may have been replaced by anything since it was listed.
func TestAPipeInThePlaceOfAFileHoldsNobodyUp(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for what, name := range map[string]string{"a file": "f", "a file in a folder": "tree/f"} {
		dir := t.TempDir()
		at := file(t, "content", dir, name)
		d := begun(t, t.TempDir())
		e := added(t, d, api.Add{Paths: []string{filepath.Join(dir, strings.Split(name, "/")[0])}})
		d.watch.close() // the change must not be noticed before the file is opened
		d.watch = nil
		must(t, os.Remove(at))
		must(t, unix.Mkfifo(at, 0o600))
		answered := make(chan error, 1)
		go func() {
			_, err := d.OpenFile(t.Context(), e.ID, "f")
			answered <- err
		}()
		select {
		case err := <-answered:
			if err == nil || !strings.Contains(err.Error(), "pipe") {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it waits for whoever may write to the pipe", what)
		}
	}
}
