// Package fetchpool decides everything about one source of one share: when to
// dial it, how many pieces to lease for it, which blocks to ask for and how many
// at a time, how long to wait, and when to give a lease back.
//
// # The idea
//
// A Pool is told what happened and is then asked what to do: every event is a
// method with the time it happened, and after each the owner calls Next and does
// what the Todo says. The pool has no clock, no goroutine and no connection. The
// same events give the same answers.
//
//	LeaseManager ──Grant, Revoke──▶ ┌──────┐ ──Requests, Cancel──▶ link ──▶ source
//	             ◀──Want, Return─── │ Pool │ ◀──Arrived, Finished, Failed──┘
//	     node's budget ◀──take───── └──────┘ ──Wake──▶ one timer
//
// # The states
//
//	        Next                 Opened                Subscribed
//	Idle ─────────▶ Dialing ───────────────▶ Subscribing ─────────▶ Ready ─┐
//	                   ▲ │ Lost, no answer      │  ▲ │ Lost             │  │ Grant, Finished,
//	       it is time  │ ▼                      │  └─┘ Declined         │  │ Failed(Busy, NotFound)
//	                 Waiting ◀──────────────────┴───────────────────────┤◀─┘
//	                   │                              Lost, silence     │
//	                   └───────▶ Gone ◀─────────────────────────────────┘
//	               Stop, Failed(Gone, Refused), Declined for ever
//
// Early leads from Subscribing to Ready before the source has answered, because it said earlier
// what it has; Declined leads back, even after Subscribed. A Ready pool without leases is idle, not failed. Every lease that was granted
// ends exactly once: finished (all its blocks arrived), revoked, or in
// Todo.Return. Whatever the link does, every request that was sent, and so every
// byte that was taken from the node's budget, ends exactly once, in Todo.Ended.
//
// # The window
//
// The bytes asked for and not yet arrived stay within a window that follows the
// path: the source's rate times the round trip, a quarter more, 25 ms for the
// machines at both ends, and one request. The quarter lets the pool find out that
// there is room: if the rate rises, so does the window, and if only the delay
// grows, it does not. That keeps a far fast line full and a deep
// buffer in front of a slow line nearly empty. See window.go.
//
// Requests grow with the rate too, from one block to a whole piece (or 1 MiB of a
// larger one). Small pieces are pipelined by the hundred.
//
// # Deadlines
//
// Silence and lateness are told apart, both by [peers.Patience]. A source from which
// nothing at all comes for 2 s + 4 round trips + twice the time of one run (5 s when it
// is not yet measured, and up to eight times that after links that gave nothing) is
// taken for dead: all its leases return and it is dialled again. A lease returns alone
// if nothing of it comes within that grace plus twice the time that its blocks and those
// asked for before them should take. Any byte of a lease extends it, so that a slow
// honest source never fails while bytes arrive.
//
// # Waits
//
// Redial, subscription and BUSY each have their own back-off, from 1 s to 30 s,
// drawn from the seed; none delays another, and success resets it. A dial succeeds
// when bytes come through it: a source that accepts and then sends nothing is dialled
// ever more rarely.
//
// # How soon a source that failed is used again
//
//	it was busy                 at the time it named, from 50 ms to 30 s; if it named none,
//	                            after 0.75 to 1.25 s, and twice that each time in a row, to 30 s
//	its link broke              after 0.75 to 1.25 s, and so on as above until bytes come
//	it fell silent              the same, from when that is noticed: see Deadlines
//	it lacks a piece it claimed other pieces at once; that one when it claims it anew,
//	                            or after 30 s
//	it was late with a piece    other pieces at once; that one after 30 s, or at once if
//	                            nobody else is left to ask (leasemgr)
//	it sent one wrong block     as if it had been late
//	it was proven to lie        when its ban ends: package peers
//
// A failure other than a lie costs nothing else: see peers.Ranking.
//
// Its actor: actors/fetchpool.go.
package fetchpool
