// Package peers is what we know of other peers: who they are, how good they are as
// sources, and which of them is served next.
//
// # Ranking
//
// A peer has two qualities, kept apart because they answer different questions.
//
//	           0                         1                       2
//	integrity  ├─────────────────────────┼───────────────────────┤
//	           liar                    neutral             proven honest
//	              ◀── a bad block halves ──   ── a MiB of good data halves the rest ──▶
//	                        ── idle time moves toward neutral ◀──
//
//	           0                        0.5                      1
//	speed      ├─────────────────────────┼───────────────────────┤
//	           slow, late             unknown               fast, prompt
//
// Integrity is moved by verification alone: by good bytes and by lies. Speed is
// moved by what was measured and by missed deadlines. The score is
//
//	integrity · (0.5 + speed)
//
// so an unknown peer has 1, and being slow costs at most half, which is never as bad
// as lying. All values are bounded. One more success never lowers a score and one more
// failure never raises it, whatever else happened or happens later: every event is a
// non-decreasing function of the state, and successes lie above the identity, failures
// below.
//
// Only a proven liar is banned: by a proof that does not match the manifest, or a
// breach of the protocol, at once; by a bad block if there was another not long before.
// A ban ends; the memory of the offences behind it halves every BanFor. Otherwise a
// low score does not shut a source out: it still gets one lease at a time (see
// leasemgr.Config), one good MiB raises its score, and so do a few idle hours.
//
// A source that failed without lying is used again within seconds: package
// fetchpool says when. A banned one is not, whatever it does: neither a new
// connection nor a restart of this node ends a ban, because the ranking uses the key
// that a connection proves and is kept on disk.
//
// # Uploads
//
// Uploads admits the requests of children one by one: as many at once as there
// are slots and as the limit in bytes per second allows. The child that was given
// least comes first, and of its requests the piece that was sent least.
//
//	          Ask                  its turn: slot and rate                Done
//	request ───────▶ queued ──────────────────────────────▶ being served ───────▶
//	   │               │ │ QueueFor, or Done: no longer wanted   ▲
//	   │ queue full    │ └──────────▶ BUSY                       │
//	   └──▶ BUSY       └─────────────────────────────────────────┘ (at once when nobody waits)
//
// A request is parked when its child stops reading: its slot goes to others, but still
// counts for the child until the request is done. The rest is asked for anew.
//
// In a crowd a piece goes to one child at a time, and children that ask for it meanwhile
// are sent elsewhere: to the child that gets it. See spread.go for how long.
//
// # Tiers
//
// Tiers keeps peers in three sets by how far away they are, where they are, and what
// they did, so that neither one location nor many identities fill them while others wait.
// The children of a node are in tiers, and so are the sources of a transfer, if it knows
// more than it may fetch from at once.
//
//	          Subscribe            better, or a place falls free
//	newcomer ──────────▶ active ◀──────────────────────────────── passive ◀──── tracked
//	   │ full              └──────────────────────────────────────▶  └───────────▶ │
//	   └──▶ come again           worse, or others claim the place                  └──▶ outside
//
// # Naming and dialling
//
// Turns, Mirrors and Named decide which peers and addresses a newcomer is told, and Calls
// when a node that serves a share on says so. Whatever a peer says of itself or of others
// is a claim, and costs it nothing. So each of these has a bound, and Dials bounds what
// is dialled because of it.
//
// An Allowance bounds requests that cost this node more than the peer, and Silent counts
// the connections on which the peer has not yet said who it is.
//
// All are plain values with one owner each. They take the time as an argument,
// start nothing, and give the same answers to the same calls.
//
// Its actors: actors/node.go (Ranking), actors/seeder.go (Uploads, Tiers, Turns, Mirrors, Allowance),
// actors/mirror.go (Calls). Package p2p has Dials and Silent.
package peers
