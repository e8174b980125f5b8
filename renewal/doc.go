// Package renewal decides when to visit the depots that keep shares for us, what
// to renew there, and what that costs. It promises nothing to outsiders.
//
// # The idea
//
// A depot keeps a share until a lease ends, and a lease ends unless somebody
// renews it. So one service per node visits each depot every so often, asks it
// what it has and until when, and renews what is near its end:
//
//	          Due                 Visited                 Renewed, Released, all of them
//	resting ───────▶ being visited ──────▶ tasks to be done ──────────────────▶ resting
//	   ▲                  │ Failed                │ Failed, or one was refused
//	   └──── back-off ────┴───────────────────────┘
//
// A visit that failed, as a whole or for one lease, does not count: the next one comes
// soon, and what was renewed meanwhile stays renewed. A lease that is near its end
// is renewed to now + Length, at most once per visit.
//
// # Wants
//
// A Want asks that a number of its depots keep a share. A depot that lacks the share is
// offered it, and so is one that has lost some of it. A depot that refuses, or is away (for more than Misses visits) when
// the lease nearly ends, is replaced by another, if there is one, and one that does not know us any more at once: what it
// has is then neither renewed nor released, and stands as it was last heard; but one that has all of the
// share is kept in the last days of its lease while the other has not. When the Want changes
// to another version of the share, the earlier one is renewed until its depot has the later
// one, and is then released; so a depot has one whole version at any time. A Want may have more earlier versions
// kept: each until that many newer ones are whole, where it is, as no depot can get it any more.
//
// # Why no lease lapses
//
// Renewal begins when a third of the length is left. Until the lease ends there is
// time for Misses visits that fail and one that succeeds, however the delays are
// drawn; Config.Validate refuses a Config that does not leave that time, and gives the
// numbers. Retries after a failure come on top of that.
//
// # Clocks
//
// A depot's clock may be off. Each answer carries the depot's time, and an end is stored as
// the time left until then, by our clock.
//
// A Service is a plain value with one owner. It takes the time as an argument, starts
// nothing, and gives the same results for the same calls. Its actor is in actors/renewal.go.
package renewal
