package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

func TestTheKeyHasOneUserAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "state")
	a, b := openState(t, dir), openState(t, dir)
	key, stored, err := a.Key()
	if err != nil || !stored {
		t.Fatal(stored, err)
	}
	if again, stored, err := a.Key(); err != nil || !stored || !again.Equal(key) {
		t.Error("the same State got another key")
	}
	other, stored, err := b.Key()
	if err != nil || stored || other.Equal(key) {
		t.Error("two users of one key")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if next, stored, err := openState(t, dir).Key(); err != nil || !stored || !next.Equal(key) {
		t.Error("the key was not kept:", stored, err)
	}
	if info, err := os.Stat(dir); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm() != 0o700) {
		t.Error("others may look into the state:", info.Mode())
	}
}

// Nobody but its owner may read the key, even if the folder is open to others.
func TestTheKeyIsPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits")
	}
	dir := t.TempDir() // 0755
	os.Chmod(dir, 0o755)
	if _, _, err := openState(t, dir).Key(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "key"))
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Error(info.Mode(), err)
	}
}

func TestADamagedKeyIsNotReplaced(t *testing.T) {
	dir := t.TempDir()
	for _, content := range []string{"", "garbage"} {
		os.WriteFile(filepath.Join(dir, "key"), []byte(content), 0o600)
		s := openState(t, dir)
		if _, _, err := s.Key(); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, "key")+", which") {
			t.Errorf("got %v", err)
		}
		s.Close()
		if b, _ := os.ReadFile(filepath.Join(dir, "key")); string(b) != content {
			t.Error("the key was touched")
		}
	}
}

func TestSmallThingsAreKept(t *testing.T) {
	dir := t.TempDir()
	s := openState(t, dir)
	if s.LoadRanking() != nil || s.LoadPort() != 0 {
		t.Error("something from nothing")
	}
	for _, b := range [][]byte{{}, []byte("ranking"), bytes.Repeat([]byte("x"), 100_000)} {
		if err := s.SaveRanking(b); err != nil {
			t.Fatal(err)
		}
		if got := openState(t, dir).LoadRanking(); !bytes.Equal(got, b) {
			t.Errorf("got %d bytes, want %d", len(got), len(b))
		}
	}
	if err := s.SaveRanking(make([]byte, 16<<20+1)); !errors.Is(err, share.ErrLimit) {
		t.Error(err)
	}
	for _, port := range []int{1, 4001, 65535} {
		if err := s.SavePort(port); err != nil {
			t.Fatal(err)
		}
		if got := openState(t, dir).LoadPort(); got != port {
			t.Errorf("port %d, want %d", got, port)
		}
	}
	for _, name := range []string{"ranking", "port"} {
		os.WriteFile(filepath.Join(dir, name), []byte("garbage"), 0o600)
	}
	if s.LoadRanking() != nil || s.LoadPort() != 0 {
		t.Error("something from garbage")
	}
}

func TestManifestsAreKept(t *testing.T) {
	r, dir := newRig(t, small()), t.TempDir()
	s := openState(t, dir)
	if _, err := s.Manifest(r.m.ID()); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	for range 2 {
		if err := s.SaveManifest(r.m); err != nil {
			t.Fatal(err)
		}
		m, err := s.Manifest(r.m.ID())
		if err != nil || m.ID() != r.m.ID() || !bytes.Equal(m.Bytes(), r.m.Bytes()) {
			t.Fatal(err)
		}
	}
	at := filepath.Join(dir, "manifests", r.m.ID().String())
	b, _ := os.ReadFile(at)
	b[len(b)/2] ^= 1
	os.WriteFile(at, b, 0o600)
	if _, err := s.Manifest(r.m.ID()); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a damaged manifest:", err)
	}
}

// A State that fails in the middle leaves what was there.
func TestAStateIsWrittenWholeOrNotAtAll(t *testing.T) {
	for n := 0; ; n++ {
		d := storetest.New(1 << 30)
		s, err := store.OpenStateIn(d.FS())
		if err != nil {
			t.Fatal(err)
		}
		key, _, err := s.Key()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SaveRanking([]byte("old")); err != nil {
			t.Fatal(err)
		}
		s.Close()
		fault, count := nth(n, storetest.Op.Changes, errDisk)
		d.Fault = fault
		if s, err = store.OpenStateIn(d.FS()); err == nil {
			err = s.SaveRanking([]byte("new"))
		}
		if *count <= n {
			return
		}
		if err == nil {
			t.Fatalf("fault %d: no error", n)
		}
		d.Fault = nil
		d.Kill()
		s, err = store.OpenStateIn(d.FS())
		if err != nil {
			t.Fatal(err)
		}
		if got := string(s.LoadRanking()); got != "old" && got != "new" {
			t.Errorf("fault %d: %q", n, got)
		}
		if again, stored, err := s.Key(); !stored || !again.Equal(key) || err != nil {
			t.Errorf("fault %d: the key is gone: %v", n, err)
		}
	}
}

func TestFindIgnoresWhatIsNotIt(t *testing.T) {
	r, dir := newRig(t, small()), t.TempDir()
	if f, err := store.Find(filepath.Join(dir, "no"), r.m.ID()); err != nil || f.Manifest != nil {
		t.Error(f, err)
	}
	tree{"a.partial": "file", "b.partial/manifest": "garbage", "c.partial/": "", "stuff/manifest": string(r.m.Bytes())}.make(t, dir)
	if f, err := store.Find(dir, r.m.ID()); err != nil || f.Manifest != nil {
		t.Error(f, err)
	}
	tree{"whatever.partial/manifest": string(r.m.Bytes())}.make(t, dir)
	if f, err := store.Find(dir, r.m.ID()); err != nil || f.Manifest == nil || !f.Copy || f.Path != filepath.Join(dir, "whatever.partial") {
		t.Error(f, err)
	}
	own := r.m.Name + ".partial"
	tree{own + "/manifest": string(r.m.Bytes())}.make(t, dir)
	if f, err := store.Find(dir, r.m.ID()); err != nil || f.Manifest == nil || f.Copy || f.Path != filepath.Join(dir, own) {
		t.Error(f, err)
	}
}

// Only a limited number of imported paths is remembered.
func TestImportedPathsAreBounded(t *testing.T) {
	d, sd := storetest.New(1<<30), storetest.New(1<<30)
	s, err := store.OpenStateIn(sd.FS())
	if err != nil {
		t.Fatal(err)
	}
	s.RememberPaths(32)
	for i := range 40 {
		f, err := d.FS().Create(fmt.Sprint("f", i), false)
		if err != nil {
			t.Fatal(err)
		}
		f.WriteAt([]byte(fmt.Sprint(i)), 0)
		im, err := store.Import(t.Context(), fmt.Sprint("f", i), store.ImportOptions{FS: d.FS(), State: s, Workers: 1})
		if err != nil {
			t.Fatal(err)
		}
		im.Tree.Close()
	}
	for _, folder := range []string{"imports", "manifests", "hashes"} {
		if list, _ := sd.FS().ReadDir(folder); len(list) != 32 {
			t.Errorf("%s: %d", folder, len(list))
		}
	}
}

// Of one path more than are remembered, each looked at in turn, as a node does every hour, few are read each time.
func TestAPathTooManyHasFewReadAgain(t *testing.T) {
	d, sd := storetest.New(1<<30), storetest.New(1<<30)
	s, err := store.OpenStateIn(sd.FS())
	check(t, err)
	const paths = 33
	s.RememberPaths(paths - 1)
	for round := range 3 {
		read := 0
		for i := range paths {
			name := fmt.Sprint("f", i)
			if round == 0 {
				f, err := d.FS().Create(name, false)
				check(t, err)
				f.WriteAt([]byte(name), 0)
			}
			im, err := store.Import(t.Context(), name, store.ImportOptions{FS: d.FS(), State: s, Workers: 1})
			check(t, err)
			im.Tree.Close()
			if im.Hashed > 0 {
				read++
			}
		}
		if round > 0 && read > paths/2 {
			t.Errorf("%d of %d unchanged files were read again", read, paths)
		}
	}
}
