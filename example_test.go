package fetcher_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/piecelease/fetcher"
)

// One node shares a folder, another fetches it.
func Example() {
	tmp, err := os.MkdirTemp("", "fetcher")
	check(err)
	defer os.RemoveAll(tmp)
	check(os.Mkdir(filepath.Join(tmp, "photos"), 0o755))
	check(os.WriteFile(filepath.Join(tmp, "photos", "a.txt"), []byte("hello"), 0o644))

	ctx := context.Background()
	local := []string{"/ip4/127.0.0.1/tcp/0"}
	alice, err := fetcher.Open(ctx, fetcher.Config{Dir: filepath.Join(tmp, "alice"), Listen: local})
	check(err)
	defer alice.Close()
	s, err := alice.Share(ctx, filepath.Join(tmp, "photos"), fetcher.ShareOptions{})
	check(err)
	bob, err := fetcher.Open(ctx, fetcher.Config{Dir: filepath.Join(tmp, "bob"), Listen: local})
	check(err)
	defer bob.Close()
	t, err := bob.Fetch(ctx, s.Ticket(), fetcher.FetchOptions{Dir: tmp + "/bob"})
	check(err)
	check(t.Wait(ctx))

	got, err := os.ReadFile(filepath.Join(t.Path(), "a.txt"))
	check(err)
	fmt.Println(string(got))
	// Output: hello
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
