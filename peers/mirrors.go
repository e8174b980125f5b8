package peers

import "slices"

// Bounds of the Mirrors of one share.
const (
	maxMirrors    = 256
	mirrorsOfANet = 16 // of one network
)

// Mirrors are the peers that serve a share on and fetch no more of it. They are
// named to whoever asks for the share. That a peer is a mirror is only its own claim,
// which costs nothing: so there are few of one network, and when the Mirrors are full,
// the network with the most gives way. The zero value is ready.
type Mirrors struct {
	each  []mirror // in the order in which they came
	turns Turns
}

type mirror struct {
	id        ID
	net       string
	endpoints []Endpoint
	whole     bool
}

// Add adds a peer, or moves it to the end if it was there, with the network that it
// comes from, where it may be reached, and whether it has the whole share. Not ok: there is
// no room for it. gone is the peer that had to give way to it; empty: none had to.
func (m *Mirrors) Add(id ID, net string, endpoints []Endpoint, whole bool) (gone ID, ok bool) {
	m.Remove(id)
	of := map[string]int{}
	most := net
	for _, x := range m.each {
		if of[x.net]++; of[x.net] > of[most] {
			most = x.net
		}
	}
	if of[net] >= mirrorsOfANet {
		return "", false
	}
	if len(m.each) >= maxMirrors {
		if of[most] <= of[net]+1 {
			return "", false
		}
		for _, x := range slices.Backward(m.each) {
			if x.net == most {
				gone = x.id
				break
			}
		}
		m.Remove(gone)
	}
	m.each = append(m.each, mirror{id, net, endpoints, whole})
	return gone, true
}

// Remove takes a peer out, if it is there.
func (m *Mirrors) Remove(id ID) {
	m.each = slices.DeleteFunc(m.each, func(x mirror) bool { return x.id == id })
}

// Len is how many there are.
func (m *Mirrors) Len() int { return len(m.each) }

// Whole is how many of them have the whole share.
func (m *Mirrors) Whole() (n int) {
	for _, x := range m.each {
		if x.whole {
			n++
		}
	}
	return n
}

// Pick offers mirrors to name, each in its turn, until it has accepted most of them.
func (m *Mirrors) Pick(most int, name func(id ID, endpoints []Endpoint) bool) {
	m.turns.Pick(len(m.each), most, func(i int) bool { return name(m.each[i].id, m.each[i].endpoints) })
}
