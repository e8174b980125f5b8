package depot

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/piecelease/fetcher/share"
)

// Account names an account within one database.
type Account int64

// StarterAccount is the account that holds what the crawler found. It has no quota and no
// keys: nobody can ask on its behalf.
const StarterAccount Account = 1

// MaxStrangers bounds the accounts that are opened for strangers: a peer ID costs nothing.
const MaxStrangers = 10_000

// LongestLease is the longest that an owner may allow.
const LongestLease = 10 * 366 * 24 * time.Hour

// Terms are what an account may have.
type Terms struct {
	Quota    int64         // bytes, at most MaxBytes
	MaxLease time.Duration // the longest lease, in whole seconds, up to 10 years
	Paid     bool          // leases cost passes: see renewal.Cost
}

// Check says what is out of range.
func (s Terms) Check() error {
	if s.Quota < 0 || s.Quota > MaxBytes {
		return fmt.Errorf("a quota of %d bytes: it must be from 0 to %d", s.Quota, int64(MaxBytes))
	}
	if s.MaxLease < time.Second || s.MaxLease > LongestLease {
		return errors.New("the longest lease of an account must be from 1 s to 10 years")
	}
	return nil
}

// FoundTerms are those of an account that was made of leases found on a disk, until its owner sets others.
var FoundTerms = Terms{MaxLease: time.Second}

// Errors about accounts.
var (
	ErrNoAccount = errors.New("no such account")
	ErrNoKey     = errors.New("no account has this key")
	ErrTaken     = errors.New("another account has this name or key")
	ErrPaying    = errors.New("a payment by the account is not recorded yet")
	ErrCredit    = errors.New("the account has paid for more than it has used")
	ErrInUse     = errors.New("the account holds leases: release them, or wait for their end")
)

// ErrAnew says that the crawler is to begin anew: the database is another one, or its disk was elsewhere, since it began.
var ErrAnew = errors.New("in the meantime the database of leases was begun anew, or the depot's disk was used with another database")

// Why a share is not collected. Nothing was changed.
var (
	ErrIncomplete = errors.New("the database is not complete: the first cycle of the crawler is not done")
	ErrOff        = errors.New("collecting is off")
	ErrFrozen     = errors.New("the clock is not trusted")
	ErrKept       = errors.New("a lease is live, or its grace is not over")
)

// An AccountInfo is an account as its owner sees it.
type AccountInfo struct {
	ID      Account
	Name    string
	Created time.Time
	Terms
	Usage
	Credit   int64 // paid and not used up, in MiB-seconds
	Stranger bool  // it was opened for a peer without the owner's word
}

// Usage is what the live leases of an account take.
type Usage struct {
	Used     int64 // bytes
	Complete bool  // false until the first cycle of the crawler is done: there may be more
}

// An Ask is a request of an account. Request names it: the same Ask with the same
// Request is done once and gets the same answer, until the lease that it made ends.
type Ask struct {
	Account Account
	Request string // 1 to 32 bytes
	Share   share.ID
	Bytes   int64     // what the share takes, see Bytes; not for Release
	Until   time.Time // not for Release
	Space   Space
}

// Granted is the answer to an Ask.
type Granted struct {
	State   State
	Bytes   int64
	Expires time.Time     // zero after Release
	Added   time.Duration // how much longer the share is leased than before
}

// A Payment is what an account pays with passes, once for each request.
type Payment struct {
	Account Account
	Request [16]byte
	Units   int64
}

// A Replace asks that a name point to Ask.Share once that is stable.
type Replace struct {
	Ask
	Name string // 1 to 256 bytes
	// Expect is the share that the name points to now; zero: none. If it is another
	// share, or another replacement is under way, the refusal says so.
	Expect share.ID
	// Supersedes is a share that is coming under this name and is to be cancelled; zero
	// if there is none.
	Supersedes share.ID
}

// A Lease is a live lease.
type Lease struct {
	Share   share.ID
	Account Account
	Name    string // of the account
	State   State
	Bytes   int64
	Granted time.Time // when it was made
	Renewed time.Time // when its end was last moved
	Expires time.Time
}

// A Promise is a lease as stored beside the data: by the account's name, which
// outlives the database.
type Promise struct {
	Account string
	Expires time.Time
}

// Promised is what is to be stored beside the data of a share. If Changes, other leases stay,
// and a lease with no end has ended.
type Promised struct {
	Share   share.ID
	Leases  []Promise
	Changes bool
}

// Changed returns leases after changes in order. No lease ends earlier than it did, unless it
// has ended in between.
func Changed(all, changes []Promise) []Promise {
	at := make(map[string]int, len(all))
	for i, p := range all {
		at[p.Account] = i
	}
	for _, p := range changes {
		i, ok := at[p.Account]
		if !ok {
			i = len(all)
			at[p.Account], all = i, append(all, p)
		}
		if p.Expires.IsZero() || p.Expires.After(all[i].Expires) {
			all[i] = p
		}
	}
	return slices.DeleteFunc(all, func(p Promise) bool { return p.Expires.IsZero() })
}

// Kept is a share as recorded in the database.
type Kept struct {
	Share  share.ID
	State  State
	Bytes  int64     // what it takes, or the most that was declared if its manifest is not here
	Since  time.Time // when it entered its state
	Struck bool      // the last visit found it damaged
}

// A Tally counts shares, the bytes that they take, and their live leases.
type Tally struct{ Shares, Bytes, Leases int64 }

// OnDisk is the result of a visit to a share on the disk.
type OnDisk struct {
	Gone     bool            // its folder is not there, or a crash left it empty
	Manifest *share.Manifest // nil: there is none
	Whole    bool            // it has its final name: it was complete once
	Bad      *share.Set      // pieces of files that are missing, or have another size; with a Manifest
	Leases   []Promise
}

// Meta is what the database knows about itself.
type Meta struct {
	CompleteSince time.Time // zero: it is not complete
	GC, Frozen    bool
	Clock, Place  []byte // as they were set; nil: never
	Depot, Self   string // the names of the depot and of this database; empty: not yet
	Folder        string // where the depot's folder was the last time; empty: not known
}

// A Cycle is the crawler's report of a cycle, in the crawler's own encoding.
type Cycle struct {
	Cycle  int64
	Report []byte
}
