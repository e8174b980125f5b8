package peers

import "maps"

// sentMap counts how often each piece was sent. A child that gets a piece in many
// requests counts once, and for that child it does not count yet: the rest of a
// piece does not rank behind new pieces. (Two children that take turns at a piece
// count more often; it is only a preference.)
//
// It is kept on pages of 512 pieces: a share of 2,000,000 pieces takes 8 MiB.
// When there are too many pages all is forgotten.
type sentMap map[sentPage]*[sentPieces]sentPiece

type sentPage struct {
	key string
	n   uint32
}

type sentPiece struct{ times, last uint16 } // last: the tag of the child that had it last

const (
	sentPieces = 512
	sentPages  = 16 << 10 // 32 MiB
)

// get is how often a piece was sent, as the child with a tag sees it.
func (m sentMap) get(key string, piece uint32, tag uint16) uint16 {
	page := m[sentPage{key, piece / sentPieces}]
	if page == nil {
		return 0
	}
	p := page[piece%sentPieces]
	if p.last == tag && p.times > 0 {
		return p.times - 1
	}
	return p.times
}

// had says whether a piece was sent last to the child with a tag.
func (m sentMap) had(key string, piece uint32, tag uint16) bool {
	page := m[sentPage{key, piece / sentPieces}]
	return page != nil && page[piece%sentPieces].times > 0 && page[piece%sentPieces].last == tag
}

// add counts a piece as sent to the child with a tag, and says whether it was not yet.
func (m sentMap) add(key string, piece uint32, tag uint16) (counted bool) {
	at := sentPage{key, piece / sentPieces}
	page := m[at]
	if page == nil {
		if len(m) >= sentPages {
			clear(m)
		}
		page = new([sentPieces]sentPiece)
		m[at] = page
	}
	p := &page[piece%sentPieces]
	if p.times == 0 || p.last != tag {
		p.times = max(p.times, p.times+1) // it saturates
		counted = true
	}
	p.last = tag
	return counted
}

// undo takes back what add counted.
func (m sentMap) undo(key string, piece uint32, tag uint16) {
	page := m[sentPage{key, piece / sentPieces}]
	if page == nil {
		return
	}
	p := &page[piece%sentPieces]
	p.times = max(p.times, 1) - 1
	if p.last == tag {
		p.last = 0
	}
}

// forget forgets a share.
func (m sentMap) forget(key string) {
	maps.DeleteFunc(m, func(at sentPage, _ *[sentPieces]sentPiece) bool { return at.key == key })
}
