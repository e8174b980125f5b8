package fetcher

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// giving is a code that a node gives out.
type giving struct {
	code string
	end  chan error
}

func gives(t *testing.T, ctx context.Context, n *Node, ticket string) giving {
	t.Helper()
	g, codes := giving{end: make(chan error, 1)}, make(chan string, 1)
	go func() { g.end <- n.GiveTicket(ctx, ticket, func(code string, _ time.Duration) { codes <- code }) }()
	select {
	case g.code = <-codes:
	case err := <-g.end:
		t.Fatal(err)
	case <-time.After(30 * time.Second):
		t.Fatal("no code")
	}
	return g
}

func TestATicketTravelsByACode(t *testing.T) {
	t.Parallel()
	beacon := openBeacon(t)
	source, x := openNode(t, uses(addrOf(beacon))), openNode(t, uses(addrOf(beacon)))
	s, err := source.Share(t.Context(), someFile(t, 1<<18), ShareOptions{Secret: true})
	must(t, err)
	g := gives(t, t.Context(), source, s.Ticket())
	if _, err := x.TakeTicket(t.Context(), g.code+"x"); !errors.Is(err, ErrBadCode) {
		t.Errorf("a mistyped word: %v", err)
	}
	ticket, err := x.TakeTicket(t.Context(), strings.ToUpper(strings.ReplaceAll(g.code, "-", " ")))
	if err != nil || ticket != s.Ticket() {
		t.Fatalf("%q, %v", ticket, err)
	}
	must(t, <-g.end)
	if _, err := fetchInto(t, x, ticket, t.TempDir(), FetchOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := x.TakeTicket(t.Context(), g.code); !errors.Is(err, ErrCodeGone) || !errors.Is(err, share.ErrNotFound) {
		t.Errorf("used: %v", err)
	}

	g = gives(t, t.Context(), source, s.Ticket())
	parts := strings.Split(g.code, "-")
	wrong := CompleteCode(parts[0] + "-" + parts[1] + "-")
	for _, code := range wrong {
		if code != g.code {
			_, err = x.TakeTicket(t.Context(), code)
			break
		}
	}
	if !errors.Is(err, ErrWrongCode) || !errors.Is(err, share.ErrNotAllowed) {
		t.Errorf("other words: %v", err)
	}
	if err := <-g.end; !errors.Is(err, ErrWrongCode) {
		t.Errorf("the source is told %v", err)
	}

	ctx, stop := context.WithCancel(t.Context())
	g = gives(t, ctx, source, s.Ticket())
	stop()
	if err := <-g.end; !errors.Is(err, context.Canceled) {
		t.Errorf("withdrawn: %v", err)
	}
	for end := time.Now().Add(30 * time.Second); ; { // it is withdrawn soon
		if _, err = x.TakeTicket(t.Context(), g.code); errors.Is(err, ErrCodeGone) || time.Now().After(end) {
			break
		}
	}
	if !errors.Is(err, ErrCodeGone) {
		t.Errorf("after it was withdrawn: %v", err)
	}
}

func TestACodeNeedsABeacon(t *testing.T) {
	rig.Slow(t)
	n := openNode(t, uses())
	if _, err := n.TakeTicket(t.Context(), "7-marble-fossil"); !errors.Is(err, ErrNoBeacon) {
		t.Error(err)
	}
	if err := n.GiveTicket(t.Context(), "share", nil); !errors.Is(err, ErrNoBeacon) {
		t.Error(err)
	}
	if err := n.GiveTicket(t.Context(), "", nil); !errors.Is(err, share.ErrTicket) {
		t.Error(err)
	}
	other := openNode(t) // which is none
	if _, err := openNode(t, uses(addrOf(other))).TakeTicket(t.Context(), "7-marble-fossil"); !errors.Is(err, share.ErrNetwork) || !strings.Contains(err.Error(), "is not a beacon") {
		t.Error(err)
	}
}
