package fetcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

func opened(t *testing.T, cfg Config) *Node {
	t.Helper()
	n, err := Open(context.Background(), cfg)
	must(t, err)
	t.Cleanup(func() { n.Close() })
	return n
}

// keptPort makes a state directory whose node is to have a port that nobody else takes while it does not run.
func keptPort(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	n := opened(t, Config{Dir: dir, Listen: []string{"none"}})
	must(t, n.state.SavePort(rig.FreePort(t)))
	must(t, n.Close())
	return dir
}

// The addresses of a killed node are known to the next one: the port is saved when it is
// bound, and only the holder of the key saves one or takes it.
func TestThePortOutlivesAKill(t *testing.T) {
	n := opened(t, Config{Dir: t.TempDir()})
	if got := n.state.LoadPort(); got != portOf(n) {
		t.Fatalf("while the node runs, port %d is kept, not its %d", got, portOf(n))
	}
	dir := keptPort(t)
	first := opened(t, Config{Dir: dir})
	port := portOf(first)
	var log rig.Buffer
	second := opened(t, Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, second.Close())
	if !strings.Contains(log.String(), "its addresses and tickets are good only while it runs") {
		t.Errorf("the second said %q", log.String())
	}
	must(t, first.Close())
	fresh := opened(t, Config{Dir: dir, FreshIdentity: true})
	if portOf(fresh) == port {
		t.Error("a node with a key of its own took the port that tickets of the other name")
	}
	again := opened(t, Config{Dir: dir})
	if portOf(again) != port || again.ID() != first.ID() {
		t.Errorf("it was %s on port %d, and is %s on %d", first.ID(), port, again.ID(), portOf(again))
	}
}

func TestAPortThatIsTakenIsSaid(t *testing.T) {
	dir := keptPort(t)
	n := opened(t, Config{Dir: dir})
	port := portOf(n)
	must(t, n.Close())
	l, err := net.Listen("tcp", fmt.Sprint("0.0.0.0:", port))
	must(t, err)
	defer l.Close()
	var log rig.Buffer
	n = opened(t, Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if portOf(n) == port || n.state.LoadPort() != portOf(n) {
		t.Errorf("it listens on %d, and %d is kept", portOf(n), n.state.LoadPort())
	}
	if !strings.Contains(log.String(), "tickets that were handed out name the old one, and may not work") {
		t.Errorf("it said %q", log.String())
	}
}

func TestWhatIsAnnouncedIsNotThePort(t *testing.T) {
	n := opened(t, Config{Dir: t.TempDir(), Announce: []string{"/ip4/192.0.2.1/tcp/5", "/ip4/192.0.2.1/tcp/5"}})
	if portOf(n) == 5 || n.state.LoadPort() == 5 {
		t.Errorf("port %d, kept %d", portOf(n), n.state.LoadPort())
	}
}

func TestASoleNodeIsRefusedBesideAnother(t *testing.T) {
	dir := t.TempDir()
	n := opened(t, Config{Dir: dir})
	if _, err := Open(t.Context(), Config{Dir: dir, Sole: true}); !errors.Is(err, share.ErrHeld) {
		t.Errorf("got %v", err)
	}
	closed := make(chan error)
	go func() { closed <- n.Close() }()
	opened(t, Config{Dir: dir, Sole: true}) // waits a moment for the other to end
	must(t, <-closed)
}
