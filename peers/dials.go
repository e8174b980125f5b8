package peers

import "time"

// Bounds of what a peer that names others can make this node dial.
const (
	namedPerSecond = 16           // peers that one peer named, per second
	namedAtOnce    = 64           // ... and at a time, until it is known whether they are there
	dialledOfNet   = MaxEndpoints // addresses of one network at once, whoever named them
)

// Dials bounds the dialling of addresses that a peer named. They are a claim: there may
// be nobody, or somebody whom the dials are meant to harm. So each peer that names others
// has a limited number of dials, and addresses of one network that can be reached from
// anywhere count together, whoever named them. A dial counts until it succeeds or fails.
// It has one owner; the time is an argument.
type Dials struct {
	often *Allowance
	by    map[ID]int
	of    map[string]int
}

// NewDials makes Dials with none under way.
func NewDials() *Dials {
	return &Dials{often: NewAllowance(namedPerSecond, namedPerSecond), by: map[ID]int{}, of: map[string]int{}}
}

// Begin reports whether a peer may be dialled now, at no more than MaxEndpoints addresses.
// Peer by named it, and is itself in the network home. If it may, End is to be called when
// the dial has succeeded or failed. If not, ask again after wait, or if wait is 0 after
// another dial has ended.
func (d *Dials) Begin(by ID, home string, at []Endpoint, now time.Time) (wait time.Duration, ok bool) {
	of := counted(home, at)
	if d.by[by] >= namedAtOnce {
		return 0, false
	}
	for net, n := range of {
		if d.of[net]+n > dialledOfNet {
			return 0, false
		}
	}
	if wait := d.often.Take(by, 1, now); wait > 0 {
		return wait, false
	}
	d.by[by]++
	for net, n := range of {
		d.of[net] += n
	}
	return 0, true
}

// End ends a dial that Begin allowed with the same arguments.
func (d *Dials) End(by ID, home string, at []Endpoint) {
	if d.by[by]--; d.by[by] == 0 {
		delete(d.by, by)
	}
	for net, n := range counted(home, at) {
		if d.of[net] -= n; d.of[net] == 0 {
			delete(d.of, net)
		}
	}
}

// counted is the number of addresses of each network that count.
func counted(home string, at []Endpoint) map[string]int {
	of := map[string]int{}
	for _, p := range at {
		if p.Reach == 0 && p.Net != home {
			of[p.Net]++
		}
	}
	return of
}
