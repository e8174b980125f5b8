package simnet_test

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

// A scenario of one's own: two offices share a film over a slow line, which breaks
// in the middle. The referee's rules are checked by themselves; what else must hold here is
// stated with Expect.
func ExampleScenario() {
	offices := &simnet.Scenario{
		Name:  "broken-wan",
		Says:  "The line between two offices breaks for half a minute.",
		Nodes: 3, // in the second office; may be chosen
		Set: func(r *simnet.Run) {
			film := r.File("film", 8<<20)
			oslo := r.Site("oslo", simnet.Line{Up: 20 * simnet.Mbit, Down: 20 * simnet.Mbit, Latency: 15 * time.Millisecond})
			rome := r.Site("rome", simnet.Line{Up: 20 * simnet.Mbit, Down: 20 * simnet.Mbit, Latency: 15 * time.Millisecond})
			source := r.Add(simnet.NodeConfig{Name: "source", Site: oslo}).Seed(film)
			var fetches []*simnet.Fetch
			var office []*simnet.Node
			for i := range r.Nodes {
				x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("rome", i), Site: rome})
				office = append(office, x)
				fetches = append(fetches, x.Fetch(film, source))
			}
			r.When(func() bool { return fetches[0].Part() > 0.5 }, func() {
				heal := r.Partition([]*simnet.Node{source}, office)
				r.After(30*time.Second, heal)
			})
			r.Finally(func() {
				copies := float64(source.Sent()) / float64(film.Bytes())
				r.Expect(copies < 2.5, "%.1f copies went through the thin line", copies)
			})
		},
	}
	for seed := range uint64(3) {
		r := offices.Run(seed, 0)
		fmt.Println("seed", seed, "holds:", r.OK(), r.Faults)
	}
	// Output:
	// seed 0 holds: true []
	// seed 1 holds: true []
	// seed 2 holds: true []
}

// A Net can be used without a scenario: time passes when it is told to.
func ExampleNet() {
	net := simnet.New(1)
	book := net.File("book", 1<<20)
	a := net.Add(simnet.NodeConfig{Name: "a"}).Seed(book)
	b := net.Add(simnet.NodeConfig{Name: "b"})
	f := b.Fetch(book, a)
	net.Run(200 * time.Millisecond)
	a.Freeze()
	net.Run(time.Second)
	done, _ := f.Done()
	fmt.Println("while its source is frozen:", done)
	a.Thaw()
	net.Run(time.Minute)
	done, err := f.Done()
	fmt.Println("then:", done, err)
	// Output:
	// while its source is frozen: false
	// then: true <nil>
}
