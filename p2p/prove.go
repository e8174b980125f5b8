package p2p

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Secrets are the secrets that a node asks others for.
type Secrets interface {
	// Secret is what a peer must know to have a share; nil: nothing.
	Secret(id share.ID) *share.Secret
	// Proved says that a peer knows it.
	Proved(id share.ID, peer peers.ID)
}

// AskFor makes peers prove that they know the secrets of what is served.
func (h *Host) AskFor(of Secrets) {
	h.handle(wire.ProveProtocol, func(s *counted, from peers.ID) error { return h.verify(of, s, from) })
}

// errNoProof says that a peer does not know a secret.
var errNoProof = errors.New("the peer does not know the secret")

// verify answers one question.
func (h *Host) verify(of Secrets, s *counted, from peers.ID) error {
	t := h.cfg.Timeouts
	s.SetReadDeadline(time.Now().Add(t.Request))
	r := bufio.NewReaderSize(s, 256)
	q, err := readProve(r)
	if err != nil {
		return err
	}
	if q.Share.IsZero() || len(q.Nonce) == 0 {
		return fmt.Errorf("%w: a question about a secret names no share, or has no nonce", peers.ErrProtocol)
	}
	secret := of.Secret(q.Share)
	if secret == nil {
		return writeProve(s, wire.Prove{}, t)
	}
	nonce := make([]byte, wire.NonceSize)
	rand.Read(nonce)
	if err := writeProve(s, wire.Prove{Nonce: nonce, Proof: wire.ProofOf(*secret, q.Share, h.id, from, true, q.Nonce)}, t); err != nil {
		return err
	}
	a, err := readProve(r)
	if err != nil {
		return err
	}
	if !hmac.Equal(a.Proof, wire.ProofOf(*secret, q.Share, from, h.id, false, nonce)) {
		return errNoProof
	}
	of.Proved(q.Share, from)
	return writeProve(s, wire.Prove{}, t)
}

func readProve(r *bufio.Reader) (wire.Prove, error) {
	frame, err := wire.ReadFrame(r, wire.MaxRequest, nil)
	if err != nil {
		return wire.Prove{}, err
	}
	return wire.ParseProve(frame)
}

func writeProve(s *counted, p wire.Prove, t Timeouts) error {
	return writeAll(s, wire.AppendFrame(nil, wire.AppendProve(nil, p)), t.Stall)
}

// secrets are those that this node knows, as one that asks for shares.
type secrets struct {
	mu sync.Mutex
	of map[share.ID][]*known
}

// known is a secret, and whom to tell that a source asks for it.
type known struct {
	secret share.Secret
	asked  func()
}

// Know makes the host prove that it knows the secret of a share to each peer that it asks for
// the share, until forget is called. asked is called each time a peer that knows the secret asks for it.
func (h *Host) Know(id share.ID, secret share.Secret, asked func()) (forget func()) {
	k := &h.secrets
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil {
		k.of = map[share.ID][]*known{}
	}
	this := &known{secret, asked}
	k.of[id] = append(k.of[id], this)
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.of[id] = slices.DeleteFunc(k.of[id], func(o *known) bool { return o == this }); len(k.of[id]) == 0 {
			delete(k.of, id)
		}
	})
}

// prove shows a connected peer that this host knows the secrets of a share, if it does. The
// peer's later answers show whether it helped: a peer that does not know the protocol, or asks
// for no secret, may give the share all the same.
func (h *Host) prove(ctx context.Context, to peer.ID, at peers.ID, id share.ID) {
	h.secrets.mu.Lock()
	all := slices.Clone(h.secrets.of[id])
	h.secrets.mu.Unlock()
	for _, k := range all {
		if err := h.proveOne(ctx, to, at, id, k); err != nil {
			h.log.Debug("the secret was not proven", "peer", at, "share", id.Short(), "err", err)
		}
	}
}

func (h *Host) proveOne(ctx context.Context, to peer.ID, at peers.ID, id share.ID, k *known) error {
	t := h.cfg.Timeouts
	s, err := openEarly(ctx, h, to, at, wire.ProveProtocol)
	if err != nil {
		return err
	}
	defer s.uncount()
	defer s.Reset()
	defer context.AfterFunc(ctx, func() { s.Reset() })()
	s.SetReadDeadline(time.Now().Add(t.Request))
	nonce := make([]byte, wire.NonceSize)
	rand.Read(nonce)
	if err := writeProve(s, wire.Prove{Share: id, Nonce: nonce}, t); err != nil {
		return err
	}
	r := bufio.NewReaderSize(s, 256)
	a, err := readProve(r)
	switch {
	case err != nil:
		return err
	case len(a.Nonce) == 0 && len(a.Proof) == 0:
		return nil // it asks for none
	case len(a.Nonce) == 0 || !hmac.Equal(a.Proof, wire.ProofOf(k.secret, id, at, h.id, true, nonce)):
		return errNoProof
	}
	k.asked()
	if err := writeProve(s, wire.Prove{Proof: wire.ProofOf(k.secret, id, h.id, at, false, a.Nonce)}, t); err != nil {
		return err
	}
	_, err = readProve(r) // so that the proof has arrived before anything is asked
	return err
}
