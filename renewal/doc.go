// Package renewal decides when to visit the depots that keep shares for us, what
// to renew there, and what that costs. It promises nothing to outsiders.
//
// # The idea
//
// A depot keeps a share until a lease ends, and a lease ends unless somebody
// renews it. So one service per node visits each depot every so often, takes the
// depot's own word on what it has and until when, and renews what is near its end:
//
//	          Due                 Visited                 Renewed, Released, all of them
//	resting ───────▶ being visited ──────▶ tasks to be done ──────────────────▶ resting
//	   ▲                  │ Failed                │ Failed, or one was refused
//	   └──── back-off ────┴───────────────────────┘
//
// A visit that failed, as a whole or for one lease, does not count: the next one is
// soon, and what was renewed meanwhile stays renewed. A lease that is near its end
// is renewed to now + Length, never more than once by one visit.
//
// # What is wanted
//
// A Want says that so many of some depots keep a share. A depot that lacks it is offered
// it, one that has lost some of it is offered that again, and one that refuses or is away until
// the lease nearly ends gives way to another, as far as there is one, unless it has all of the share in its
// lease's last days and the other has not. When the Want is for
// another version of the share, the earlier one is renewed until its depot has the
// later one, and released then; so a depot has one whole version at any time.
//
// # Why no lease lapses
//
// Renewal begins when a third of the length is left. Until the lease ends there is
// time for Misses visits that fail and one that succeeds, however the delays are
// drawn; a Config with which there is not is refused (Config.Validate), with the
// numbers. Retries after a failure come on top of that.
//
// # Clocks
//
// A depot's clock may be off. Each answer carries the depot's time, and an end is
// kept as what is left of it, by our clock.
//
// A Service is a plain value with one owner. It takes the time as an argument,
// starts nothing, and gives the same answers to the same calls. Its actor: actors/renewal.go.
package renewal
