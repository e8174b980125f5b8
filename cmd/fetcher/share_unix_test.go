//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// A path that may not be looked at is said to be that, and not to be nothing.
func TestAPathThatMayNotBeReadIsNotSaidToBeMissing(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root reads all")
	}
	locked := filepath.Join(t.TempDir(), "locked")
	must(t, os.Mkdir(locked, 0))
	for _, with := range [][]string{{"share"}, {"add"}, {"ls"}, {"fleet", "add"}} {
		r := inDir(t, t.TempDir(), append(with, filepath.Join(locked, "t"))...)
		if r.code != exitUsage || !strings.Contains(r.stderr, "may not be read by this user") {
			t.Errorf("%v: exit %d, %s", with, r.code, r.stderr)
		}
	}
}

// What cannot be shared is named, with the flags that leave it out; with them the
// rest is shared.
func TestShareSaysHowToLeaveOutWhatCannotBeShared(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "src")
	for _, name := range []string{"a", "run/b", "it's [mine]/c", "key", "deep/down/x.key"} {
		rig.WriteRandom(t, filepath.Join(src, name), 10, 1)
	}
	for _, name := range []string{"run/p*pe", "it's [mine]/pipe"} {
		if err := syscall.Mkfifo(filepath.Join(src, name), 0o600); err != nil {
			t.Skip(err)
		}
	}
	for _, paths := range [][]string{{src}, {filepath.Join(src, "run"), filepath.Join(src, "it's [mine]"), "--name", "src"}} {
		r := command(t, append([]string{"share", "--listen", "none"}, paths...)...)
		if r.code != exitUsage || strings.Count(r.stderr, "named pipe") != 2 {
			t.Fatalf("exit %d: %s", r.code, r.stderr)
		}
		var flags []string
		for _, m := range regexp.MustCompile(`(?m)^    (--exclude .*)$`).FindAllStringSubmatch(r.stderr, -1) {
			flags = append(flags, m[1])
		}
		if len(flags) != 2 {
			t.Fatalf("suggests %q: %s", flags, r.stderr)
		}
		words := strings.Split(strings.TrimSuffix(output(t, "sh", "-c", `printf '%s\0' `+strings.Join(flags, " ")), "\x00"), "\x00")
		if l := runShare(t, nil, append(words, paths...)...).next(t, "share"); l.Name != "src" {
			t.Errorf("shared %+v", l)
		}
	}
	pair := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(pair, "\xff\xfe"), 0o600); err != nil {
		t.Skip(err)
	}
	for _, want := range []string{"--exclude '/??'", "could match other files"} {
		if r := command(t, "share", "--listen", "none", pair); r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("exit %d, want %q: %s", r.code, want, r.stderr)
		}
		rig.WriteRandom(t, filepath.Join(pair, "aa"), 10, 1)
	}
	s := startShare(t, src, "--exclude", "*.key", "--exclude", "/key", "--exclude", "run/", "--exclude", "**/pipe", "--exclude", "nothing")
	var got []string
	for _, l := range command(t, "ls", s.ticket).lines {
		if l.Type == "file" {
			got = append(got, l.Path)
		}
	}
	if s := strings.Join(got, " "); s != "src/a src/it's [mine]/c" {
		t.Errorf("shared %s", s)
	}
	s.stop(t)
	if said := s.stderr.String(); !strings.Contains(said, `--exclude "nothing" left nothing out`) || !strings.Contains(said, "left out 4 files and folders") {
		t.Errorf("it said: %s", said)
	}
}

// What share refuses, add refuses with the same words, advice and exit code.
func TestAddRefusesAsShareDoes(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	n := startNode(t, t.TempDir())
	links, pipe, out, mixed := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{links, pipe, out, mixed} {
		rig.WriteRandom(t, filepath.Join(dir, "a"), 10, 1)
	}
	must(t, os.Symlink("a", filepath.Join(links, "x")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(out, "x")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(mixed, "x")))
	rig.WriteRandom(t, filepath.Join(mixed, "b\x01"), 10, 1)
	if err := syscall.Mkfifo(filepath.Join(pipe, "p"), 0o600); err != nil {
		t.Skip(err)
	}
	for dir, want := range map[string]string{pipe: "ls reads all of a PATH", mixed: "ls reads all of a PATH", out: "leave links out with --links skip"} {
		if _, says, _ := inside("ls", dir, "--dir", t.TempDir()); !strings.Contains(says, want) {
			t.Errorf("ls: %s, want %s", says, want)
		}
	}
	for _, x := range []struct {
		code  int
		wants string
		args  []string
	}{
		{exitUsage, "--exclude /x", []string{links, "--links", "refuse"}},
		{exitUsage, "--exclude /p", []string{pipe}},
		{exitUsage, "--exclude /" + filepath.Base(pipe) + "/p", []string{pipe, links, "--name", "y"}},
		{exitPath, "leave it out with --exclude PATTERN, or all links with --links skip", []string{out}},
		{exitPath, "leave these out with --exclude PATTERN.", []string{mixed}},
		{exitPath, "is never shared", []string{n.dir}},
		{exitUsage, "it is a device", []string{os.DevNull}},
	} {
		_, shared, code := inside(append([]string{"share", "--listen", "none", "--dir", t.TempDir()}, x.args...)...)
		_, added, codeToo := inside(append([]string{"add", "--dir", n.dir}, x.args...)...)
		if code != x.code || codeToo != x.code || !strings.Contains(shared, x.wants) {
			t.Errorf("%q: exit %d and %d: %s", x.args, code, codeToo, shared)
		}
		if !strings.HasSuffix(added, strings.TrimPrefix(shared, "fetcher: ")) {
			t.Errorf("share said %s\nand add %s", shared, added)
		}
	}
}

// A symbolic link to itself is said to be that.
func TestALinkToItselfIsNamed(t *testing.T) {
	t.Parallel()
	loop := filepath.Join(t.TempDir(), "loop")
	must(t, os.Symlink("loop", loop))
	for _, args := range [][]string{{"share", loop}, {"share", t.TempDir(), loop}, {"ls", loop}} {
		_, said, code := inside(append(args, "--listen", "none", "--dir", t.TempDir())...)
		if code != exitUsage || !strings.Contains(said, "fetcher: "+loop+" is a symbolic link that leads back to itself") {
			t.Errorf("%s: exit %d, %s", args, code, said)
		}
	}
	if _, err := store.Import(t.Context(), loop, store.ImportOptions{}); !errors.Is(err, syscall.ELOOP) || !strings.HasPrefix(err.Error(), loop) {
		t.Errorf("imported: %v", err)
	}
}

// What is not UTF-8 would reach the node as the path of another file.
func TestAddRefusesPathsThatAreNotUTF8(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	bad, good := filepath.Join(dir, "sv\xff"), filepath.Join(dir, "good")
	for _, at := range []string{bad, good} {
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Skip("this disk has no such names:", err)
		}
	}
	id := share.IDOf([]byte("x")).String()
	for _, args := range [][]string{{id, "-o", filepath.Join(dir, "in\xff")}, {bad}, {bad, "--name", "x"}, {good, bad}} {
		r := command(t, append([]string{"add", "--dir", state}, args...)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, `\xff" is not UTF-8, and the node cannot be told of it: give it another name first`) {
			t.Errorf("%q: exit %d: %s", args, r.code, r.stderr)
		}
	}
}
