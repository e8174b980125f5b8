package leasemgr

import (
	"reflect"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// The exploration of small plans relies on this: a clone shares nothing mutable
// with its original.
func TestCloneForgetsNothing(t *testing.T) {
	r := newRig(t, 300, Config{})
	r.add("a", "b", "c").full("a").has("b", 1, 2, 3, 4, 5).has("c", 1, 2)
	for _, l := range r.get("b", 4) {
		r.m.Fail("b", l.Piece, l.Token, BadData, r.now)
	}
	l := r.get("a", 4)[0]
	r.m.Defer("a", l.Piece, l.Token, time.Second, r.now)
	r.m.SetPriority(0, 100, High, r.now)
	r.m.SetPriority(100, 100, Low, r.now)
	r.m.SetReader(1, 5, 5, r.now)
	r.m.RemoveSource("c", r.now)
	r.m.Verified(7, r.now)
	shared := map[uintptr]bool{}
	memory(reflect.ValueOf(r.m).Elem(), "Manager", func(at uintptr, path string) { shared[at] = true })
	n := 0
	memory(reflect.ValueOf(r.m.clone()).Elem(), "Manager", func(at uintptr, path string) {
		if n++; shared[at] {
			t.Errorf("%s is shared", path)
		}
	})
	if n < 30 {
		t.Errorf("looked at %d fields only", n)
	}
	equal(t, "state", r.m.clone().fingerprint(), r.m.fingerprint())
}

// memory visits all slices, maps and pointers that a value holds, except those
// that never change.
func memory(v reflect.Value, path string, visit func(uintptr, string)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name == "space" || name == "sp" || name == "layout" || name == "wall" || name == "cfg" {
				continue
			}
			memory(v.Field(i), path+"."+name, visit)
		}
	case reflect.Array:
		for i := range v.Len() {
			memory(v.Index(i), path, visit)
		}
	case reflect.Slice:
		if v.Cap() == 0 {
			return
		}
		visit(v.Pointer(), path)
		for i := range v.Len() {
			memory(v.Index(i), path, visit)
		}
	case reflect.Map:
		if !v.IsNil() {
			visit(v.Pointer(), path)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			visit(v.Pointer(), path)
			memory(v.Elem(), path, visit)
		}
	}
}

// A long walk with large numbers: log, summaries and many chunks at once.
func TestLargeShareKeepsItsBooks(t *testing.T) {
	const n = 10_000
	r := newRig(t, n, Config{MaxLeasesPerPeer: 1000})
	r.add("a", "b", "c").full("a")
	odd, some := share.NewSet(n), share.NewSet(n)
	for p := range n {
		if p%2 == 1 {
			odd.Add(share.Piece(p))
		}
		if p%4096 < 4000 {
			some.Add(share.Piece(p))
		}
	}
	r.m.SetHave("b", odd, r.now)
	r.m.SetHave("c", some, r.now)
	for round := range 12 {
		ls := append(append(r.get("a", 300), r.get("b", 300)...), r.get("c", 300)...)
		for i, l := range ls {
			switch i % 3 {
			case 0:
				r.done(l)
			case 1:
				r.m.Fail(l.Source, l.Piece, l.Token, GaveBack, r.now)
			}
		}
		if round%4 == 3 {
			if err := r.m.check(); err != nil {
				t.Fatal(err)
			}
		}
		if limit := max(256, r.m.space.words); len(r.m.log) > limit {
			t.Fatalf("log of %d entries, over %d", len(r.m.log), limit)
		}
		r.to(r.m.Wake())
		r.m.Expire(r.now)
	}
}
