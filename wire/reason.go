package wire

import (
	"cmp"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// Code is a reason as it is sent. The numbers are those of docs/formats.md.
type Code uint8

// Reasons of one peer to another.
const (
	CodeOpening     Code = 1 + iota // later: the share is being opened
	CodeReading                     // later: it may be among the files that are being read
	CodeNotAllowed                  // the share is for peers that its owner named
	CodeNoShare                     // there is no such share
	CodeEnded                       // the share is not offered any more
	CodeFileChanged                 // a file of the share has changed
	CodeCopyChanged                 // somebody changed what has been fetched of it so far
	CodeNoBlocks                    // the share has no such piece, or the piece no such blocks
	CodeBadRequest                  // too much at once, nothing, or the same again
	CodeFull                        // later: as many children as there may be
	CodeTooOften                    // later: asked too often
	CodeNoAddress                   // a mirror without an address that others can dial
	CodeMirrors                     // later: enough mirrors are known
	CodeNotWanted                   // it fetches no more of the share
	CodeNewer                       // another version took the share's place
)

// Reasons of a fleet's coordinator to a member.
const (
	CodeNotJoined  Code = 32 + iota // only members may send this
	CodeNotListed                   // the coordinator's list does not have it
	CodeNoSecret                    // it does not prove that it knows the secret of the fleet
	CodeOtherShare                  // another share is coordinated here
	CodeBadHaves                    // it sent a have-map of another share
	CodeNoSource                    // no such source outside the fleet
	CodeSettling                    // later: members of the last run are waited for
	CodeNoHaves                     // later: it has not said which pieces it has
	CodeWhole                       // the fleet has every piece
	CodeBanned                      // the source sent wrong data
	CodeAtCapacity                  // the source has as many leases as it may
	CodeNothing                     // the source has none of the missing pieces
	CodeAllLeased                   // what the source has and the fleet lacks is leased
	CodeSpared                      // others have what is missing, and the source has much to do
)

// Reasons of a member of a fleet that gives a lease back.
const (
	CodeGaveBack  Code = 64 + iota // nobody is to blame
	CodeBadData                    // the source sent what is not the share's
	CodeMissed                     // the source was too slow
	CodeNotFound                   // the source does not have the piece after all
	CodeLost                       // the source is gone
	CodeDisk                       // the member's disk
	CodeElsewhere                  // the source sent the member elsewhere for it
)

// sentences are the codes in words for people, about the peer that gave the reason.
var sentences = [...]string{
	CodeOpening:     "is opening the share",
	CodeReading:     "is still reading files, and may have the share once they are read",
	CodeNotAllowed:  "does not allow this node to have the share",
	CodeNoShare:     "does not have the share",
	CodeEnded:       "no longer offers the share",
	CodeFileChanged: "no longer has the share: a file of it has changed",
	CodeCopyChanged: "no longer has the share: its copy was changed",
	CodeNoBlocks:    "refuses: the share has no such blocks",
	CodeBadRequest:  "refuses: it was asked for more than a piece at once or for no bytes, or was sent the same request twice",
	CodeFull:        "serves as many peers as it can",
	CodeTooOften:    "was asked too often by this node",
	CodeNoAddress:   "cannot name this node to others: this node has no address that they can dial",
	CodeMirrors:     "knows enough peers that serve the share",
	CodeNotWanted:   "has all that it wants of the share",
	CodeNewer:       "shares a newer version, which has a ticket of its own",

	CodeNotJoined:  "it does not count this node as a member",
	CodeNotListed:  "not allowed: the coordinator's list does not have this node",
	CodeNoSecret:   "not allowed: this node does not know the secret of the fleet",
	CodeOtherShare: "it coordinates another share",
	CodeBadHaves:   "the list of pieces that this node sent is of another share",
	CodeNoSource:   "the coordinator knows no such source outside the fleet",
	CodeSettling:   "the coordinator has just begun, and waits for members to return",
	CodeNoHaves:    "this node has not said which pieces it has",
	CodeWhole:      "the fleet has every piece",
	CodeBanned:     "the source is banned for sending wrong data",
	CodeAtCapacity: "the source has as many leases as it may",
	CodeNothing:    "the source has none of the pieces that the fleet lacks",
	CodeAllLeased:  "every piece that the source has and the fleet lacks is leased",
	CodeSpared:     "the source is busy with many peers, and others have the pieces that the fleet lacks",

	CodeGaveBack:  "gave it back",
	CodeBadData:   "sent wrong data",
	CodeMissed:    "missed its deadline",
	CodeNotFound:  "does not have the piece",
	CodeLost:      "connection lost",
	CodeDisk:      "could not be written",
	CodeElsewhere: "gave it to others",
}

// String is the reason as a sentence for people; empty if the code is not known here.
func (c Code) String() string {
	if int(c) < len(sentences) {
		return sentences[c]
	}
	return ""
}

// NoShare says whether a peer that gives this reason does not have the share, or not any more.
func (c Code) NoShare() bool { return CodeNoShare <= c && c <= CodeCopyChanged || c == CodeNewer }

// Reason is why a peer refuses or ends something. The zero value means that it did not say.
type Reason struct {
	Code Code
	// Prose is the text of a peer that gave no code, or one that is not known here, in at
	// most MaxReason bytes; MaxWord where the reason is about one lease of many. It is only shown.
	Prose string
}

// Why returns the reason with a code.
func Why(c Code) Reason { return Reason{Code: c} }

// String is the reason for people: the sentence of the code, or in quotes what the peer
// said; empty if there is none.
func (r Reason) String() string {
	if r.Prose == "" {
		return r.Code.String()
	}
	return strconv.Quote(r.Prose)
}

// prosed is the prose of a reason. Peers that know no codes are sent the sentence; where the
// code is known it alone is read.
func (c *coder) prosed(num protowire.Number, r *Reason, most int) {
	text := cmp.Or(r.Code.String(), r.Prose)
	c.prose(num, &text, most)
	r.read(text, c)
}

// coded is the code of a reason.
func (c *coder) coded(num protowire.Number, r *Reason) {
	varint(c, num, &r.Code, math.MaxUint8)
	r.read(r.Prose, c)
}

// barred is a field for CodeNotAllowed from before there were codes.
func (c *coder) barred(num protowire.Number, r *Reason) {
	if !c.reading {
		c.notAllowed = r.Code == CodeNotAllowed
	}
	c.bool(num, &c.notAllowed)
}

// settle ends the reading of a reason: a code counts, else the field from before there were any.
func (r *Reason) settle(notAllowed bool) {
	if notAllowed && r.Code == 0 {
		*r = Why(CodeNotAllowed)
	}
}

// read sets the prose to what was read, unless there is a code that is known.
func (r *Reason) read(prose string, c *coder) {
	if !c.reading {
		return
	}
	if r.Prose = prose; r.Code.String() != "" {
		r.Prose = ""
	}
}
