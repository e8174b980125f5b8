package fetcher_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A depot may say without end that it keeps more for an account. Whoever asks for all of it does not listen for ever, nor remember what has no bound: it asks
// for as many pages as the renewals of a node do, and then says that the answer does not fit.
func TestADepotThatSaysWithoutEndWhatItKeepsIsNotHeardToTheEnd(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	n := client(t)
	h, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableMetrics(), libp2p.DisableRelay())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	const most, end = 1 << 10, 3 << 10
	pages := uint64(0)
	h.SetStreamHandler(wire.PieceProtocol, func(s network.Stream) { io.Copy(io.Discard, s) })
	h.SetStreamHandler(wire.MessageProtocol, func(s network.Stream) {
		out, err := h.NewStream(t.Context(), s.Conn().RemotePeer(), wire.MessageProtocol)
		if err != nil {
			return
		}
		say := func(e wire.Envelope) { out.Write(wire.AppendFrame(nil, wire.AppendEnvelope(nil, e))) }
		say(wire.Envelope{Kind: wire.KindCredit, Token: 1})
		theirs := uint64(0)
		for r := bufio.NewReader(s); ; {
			frame, err := wire.ReadFrame(r, wire.MaxMessage, nil)
			if err != nil {
				return
			}
			e, err := wire.ParseEnvelope(frame)
			if err == nil && e.Kind == wire.KindCredit && e.Credit == 0 {
				theirs = e.Token
			}
			if err != nil || e.Type != wire.TypeHoldings {
				continue
			}
			pages++
			raw := share.IDOf(nil).Bytes()
			binary.BigEndian.PutUint64(raw[4:], pages)
			id, err := share.IDFromBytes(raw)
			if err != nil {
				return
			}
			now := time.Now().Unix()
			page := wire.HoldingsPage{At: now, More: pages < end, Items: []wire.Holding{{Share: id, State: uint8(depot.Stable), Bytes: 1 << 20, Expires: now + 3600}}}
			say(wire.Envelope{Kind: wire.KindReply, Token: e.Reply, Type: wire.TypeHoldingsPage, Payload: wire.Append(nil, page)})
			say(wire.Envelope{Kind: wire.KindCredit, Token: 1, Reply: theirs, Credit: 1})
		}
	})
	d, err := n.Depot(fmt.Sprintf("%v/p2p/%v", h.Addrs()[0], h.ID()))
	if err != nil {
		t.Fatal(err)
	}
	all, err := d.Holdings(t.Context())
	if err == nil || pages > most {
		t.Errorf("%d leases in %d pages, %v", len(all), pages, err)
	}
}
