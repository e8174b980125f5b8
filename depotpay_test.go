package fetcher_test

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	durable "github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
	"github.com/piecelease/fetcher/wire"
)

// greedy is a ledger that answers each Hold that all of its price is missing, whatever was paid.
type greedy struct{ *leasedb.DB }

func (g greedy) Hold(_ context.Context, now time.Time, a depot.Ask) (depot.Granted, error) {
	units, _ := renewal.Cost(a.Bytes, a.Until.Sub(now), 0)
	return depot.Granted{}, &depot.Refusal{Reason: depot.Unpaid, Room: units}
}

// taker accepts any pass.
type taker struct{ fetcher.Issuer }

func (taker) Worth([]byte) (int64, error) { return 1, nil }
func (taker) Spend(peers.ID, peers.ID, wire.Pay, [16]byte, int64, time.Time) ([]byte, error) {
	return nil, nil
}

// spender is a purse that counts what it gives.
type spender struct {
	begun       atomic.Int64
	asked, paid atomic.Int64
	lease       atomic.Value // for which it was begun last
}

func (s *spender) Pay(_ context.Context, _ peers.Addr, lease share.ID, units int64, _ [][wire.PaymentID]byte) (m wire.Pay, err error) {
	if units > 0 {
		m.ID[0], m.Passes = byte(s.begun.Add(1)), make([]byte, wire.SpendSize)
		s.asked.Store(units)
		s.lease.Store(lease)
	}
	return m, nil
}

func (s *spender) Paid(_ context.Context, _ peers.ID, m wire.Paid) (share.ID, int64, error) {
	if m.Refused != 0 {
		return share.ID{}, 0, &depot.Refusal{Reason: depot.Reason(m.Refused)}
	}
	s.paid.Add(s.asked.Load())
	return s.lease.Load().(share.ID), s.asked.Load(), nil
}

func (s *spender) Counted(context.Context, [][wire.PaymentID]byte) error { return nil }

// A depot that asks for more passes than its leases cost is not paid, even if it asks bit by bit.
func TestADepotThatAsksAgainAndAgainIsPaidOnce(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	k := &keeper{T: t, dir: t.TempDir(), state: t.TempDir(), told: make(chan struct{}, 1000)}
	k.root = disk.New(func() (vfs.FS, error) { return vfs.PrivateDir(k.dir) }, rand.Text)
	db, _, err := leasedb.Open(t.Context(), filepath.Join(k.state, "leases.db"), k.root)
	k.ok(err)
	k.db = db
	k.node, err = fetcher.Open(t.Context(), fetcher.Config{Dir: k.state, Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Depot: &fetcher.DepotConfig{
		Ledger: greedy{db}, Issuer: taker{}, Disk: k.root, Reading: k.reading, Changed: k.changed}})
	k.ok(err)
	t.Cleanup(k.stop)
	purse := &spender{}
	book, _, err := durable.Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	k.ok(err)
	owner, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Holds: &fetcher.HoldsConfig{Book: book, Purse: purse}})
	k.ok(err)
	t.Cleanup(func() { owner.Close(); book.Close() })
	k.account(owner, 1<<30)
	s, err := owner.Share(t.Context(), folderOf(t, album), fetcher.ShareOptions{})
	k.ok(err)
	bytes := fetcher.HoldBytes(s.Manifest())
	l, err := owner.KeepHold(t.Context(), fetcher.Hold{Share: s.ID(), Bytes: bytes}, k.node.Addrs()[:1], false)
	k.ok(err)
	cost, _ := renewal.Cost(bytes, renewal.DefaultLength, 0)
	if paid := purse.paid.Load(); paid > cost {
		t.Errorf("a lease of %d passes was paid with %d in one visit, and is not there: %v", cost, paid, l.Errs)
	}
}
