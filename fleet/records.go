package fleet

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// What a fleet keeps in its store; docs/formats.md has all of it.

// MarkKey is the key of the mark that says whose store it is: nobody's but of those who can open it.
const MarkKey = "fleet.v1"

// ErrOther says that a store has entries of a fleet, and none is written with the secret of this one.
var ErrOther = errors.New("the store belongs to a fleet with another secret: join that one with its token, or name another store")

// Owns returns ErrOther if a mark, nil if there is none, was not made with the secret.
func (s Secret) Owns(mark []byte) error {
	var is json.RawMessage
	if len(mark) > 0 && s.Open(MarkKey, mark, &is) != nil {
		return ErrOther
	}
	return nil
}

// RoundName is the name of the round whose holder coordinates a share.
func RoundName(id share.ID) string { return "fleet." + id.String() }

// Holder is a member as a record of the store names it: the coordinator, sealed under the name of its
// round, or the lister.
type Holder struct {
	Peer  peers.ID  `json:"peer"`
	Addrs []string  `json:"addrs,omitempty"`
	At    time.Time `json:"at,omitzero"` // of the coordinator's last heartbeat, by its own clock
}

// ListerKey is the key of the member that gets the list of files from outside, or has got it.
func ListerKey(round string) string { return "lister.v1." + round }

// MembersKey is the key of the members of the last run of a round.
func MembersKey(round string) string { return "members.v1." + round }
