package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher"
)

// The tests run this program as others would: the test binary runs as the program when told to.
func TestMain(m *testing.M) {
	if os.Getenv("RUN_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Ranges and whole files are what was shared, and files that nobody asked for are not fetched.
func TestAGatewayPassesOnWhatIsAskedFor(t *testing.T) {
	const size = 64 << 20
	want, text := make([]byte, size), []byte("hello\n")
	rand.Read(want)
	dir := filepath.Join(t.TempDir(), "shared")
	for name, b := range map[string][]byte{"film.bin": want, "notes/a.txt": text} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	node, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	s, err := node.Share(t.Context(), dir, fetcher.ShareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	url := startGateway(t, s.Ticket())
	for _, c := range []struct {
		path, span string
		status     int
		want       []byte
	}{
		{"film.bin", "bytes=33554432-33654431", 206, want[33554432:33654432]},
		{"film.bin", "bytes=-1000", 206, want[size-1000:]},
		{"notes/a.txt", "", 200, text},
		{"film.bin", "bytes=0-9", 206, want[:10]},
		{"film.bin", "bytes=99999999-", 416, nil},
		{"nothing", "", 404, nil},
		{"notes", "", 404, nil},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.span != "" {
			r.Header.Set("Range", c.span)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status || c.want != nil && !bytes.Equal(got, c.want) {
			t.Errorf("%s %s: %s, %d bytes, %v", c.path, c.span, res.Status, len(got), err)
		}
	}
	if _, sent := node.Traffic(); sent > size/2 {
		t.Errorf("%d bytes were sent for some hundred thousand that were asked for", sent)
	}
}

// Whoever asks how long a file is, or for its end, has none of its beginning fetched, whatever it is called.
func TestAGatewayFetchesNothingToNameAKindOfContent(t *testing.T) {
	const size = 4 << 20
	file, want := filepath.Join(t.TempDir(), "disk image"), make([]byte, size)
	rand.Read(want)
	if err := os.WriteFile(file, want, 0o666); err != nil {
		t.Fatal(err)
	}
	node, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	s, err := node.Share(t.Context(), file, fetcher.ShareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	url := startGateway(t, s.Ticket())
	res, err := http.Head(url + "disk%20image")
	if err != nil {
		t.Fatal(err)
	}
	if _, sent := node.Traffic(); res.StatusCode != 200 || res.ContentLength != size || sent > 64<<10 {
		t.Errorf("%s, length %d; %d bytes were sent", res.Status, res.ContentLength, sent)
	}
}

// startGateway starts the gateway and returns its address. It ends with the test.
func startGateway(t *testing.T, ticket string) (url string) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-state", filepath.Join(dir, "state"), "-cache", dir, "-http", "127.0.0.1:0", ticket)
	cmd.Env, cmd.Stderr = append(os.Environ(), "RUN_MAIN=1"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}
