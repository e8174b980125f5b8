package peers

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func ids(m *Mirrors, most int) (out []ID) {
	m.Pick(most, func(id ID, _ []Endpoint) bool { out = append(out, id); return true })
	return out
}

func TestMirrorsAreNamedEachInItsTurn(t *testing.T) {
	var m Mirrors
	for i := range 6 {
		m.Add(ID(fmt.Sprint(i)), fmt.Sprint("net", i), nil, false)
	}
	heard := map[ID]int{}
	for range 3 {
		for _, id := range ids(&m, 4) {
			heard[id]++
		}
	}
	for i := range 6 {
		if id := ID(fmt.Sprint(i)); heard[id] != 2 {
			t.Errorf("%s was named %d times of 12", id, heard[id])
		}
	}
	m.Remove("3")
	m.Add("4", "net4", []Endpoint{{Addr: "new"}}, true)
	if got := ids(&m, 9); len(got) != 5 {
		t.Errorf("without one and with one said again: %v", got)
	}
}

func TestOneNetworkCannotFillTheMirrors(t *testing.T) {
	var m Mirrors
	if _, ok := m.Add("honest", "home", nil, false); !ok {
		t.Fatal("no room for the first")
	}
	for i := range 5000 { // from many networks, as many of each as allowed
		m.Add(ID(fmt.Sprint("pretends", i)), fmt.Sprint("net", i/mirrorsOfANet%40), nil, false)
	}
	if m.Len() > maxMirrors {
		t.Errorf("%d mirrors", m.Len())
	}
	if _, ok := m.Add("one more", "net0", nil, false); ok {
		t.Error("there is room for one of a network that has as many as it may")
	}
	gone, ok := m.Add("newcomer", "elsewhere", nil, false)
	if !ok || gone == "honest" || gone == "" {
		t.Errorf("a mirror of a new network: %v, and %q gave way", ok, gone)
	}
	all := map[ID]bool{}
	for _, id := range ids(&m, maxMirrors) {
		all[id] = true
	}
	if !all["honest"] || !all["newcomer"] {
		t.Error("honest ones are not among those that are named")
	}
}

func TestMirrorsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m Mirrors
		is := map[ID]string{}
		for range rapid.IntRange(0, 600).Draw(t, "events") {
			id := ID(fmt.Sprint(rapid.IntRange(0, 999).Draw(t, "id")))
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				m.Remove(id)
				delete(is, id)
				continue
			}
			net := fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "net"))
			gone, ok := m.Add(id, net, nil, false)
			delete(is, id)
			delete(is, gone)
			if ok {
				is[id] = net
			}
		}
		of := map[string]int{}
		for _, net := range is {
			of[net]++
		}
		for net, n := range of {
			if n > mirrorsOfANet {
				t.Fatalf("%d of network %s", n, net)
			}
		}
		if m.Len() != len(is) || m.Len() > maxMirrors {
			t.Fatalf("%d mirrors, of %d", m.Len(), len(is))
		}
	})
}
