package depot

import (
	"errors"
	"fmt"
	"time"

	"github.com/piecelease/fetcher/share"
)

// Account names an account inside of one database.
type Account int64

// StarterAccount is the account that holds what the crawler found. It has no quota and no
// keys: nobody can ask for it.
const StarterAccount Account = 1

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
	if s.MaxLease < time.Second || s.MaxLease > 10*366*24*time.Hour {
		return fmt.Errorf("a longest lease of %v: it must be from 1 s to 10 years", s.MaxLease)
	}
	return nil
}

// Errors about accounts.
var (
	ErrNoAccount = errors.New("no such account")
	ErrNoKey     = errors.New("no account has this key")
	ErrTaken     = errors.New("another account has this name or key")
	ErrInUse     = errors.New("the account holds leases: release them, or wait for their end")
)

// Why a share is not collected: nothing was changed.
var (
	ErrIncomplete = errors.New("the database is not complete: the first cycle of the crawler is not done")
	ErrOff        = errors.New("collecting is off")
	ErrFrozen     = errors.New("the clock is not believed")
	ErrKept       = errors.New("a lease is live, or its grace is not over")
)

// An AccountInfo is an account as its owner sees it.
type AccountInfo struct {
	ID      Account
	Name    string
	Created time.Time
	Terms
	Usage
	Credit int64 // paid and not used up, in MiB-seconds
}

// Usage is what the live leases of an account count.
type Usage struct {
	Used     int64 // bytes
	Complete bool  // false until the first cycle of the crawler is done: there may be more
}

// An Ask is what an account wants. Request names it: the same Ask with the same
// Request is done once and answered alike, until the lease that it made ends.
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
	Added   time.Duration // how much longer the share is leased than it was
}

// A Payment is what an account pays with passes, once for each request.
type Payment struct {
	Account Account
	Request [16]byte
	Units   int64
}

// A Replace asks that a name stand for Ask.Share once that is stable.
type Replace struct {
	Ask
	Name string // 1 to 256 bytes
	// Expect is what the name stands for now; zero: nothing. If it is another
	// share, or another replacement runs, the refusal says so.
	Expect share.ID
	// Supersedes is the share that is coming under this name and shall not; zero if
	// none is.
	Supersedes share.ID
}

// A Name stands for one share of an account after the other. Coming takes the place
// of Share as soon as it is stable; until then both are leased.
type Name struct {
	Name          string
	Share, Coming share.ID // zero if there is none
}

// A Lease is one that is live.
type Lease struct {
	Share   share.ID
	Account Account
	State   State
	Bytes   int64
	Granted time.Time // when it was made
	Renewed time.Time // when its end was last moved
	Expires time.Time
}

// A Promise is a lease as it lies beside the data: by the account's name, which
// outlives the database.
type Promise struct {
	Account string
	Expires time.Time
}

// Kept is a share as the database knows it.
type Kept struct {
	Share  share.ID
	State  State
	Bytes  int64     // what it takes, or the most that was declared if its manifest is not here
	Since  time.Time // when it came into its state
	Struck bool      // the last look found it damaged
}

// A Tally counts shares, and the bytes that they take.
type Tally struct{ Shares, Bytes int64 }

// OnDisk is what a look at a share on the disk found.
type OnDisk struct {
	Gone     bool            // not even its folder is there
	Manifest *share.Manifest // nil: there is none
	Whole    bool            // it has its name: all of it was here once
	Bad      *share.Set      // pieces of files that are missing, or of another size; with a Manifest
	Leases   []Promise
}

// Meta is what the database knows of itself.
type Meta struct {
	CompleteSince time.Time // zero: it is not
	GC, Frozen    bool
	Clock, Place  []byte // as they were set; nil: never
	Depot, Self   string // the names of the depot and of this database; empty: not yet
}

// A Cycle is the report of a cycle of the crawler, whose words are its own.
type Cycle struct {
	Cycle  int64
	Report []byte
}
