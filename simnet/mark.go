package simnet

import "time"

// Mark is a moment of a run that is worth seeing.
type Mark struct {
	At   time.Duration
	Node string // empty: the world
	Kind MarkKind
	Text string
}

// MarkKind is the kind of a moment.
type MarkKind uint8

const (
	MarkNone  MarkKind = iota // not worth seeing
	MarkFault                 // something did not hold
	MarkCut                   // the network is cut
	MarkHeal                  // ... and whole again
	MarkDown                  // a node is killed, stopped, frozen or without power
	MarkUp                    // ... and goes on
	MarkTurn                  // a node, its line or its clock changes
	MarkBan                   // a node bans a source
	MarkStall                 // a node says why nothing moves
	MarkEnd                   // a fetch ends
	MarkNote                  // a note of the scenario's own
)

func (k MarkKind) String() string {
	return [...]string{"", "fault", "cut", "heal", "down", "up", "change", "ban", "stall", "end", "note"}[k]
}
