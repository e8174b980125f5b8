package actors

import (
	"context"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Ledger is the durable record of what a depot has promised: each method is one transaction.
// leasedb.DB is one, and documents the methods.
type Ledger interface {
	AccountOf(ctx context.Context, peer peers.ID) (depot.Account, error)
	Admit(ctx context.Context, now time.Time, peer peers.ID, s depot.Terms, most int64) (depot.Account, error)
	Keys(ctx context.Context, id depot.Account) ([]peers.ID, error)
	Info(ctx context.Context, now time.Time, id depot.Account) (depot.AccountInfo, error)

	Hold(ctx context.Context, now time.Time, a depot.Ask) (depot.Granted, error)
	Replace(ctx context.Context, now time.Time, r depot.Replace) (depot.Granted, error)
	Renew(ctx context.Context, now time.Time, a depot.Ask) (depot.Granted, error)
	Release(ctx context.Context, now time.Time, a depot.Ask) (depot.Granted, error)
	Intend(ctx context.Context, now time.Time, p depot.Payment) (done bool, mark [16]byte, err error)
	Forgo(ctx context.Context, p depot.Payment) error
	Deposit(ctx context.Context, now time.Time, p depot.Payment) error
	Holdings(ctx context.Context, now time.Time, account depot.Account, after share.ID, limit int) ([]depot.Lease, error)
	Leases(ctx context.Context, now time.Time, id share.ID) ([]depot.Lease, error)

	Share(ctx context.Context, id share.ID) (depot.Kept, error)
	Shares(ctx context.Context, after share.ID, limit int) ([]depot.Kept, error)
	In(ctx context.Context, state depot.State, after share.ID, limit int) ([]depot.Kept, error)

	Measure(ctx context.Context, now time.Time, id share.ID, bytes int64) (ended []depot.Account, err error)
	Fail(ctx context.Context, now time.Time, id share.ID) (ended []depot.Account, err error)
	Complete(ctx context.Context, now time.Time, id share.ID) error
	Mended(ctx context.Context, now time.Time, id share.ID) error
	Found(ctx context.Context, now time.Time, id share.ID, bytes int64, whole bool, leases []depot.Promise) (depot.State, error)
	Looked(ctx context.Context, now, elapsed time.Time, id share.ID, bad *share.Set) (depot.State, error)

	Candidates(ctx context.Context, now time.Time, after share.ID, limit int) (out []depot.Kept, last share.ID, err error)
	MayGo(ctx context.Context, now time.Time, id share.ID) (bool, error)
	Collect(ctx context.Context, now time.Time, id share.ID) error
	Removable(ctx context.Context, now time.Time, id share.ID) (bool, error)
	Removed(ctx context.Context, now time.Time, id share.ID) error
	Sweep(ctx context.Context, now time.Time, limit int) (n int, done bool, err error)

	Meta(ctx context.Context) (depot.Meta, error)
	SetIdentity(ctx context.Context, depot, self string) error
	SetFolder(ctx context.Context, folder string) error
	SetClock(ctx context.Context, now time.Time, clock []byte, frozen bool) error
	Step(ctx context.Context, from, now time.Time, clock []byte) error
	SetPlace(ctx context.Context, self string, place []byte) error
	CycleDone(ctx context.Context, now time.Time, self string, c depot.Cycle) error

	// Corrupt reports whether an error means that the database is damaged. BeginAnew then
	// sets it aside and begins another.
	Corrupt(err error) bool
	BeginAnew(ctx context.Context) error
}

// Keep is what a depot has on its disk. Its methods may take as long as a disk takes.
type Keep interface {
	// Ready says whether the disk is there, and is the one that the ledger speaks of.
	Ready(ctx context.Context, l Ledger) error
	// Forget makes Ready check anew, because the ledger was replaced.
	Forget()
	// Free is the number of bytes that still fit.
	Free() (int64, error)

	// Sources are the peers to fetch a share from, as stored by SaveSources for each that holds it.
	Sources(id share.ID) []peers.Addr
	SaveSources(id share.ID, by peers.ID, from []peers.Addr) error
	// Manifest is the manifest of a share; nil if it is not here.
	Manifest(id share.ID) *share.Manifest
	// Open opens the place of a share, to fetch its missing pieces. It takes those that other shares have, which are like
	// it, from the disk.
	Open(ctx context.Context, m *share.Manifest, wanted []bool, like []share.ID) (Target, error)

	// After is the next shares on the disk after an ID, in order and without a gap up to
	// the last of them; none if there are no more.
	After(id share.ID) ([]share.ID, error)
	// Look checks the names and sizes of the files of a share.
	Look(id share.ID) (depot.OnDisk, error)
	// Scrub compares the pieces of a share from p on with its manifest, until enough returns
	// true; it adds to bad, and returns the next piece.
	Scrub(m *share.Manifest, p share.Piece, bad *share.Set, enough func(read int) bool) (share.Piece, error)

	// Withdraw stops serving a share, and reports whether it was the depot that served it.
	Withdraw(id share.ID) (ours bool)
	// Remove removes everything of a share, and checks that it is gone.
	Remove(id share.ID) error
	// Sweep removes what is left of shares that were being removed.
	Sweep() error
}
