package bubble_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// ---- the app: it knows nothing of simulations ----

// A mirror keeps a copy of a share in a folder, and reports its progress to its user.
type mirror struct {
	config fetcher.Config
	folder string
	tell   func(string)
}

// get fetches a share, for as long as it takes, and returns where it is then.
func (m mirror) get(ctx context.Context, ticket string, peers ...string) (string, error) {
	node, err := fetcher.Open(ctx, m.config)
	if err != nil {
		return "", err
	}
	defer node.Close()
	t, err := node.Fetch(ctx, ticket, fetcher.FetchOptions{Dir: m.folder, Peers: peers, Stall: 24 * time.Hour})
	if err != nil {
		return "", err
	}
	for event := range t.Events(ctx) {
		switch e := event.(type) {
		case fetcher.Stalled:
			m.tell("waiting: " + e.Reason)
		case fetcher.SourceChanged:
			if e.Source.Banned {
				m.tell("banned: " + e.Source.Lie)
			}
		}
	}
	return t.Path(), t.Wait(ctx)
}

// ---- its test: a liar, and a partition of an hour ----

func TestMirrorSurvivesALiarAndAPartition(t *testing.T) {
	rig.Slow(t)
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		home := net.Add(bubble.NodeConfig{Name: "home"})
		honest := net.Add(bubble.NodeConfig{Name: "honest", Line: simnet.Line{Up: 20 * simnet.Mbit, Latency: 30 * time.Millisecond}})
		liar := net.Add(bubble.NodeConfig{Name: "liar", Acts: simnet.Liar(0.5)})
		film := bytes.Repeat([]byte("a film "), 1<<20)
		ticket, err := honest.Serve("film", film)
		check(t, err)
		_, err = liar.Serve("film", film)
		check(t, err)

		go func() {
			time.Sleep(time.Second)
			heal := net.Cut([]*bubble.Node{home}, []*bubble.Node{honest, liar})
			time.Sleep(time.Hour)
			heal()
		}()
		var told []string
		app := mirror{home.Config(), home.Folder(), func(s string) { told = append(told, s) }}
		path, err := app.get(t.Context(), ticket, liar.Addrs()...)
		check(t, err)

		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, film) {
			t.Error("the film is not what it was:", err)
		}
		for _, want := range []string{"waiting: ", "banned: "} {
			if !strings.Contains(strings.Join(told, "\n"), want) {
				t.Errorf("the user was not told that it is %q", want)
			}
		}
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
