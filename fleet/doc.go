// Package fleet decides what the nodes of one owner do to fetch a share together, so
// that each byte enters their fleet once. It promises nothing to outsiders.
//
//	member                                        coordinator
//	  pools ──Request──▶ ┌────────┐ ──LeaseRequest──▶ ┌─────────────┐
//	        ◀─Granted─── │ Member │ ◀─LeaseResponse── │ Coordinator │
//	                     └────────┘                   └─────────────┘
//	                         │ Allow, Forbid               │ a leasemgr.Manager: which source
//	                         ▼                             ▼ of which member fetches which piece
//	                 the leasemgr.Manager
//	                 of the node
//
// To the manager of a [Coordinator] a source is one source of one member: an outlet.
// A piece counts as verified as soon as a member has it, and is leased to nobody while
// somebody has it. A [Member] stands between the pools of its node and the manager
// of its node, and hides from the manager what the fleet has not leased to this node:
// to it a source outside the fleet has only the pieces that the coordinator leased.
// Other members are sources like any other, and need no permission. So pools and managers
// know nothing of all this, and there is one truth about every piece on each level.
//
// # Driving it
//
// Both cores are told what happened, by a method with the time it happened, and are
// then asked what to do: after each event, and at Todo.Wake, the owner calls Next and
// does what the Todo says, in its order. They have no clock, no goroutine and no
// connection; the same events give the same answers. Each has one owner.
//
// The messages between them are those of package wire. The sender of one is a [From]: the
// peer that the connection proves, and the reply of its Subscribe, by which the owner
// finds it again.
//
// # What holds, whatever happens
//
//   - A piece that a member has is leased only to members that could not get it from any
//     that say they have it; such a report costs no other member anything.
//   - A lease is valid under its token alone. A token begins with the epoch of the run
//     that granted it, and the epoch grows with every run.
//   - A run of the coordinator that has just begun does not know what the members have,
//     and leases nothing new: it waits for the members of the last run, but not for ever.
//   - A member fetches from outside what is leased to it, and nothing else, unless it
//     was told to go on alone. It tells the coordinator of all that it has.
//   - Every wait has an end: a time, a message that is owed, or a loss that is noticed.
//
// Its actors: actors/coordinator.go, actors/leaseclient.go.
package fleet
