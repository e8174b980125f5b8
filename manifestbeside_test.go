package fetcher

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// A question for a list of files by the share's ID alone, which nobody answers, does not hold up a fetch, or
// another question, whose ticket leads to a source.
func TestATicketIsUsedBesideAQuestionByIDAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	s := shareOf(t, file)
	for what, use := range map[string]func(context.Context, *Node) error{
		"fetch": func(ctx context.Context, n *Node) error {
			f, err := n.Fetch(ctx, s.Ticket(), FetchOptions{Dir: t.TempDir()})
			if err == nil {
				err = f.Wait(ctx)
			}
			return err
		},
		"list": func(ctx context.Context, n *Node) error {
			_, err := n.Manifest(ctx, s.Ticket(), nil)
			return err
		},
	} {
		a := announcer{looked: make(chan struct{}, 9)}
		n := openNode(t, func(c *Config) { c.Discovery = &a })
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan struct{})
		go func() {
			defer close(asked)
			_, _ = n.Manifest(ctx, s.ID().String(), nil)
		}()
		<-a.looked
		limited, end := context.WithTimeout(t.Context(), 15*time.Second)
		if err := use(limited, n); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		end()
		cancel()
		<-asked
	}
}

// A fetch by the share's ID alone gets the source of a ticket that somebody else has.
func TestATicketHelpsAFetchByIDAlone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeRandom(t, file, 1<<20, 1)
	s := shareOf(t, file)
	a := announcer{looked: make(chan struct{}, 9)}
	n := openNode(t, func(c *Config) { c.Discovery = &a })
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	f, err := n.Fetch(ctx, s.ID().String(), FetchOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	<-a.looked
	if _, err := n.Manifest(ctx, s.Ticket(), nil); err != nil {
		t.Error(err)
	}
	if err := f.Wait(ctx); err != nil {
		t.Error(err)
	}
}

// Whoever ends a question does not hear that a time was over.
func TestAQuestionThatIsCancelledIsNotLate(t *testing.T) {
	a := announcer{looked: make(chan struct{}, 9)}
	n := openNode(t, func(c *Config) { c.Discovery = &a })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-a.looked; cancel() }()
	if _, err := n.Manifest(ctx, share.IDOf([]byte("x")).String(), nil); !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "in time") {
		t.Error(err)
	}
}
