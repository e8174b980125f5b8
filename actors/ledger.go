package actors

import (
	"context"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Ledger is what a depot has promised, durably: each method is one transaction.
// leasedb.DB is one, and says what the methods do.
type Ledger interface {
	AccountOf(ctx context.Context, peer peers.ID) (depot.Account, error)
	Admit(ctx context.Context, now time.Time, peer peers.ID, s depot.Terms, most int64) (depot.Account, error)
	Keys(ctx context.Context, id depot.Account) ([]peers.ID, error)
	Info(ctx context.Context, now time.Time, id depot.Account) (depot.AccountInfo, error)

	Hold(ctx context.Context, now time.Time, a depot.Ask) (depot.Granted, error)
	Replace(ctx context.Context, now time.Time, r depot.Replace) (depot.Granted, error)
	Renew(ctx context.Context, now time.Time, a depot.Ask) (depot.Granted, error)
	Release(ctx context.Context, now time.Time, a depot.Ask) (depot.Granted, error)
	Intend(ctx context.Context, now time.Time, p depot.Payment) (done, known bool, err error)
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
	Collect(ctx context.Context, now time.Time, id share.ID) error
	Removable(ctx context.Context, now time.Time, id share.ID) (bool, error)
	Removed(ctx context.Context, now time.Time, id share.ID) error
	Sweep(ctx context.Context, now time.Time, limit int) (n int, done bool, err error)

	Meta(ctx context.Context) (depot.Meta, error)
	SetIdentity(ctx context.Context, depot, self string) error
	SetClock(ctx context.Context, clock []byte, frozen bool) error
	SetPlace(ctx context.Context, place []byte) error
	CycleDone(ctx context.Context, now time.Time, c depot.Cycle) error

	// Corrupt says whether an error means that the database is damaged, and BeginAnew sets
	// it aside then and begins another.
	Corrupt(err error) bool
	BeginAnew(ctx context.Context) error
}

// Keep is what a depot has on its disk. Its methods may take as long as a disk takes.
type Keep interface {
	// Ready says whether the disk is there, and is the one that the ledger speaks of.
	Ready(ctx context.Context, l Ledger) error
	// Forget has Ready look anew, because the ledger is another.
	Forget()
	// Free is how many bytes still fit.
	Free() (int64, error)

	// Sources are where a share is to be fetched from, as SaveSources kept it.
	Sources(id share.ID) []peers.Addr
	SaveSources(id share.ID, from []peers.Addr) error
	// Manifest is that of a share; nil if it is not here.
	Manifest(id share.ID) *share.Manifest
	// Open opens the place of a share, to fetch what is missing of it.
	Open(ctx context.Context, m *share.Manifest, wanted []bool) (Target, error)

	// After is the next shares on the disk after an ID, in their order, and all up to the
	// last of them; none if there are none.
	After(id share.ID) ([]share.ID, error)
	// Look looks at the names and sizes of a share.
	Look(id share.ID) (depot.OnDisk, error)
	// Scrub compares the pieces of a share from p on with its manifest, until enough says so;
	// it adds to bad, and says which is next.
	Scrub(m *share.Manifest, p share.Piece, bad *share.Set, enough func(read int) bool) (share.Piece, error)

	// Withdraw ends the serving of a share, and says whether it was the depot that served it.
	Withdraw(id share.ID) (ours bool)
	// Remove removes everything of a share, and looks whether it is gone.
	Remove(id share.ID) error
	// Sweep removes what is left of shares that were being removed.
	Sweep() error
}
