package fleet

import "github.com/piecelease/fetcher/share"

// What a fleet keeps in its store; docs/formats.md has all of it.

// RoundName is the name of the round whose holder coordinates a share.
func RoundName(id share.ID) string { return "fleet." + id.String() }

// ListerKey is the key of the member that gets the list of files from outside, or has got it.
func ListerKey(round string) string { return "lister.v1." + round }

// MembersKey is the key of the members of the last run of a round.
func MembersKey(round string) string { return "members.v1." + round }
