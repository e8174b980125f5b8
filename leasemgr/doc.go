// Package leasemgr decides which source may fetch which piece, and until when.
//
// A piece lease is the right of one source to fetch one piece for a bounded
// time. A Manager hands them out for one transfer:
//
//	           Acquire, Restore
//	wanted ------------------------> leased <---+ Acquire: a hedge, a takeover
//	  ^  ^                             |  |  ---+
//	  |  +--- Fail, Expire, Rank, -----+  |
//	  |       RemoveSource                | Verified
//	  |                                   v
//	  +--------- Unverified ---------- verified
//
// It is pure: callers pass the time in and act on what comes back. The same
// calls give the same answers. A Manager has one owner; it is not safe for
// concurrent use.
//
// # Driving it
//
// The owner keeps one timer, sets it to [Manager.Wake] after every call, and
// calls [Manager.Expire] when it rings. Most calls return a [Todo]; all of it
// must be done. A source that asks with [Manager.Acquire] and gets fewer leases
// than it asked for is told why and until when; it then waits for that time or
// for its name in Todo.Wake, and never polls.
//
// # What holds, whatever the order of the calls
//
//   - wanted, leased and verified pieces are together exactly the plan.
//   - A piece has one live lease. It has two only as a hedge, at the end of a
//     transfer or for a reader that waits, and then with different sources.
//   - Tokens only grow. A progress, failure or return with a token that is not
//     live changes nothing. Bytes that verify always count ([Manager.Verified]).
//   - Live means now < expiry, everywhere.
//   - A refused source is woken when it could be granted something.
//
// # Which piece
//
// File priority first; then what a reader will read next; then pieces already
// begun; then the rarest among the sources, with ties broken by the seed.
// Rarity is exact up to 15 sources and within an eighth above, counts the
// sources that hold only part of the share (all others add the same to every
// piece), and may lag behind the have-maps by one rebuild. A piece with which a
// source has just failed goes to others for a while, unless all have failed with it.
// A piece that a source has just given to others is fetched from them; and the source
// of a crowd is asked for nothing that others have, while they bring enough. See
// elsewhere.go. Among equally urgent pieces, a source that has the whole share is asked
// first for those that are ours to ask for, and not another peer's. See ours.go.
//
// # Who is told
//
// Pieces that come back are offered to the sources that wait, the best first, and now
// and then to one drawn by lot. When thousands wait, some are told at once and twice
// as many every 50 ms until the piece is taken. Sources that could only hedge ask
// again at times that are spread out.
//
// # How it is fast
//
// Availability is kept as bit planes (see rarity), so that a have-map of a
// million pieces is added, and all pieces sorted by rarity, 64 pieces at a time.
// Wanted pieces lie in one bit set per rank (see layer), with summaries to skip
// what is empty. Each source keeps a cursor; what returns behind cursors is in a
// short log. Leases of one source form a queue whose head has the earliest
// deadline, so the heap of deadlines holds sources, not leases.
//
// Its actor: actors/leasemanager.go.
package leasemgr
