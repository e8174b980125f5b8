package depot

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/share"
)

// MaxBytes is the largest share that can be held, and the largest quota: 2^53 bytes.
const MaxBytes = 1 << 53

// LeastBytes is the least that a share takes: its manifest and its hashes.
const LeastBytes = 2 * page

// page is the unit in which a file system allocates space to a file, in bytes.
const page = 4 << 10

// Bytes is what a lease of a share takes of a quota: its files, each rounded up to
// 4 KiB, the manifest, and the block hashes that are kept with it; and not less than 4 KiB for each
// name in it, as folders, links and empty files take space and say of no bytes. So a share takes no more of a disk than twice
// that, and what is mostly files takes what their bytes do.
func Bytes(m *share.Manifest) int64 {
	names := int64(m.Names())
	if !m.Single() {
		names++ // its folder
	}
	n := paged(int64(len(m.Bytes())))
	hashes := int64(page)
	for _, e := range m.Entries() {
		if e.Kind == share.File {
			n += paged(e.Size)
			hashes += (e.Size + share.BlockSize - 1) / share.BlockSize * int64(len(share.Hash{}))
		}
	}
	return max(n+paged(hashes), names*page)
}

func paged(n int64) int64 { return (n + page - 1) / page * page }

// Reason is why a depot refuses a request.
type Reason uint8

// The reasons. The numbers are sent to peers.
const (
	UnknownAccount  Reason = iota + 1
	OverQuota              // Room is what is left of the quota, in bytes
	NoSpace                // Room is what is left on the disk, in bytes
	Leaving                // the share is being removed; Retry says when to ask again
	WrongBytes             // Room is how large the share is, or the largest that one may be
	NoLease                // the account holds no live lease of the share
	NameMoved              // Current and Coming are the shares of the name
	TooManyRequests        // Retry says when to ask again
	BadTime                // the lease would end before it begins
	BadRequest             // the request ID is missing, too long, or was used for something else
	Away                   // the depot's disk is not there, or the depot has just started, or has found the lease and not its size; Retry says when to ask again
	Unpaid                 // Room is how many passes are missing
	BadPasses              // a pass is not from this issuer, or not for this depot, or its key is not in use
	SpentPasses            // a pass was spent before, for something else
	NoVoucher              // there is no such voucher
	UsedVoucher            // the voucher was redeemed before, by another request
	WrongSum               // the passes are not worth what they should pay for
	NoIssuer               // passes are not issued, or not accepted, here
)

var reasonNames = [...]string{"?", "unknown account", "over quota", "no space", "leaving", "wrong bytes", "no lease",
	"name moved", "too many requests", "bad time", "bad request", "away", "unpaid", "bad passes", "spent passes",
	"no such voucher", "used voucher", "wrong sum", "no passes here"}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// A Refusal is the answer to a request that is not granted. Nothing was changed.
type Refusal struct {
	Reason          Reason
	Room            int64
	Retry           time.Duration // 0: there is no use in asking again until something changes
	Current, Coming share.ID      // zero if there is none
}

func (r *Refusal) Error() string { return "refused: " + r.Reason.String() }

// Retry is when to ask again for a share that is being removed.
const Retry = time.Minute

// Space is what a depot knows about its disk, in bytes.
type Space struct {
	Free    int64 // on the disk
	Reserve int64 // to be left free
	Arrived int64 // already on the disk, of shares that are coming; of each at most its bytes
}

// Admit returns nil if a lease of bytes may be made, and otherwise a *Refusal.
// used is what the account's leases take, quota what they may take; coming is what
// all shares that are coming will take, and fresh how much this lease adds to that.
// All are bytes.
func Admit(bytes, used, quota, fresh, coming int64, s Space) error {
	if bytes <= 0 || bytes > MaxBytes {
		return &Refusal{Reason: WrongBytes, Room: MaxBytes}
	}
	if left := quota - used; bytes > left {
		return &Refusal{Reason: OverQuota, Room: max(left, 0)}
	}
	if left := s.Free - s.Reserve - max(coming-s.Arrived, 0); fresh > 0 && fresh > left {
		return &Refusal{Reason: NoSpace, Room: max(left, 0)}
	}
	return nil
}

// Until returns when a lease ends that was asked for until then: never later than
// longest from now, never earlier than it already does (had, zero if there is none).
// It is a whole second.
func Until(now, until, had time.Time, longest time.Duration) (time.Time, error) {
	if until.After(now.Add(longest)) {
		until = now.Add(longest)
	}
	until = until.Truncate(time.Second)
	if !Live(now, until) {
		return until, &Refusal{Reason: BadTime}
	}
	if had.After(until) {
		until = had
	}
	return until, nil
}

// Live reports whether a lease that ends at expires is live.
func Live(now, expires time.Time) bool { return now.Before(expires) }
