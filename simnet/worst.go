package simnet

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/actors"
)

// Worst is the worst result measured for a scenario over seeds 1 to Seeds, with this
// many nodes. A run with one of these seeds may be worse by a margin:
//
//	virtual time      a quarter and 3 s
//	bytes twice       a half, and 1 % of all that is fetched
//	leases, each end  a half, and 5
//
// The referee has loose bounds for what no run may do; these detect faults
// that expiry or redialling hides.
type Worst struct {
	Nodes, Seeds int
	Virtual      time.Duration
	Twice        float64 // of the bytes fetched
	Leases       LeaseEnds
}

// LeaseEnds is how many piece leases ended otherwise than with their piece.
type LeaseEnds struct{ Expired, Revoked, Returned uint64 }

func (e LeaseEnds) plus(o LeaseEnds) LeaseEnds {
	return LeaseEnds{e.Expired + o.Expired, e.Revoked + o.Revoked, e.Returned + o.Returned}
}

func (e LeaseEnds) add(s actors.Leases) LeaseEnds {
	return LeaseEnds{e.Expired + s.Expired, e.Revoked + s.Revoked, e.Returned + s.Failed}
}

// With is the worse of w and a run, in each figure.
func (w Worst) With(r *Result) Worst {
	w.Virtual = max(w.Virtual, r.Virtual)
	w.Twice = max(w.Twice, float64(r.Twice)/float64(max(1, r.Fetched)))
	l := &w.Leases
	l.Expired, l.Revoked, l.Returned = max(l.Expired, r.Leases.Expired), max(l.Revoked, r.Leases.Revoked), max(l.Returned, r.Leases.Returned)
	return w
}

// exceeded says in what a run is worse than w allows.
func (w Worst) exceeded(r *Result) (how []string) {
	is := Worst{}.With(r)
	if most := w.Virtual + w.Virtual/4 + 3*time.Second; is.Virtual > most {
		how = append(how, fmt.Sprintf("it took %v, and at most %v is allowed: the worst before was %v", is.Virtual, most, w.Virtual))
	}
	if most := w.Twice*1.5 + 0.01; is.Twice > most {
		how = append(how, fmt.Sprintf("%.2f %% of all bytes came twice, and at most %.2f %% are allowed: the worst before was %.2f %%", 100*is.Twice, 100*most, 100*w.Twice))
	}
	for _, e := range []struct {
		end       string
		is, worst uint64
	}{
		{"expired", is.Leases.Expired, w.Leases.Expired},
		{"were revoked", is.Leases.Revoked, w.Leases.Revoked},
		{"were given back", is.Leases.Returned, w.Leases.Returned},
	} {
		if most := e.worst + e.worst/2 + 5; e.is > most {
			how = append(how, fmt.Sprintf("%d leases %s, and at most %d are allowed: the worst before was %d", e.is, e.end, most, e.worst))
		}
	}
	return how
}

// bounded reports what is worse in a run than it ever was with its seeds.
func (s *Scenario) bounded(r *Run, res *Result) {
	if !r.Modelled() {
		return
	}
	for _, w := range s.Worst {
		if w.Nodes != r.Nodes || res.Seed < 1 || res.Seed > uint64(w.Seeds) {
			continue
		}
		for _, how := range w.exceeded(res) {
			r.ref.broken("", "worse", "%s", how)
		}
	}
}
