package peers

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// at returns one address in each of the networks.
func at(nets ...string) (out []Endpoint) {
	for _, net := range nets {
		out = append(out, Endpoint{Net: net})
	}
	return out
}

func TestDialsByOneNamer(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := NewDials()
	begun := 0
	begin := func(by ID, want int) {
		t.Helper()
		n := 0
		for range 100 {
			if _, ok := d.Begin(by, "", at(fmt.Sprint("net", begun)), now); !ok {
				break
			}
			begun++
			n++
		}
		if n != want {
			t.Fatalf("%d dials begin, want %d", n, want)
		}
	}
	begin("a", namedPerSecond)
	if wait, _ := d.Begin("a", "", at("x"), now); wait < time.Second/namedPerSecond || wait > time.Second/namedPerSecond+2*time.Millisecond {
		t.Errorf("the next in %v", wait)
	}
	begin("b", namedPerSecond) // each has its own bound
	for range 3 {
		now = now.Add(time.Second)
		begin("a", namedPerSecond)
	}
	now = now.Add(time.Second)
	begin("a", 0) // as many as allowed
	if wait, ok := d.Begin("a", "", at("x"), now); wait != 0 || ok {
		t.Errorf("%v, %v: want to wait for another to end", wait, ok)
	}
	d.End("a", "", at("net0"))
	begin("a", 1)
}

func TestDialsOfOneNetwork(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := NewDials()
	may := func(by ID, home string, to []Endpoint, want bool) {
		t.Helper()
		if _, ok := d.Begin(by, home, to, now); ok != want {
			t.Fatalf("%s dials %+v: %v", by, to, ok)
		}
	}
	may("a", "", at("v", "v", "v"), true)
	may("b", "", at("v", "v"), false)
	may("b", "", at("w", "v"), true)
	may("c", "", at("v"), false)
	may("d", "v", at("v", "v", "v", "v"), true) // its own network
	may("e", "", []Endpoint{{Net: "v", Reach: 1}, {Net: "v", Reach: 1}}, true)
	d.End("a", "", at("v", "v", "v"))
	may("c", "", at("v", "v", "v"), true)
	d.End("b", "", at("w", "v"))
	d.End("c", "", at("v", "v", "v"))
	d.End("d", "v", at("v", "v", "v", "v"))
	d.End("e", "", []Endpoint{{Net: "v", Reach: 1}, {Net: "v", Reach: 1}})
	if len(d.by)+len(d.of) > 0 {
		t.Errorf("%v and %v are remembered", d.by, d.of)
	}
}

func TestDialsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type dial struct {
			by ID
			to []Endpoint
		}
		d, now := NewDials(), time.Unix(1e9, 0)
		var open []dial
		for range rapid.IntRange(0, 300).Draw(t, "events") {
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			case 1:
				if len(open) > 0 {
					d.End(open[0].by, "", open[0].to)
					open = open[1:]
				}
			default:
				x := dial{by: ID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "by"))}
				for range rapid.IntRange(1, MaxEndpoints).Draw(t, "places") {
					x.to = append(x.to, Endpoint{Net: fmt.Sprint(rapid.IntRange(0, 99).Draw(t, "net"))})
				}
				if _, ok := d.Begin(x.by, "", x.to, now); ok {
					open = append(open, x)
				}
			}
			by, of := map[ID]int{}, map[string]int{}
			for _, x := range open {
				by[x.by]++
				for _, p := range x.to {
					of[p.Net]++
				}
			}
			for id, n := range by {
				if n > namedAtOnce {
					t.Fatalf("%d of %s", n, id)
				}
			}
			for net, n := range of {
				if n > dialledOfNet {
					t.Fatalf("%d addresses of %s", n, net)
				}
			}
		}
		for _, x := range open {
			d.End(x.by, "", x.to)
		}
		if len(d.by)+len(d.of) > 0 {
			t.Fatalf("%v and %v are remembered", d.by, d.of)
		}
	})
}
