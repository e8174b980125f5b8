package p2p

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// doorman asks for one secret of one share.
type doorman struct {
	id     share.ID
	secret share.Secret

	mu     sync.Mutex
	proven []peers.ID
}

func (d *doorman) Secret(id share.ID) *share.Secret {
	if id != d.id {
		return nil
	}
	return &d.secret
}

func (d *doorman) Proved(_ share.ID, peer peers.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.proven = append(d.proven, peer)
}

func (d *doorman) knows(peer peers.ID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.proven, peer)
}

// Only a peer that knows the secret is let in: of several secrets that it knows one is right, and each
// belongs to its own share.
func TestASecretIsProven(t *testing.T) {
	d := &doorman{id: share.IDOf([]byte("a")), secret: share.Secret{7}}
	src := newHost(t, Config{})
	src.AskFor(d)
	for name, c := range map[string]struct {
		id     share.ID
		knows  []share.Secret
		proven bool
	}{
		"nothing":        {id: d.id},
		"another":        {id: d.id, knows: []share.Secret{{8}}},
		"it":             {id: d.id, knows: []share.Secret{{7}}, proven: true},
		"it, among some": {id: d.id, knows: []share.Secret{{8}, {7}, {9}}, proven: true},
		"of another":     {id: share.IDOf([]byte("b")), knows: []share.Secret{{7}}},
	} {
		h := newHost(t, Config{Listen: []string{"none"}})
		var forget []func()
		for _, s := range c.knows {
			forget = append(forget, h.Know(c.id, s, func() {}))
		}
		to, err := h.connect(t.Context(), addr(src))
		if err != nil {
			t.Fatal(err)
		}
		h.prove(t.Context(), to, src.ID(), c.id)
		if got := d.knows(h.ID()); got != c.proven {
			t.Errorf("whoever knows %s: proven %v, want %v", name, got, c.proven)
		}
		for _, f := range forget {
			f()
		}
		if len(h.secrets.of) > 0 {
			t.Errorf("%s: what was to be forgotten is known", name)
		}
	}
}

// A peer that stands between two that know the secret, and passes on what each says, gets in nowhere: not
// as one that asks, with another's proof, nor as a source, to which nothing is proven.
func TestAProofCannotBePassedOn(t *testing.T) {
	d := &doorman{id: share.IDOf([]byte("a")), secret: share.Secret{7}}
	src := newHost(t, Config{})
	src.AskFor(d)
	between := newHost(t, Config{})
	heard := make(chan []byte, 1)
	between.host.SetStreamHandler(wire.ProveProtocol, func(s network.Stream) {
		defer s.Reset()
		r := bufio.NewReader(s)
		question, err := wire.ReadFrame(r, wire.MaxRequest, nil)
		if err != nil {
			t.Error(err)
		}
		on := rawStream(t, between, src, wire.ProveProtocol)
		on.Write(wire.AppendFrame(nil, question))
		answer, err := wire.ReadFrame(bufio.NewReader(on), wire.MaxRequest, nil)
		if err != nil {
			t.Error(err)
		}
		s.Write(wire.AppendFrame(nil, answer))
		rest, _ := io.ReadAll(r)
		heard <- rest
		on.Write(wire.AppendFrame(nil, wire.AppendProve(nil, wire.Prove{Proof: bytes.Repeat([]byte{1}, wire.ProofSize)})))
		if _, err := readEnd(t, on); err == nil {
			t.Error("a wrong proof was taken")
		}
	})
	h := newHost(t, Config{Listen: []string{"none"}})
	defer h.Know(d.id, d.secret, func() { t.Error("asked by one that does not know it") })()
	to, err := h.connect(t.Context(), addr(between))
	if err != nil {
		t.Fatal(err)
	}
	h.prove(t.Context(), to, between.ID(), d.id)
	if rest := recv(t, "what was proven", heard); len(rest) > 0 {
		t.Errorf("%d bytes were sent to a source that does not know the secret", len(rest))
	}
	if d.knows(between.ID()) || d.knows(h.ID()) {
		t.Error("proven")
	}
}

// A frame that is not a question of ours costs the stream.
func TestQuestionsForSecretsAreChecked(t *testing.T) {
	rig.Slow(t)
	d := &doorman{id: share.IDOf([]byte("a")), secret: share.Secret{7}}
	nonce := make([]byte, wire.NonceSize)
	for name, question := range map[string][]byte{
		"no share": wire.AppendProve(nil, wire.Prove{Nonce: nonce}),
		"no nonce": wire.AppendProve(nil, wire.Prove{Share: d.id}),
		"empty":    {},
		"garbage":  bytes.Repeat([]byte{0xff}, 40),
	} {
		src, h := newHost(t, Config{}), newHost(t, Config{Listen: []string{"none"}})
		src.AskFor(d)
		s := rawStream(t, h, src, wire.ProveProtocol)
		s.Write(wire.AppendFrame(nil, question))
		if got, err := readEnd(t, s); err == nil || len(got) > 0 {
			t.Errorf("%s: answered with %x", name, got)
		}
		eventually(t, "the count of what was no protocol of ours", func() bool { return src.Dropped() == 1 })
	}
}
