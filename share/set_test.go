package share

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSetAgreesWithAMap makes the same changes to a Set and to a map, and compares.
func TestSetAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 200), rapid.SampledFrom([]int{63, 64, 65, 127, 128, 129})).Draw(t, "n")
		draw := func(what string) (*Set, map[Piece]bool) {
			s, model := NewSet(n), map[Piece]bool{}
			if rapid.Bool().Draw(t, what+" full") {
				s = FullSet(n)
				for p := range Piece(n) {
					model[p] = true
				}
			}
			for range rapid.IntRange(0, 30).Draw(t, what+" steps") {
				p := Piece(rapid.IntRange(0, n+70).Draw(t, what+" piece"))
				if rapid.Bool().Draw(t, what+" add") {
					want := int(p) < n && !model[p]
					if got := s.Add(p); got != want {
						t.Fatalf("Add(%d) of %d is %v", p, n, got)
					}
					if int(p) < n {
						model[p] = true
					}
				} else {
					s.Remove(p)
					delete(model, p)
				}
			}
			return s, model
		}
		a, inA := draw("a")
		b, inB := draw("b")
		same(t, a, n, inA)
		if a.Equal(b) != maps.Equal(inA, inB) {
			t.Fatal("Equal disagrees")
		}

		minus := map[Piece]bool{}
		for p := range inA {
			if !inB[p] {
				minus[p] = true
			}
		}
		same(t, a.Minus(b), n, minus)
		both := a.Clone()
		both.Union(b)
		same(t, a, n, inA) // the clone is separate
		union := maps.Clone(inA)
		maps.Copy(union, inB)
		same(t, both, n, union)

		parsed, err := ParseSet(n, both.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		same(t, parsed, n, union)
	})
}

func same(t *rapid.T, s *Set, n int, model map[Piece]bool) {
	want := slices.Sorted(maps.Keys(model))
	if got := slices.Collect(s.All()); !slices.Equal(got, want) {
		t.Fatalf("holds %v, want %v", got, want)
	}
	if s.Len() != n || s.Count() != len(want) || s.Full() != (len(want) == n) {
		t.Fatalf("%d of %d, full %v; want %d of %d", s.Count(), s.Len(), s.Full(), len(want), n)
	}
	for p := range Piece(n + 70) {
		if s.Has(p) != model[p] {
			t.Fatalf("Has(%d) is %v", p, s.Has(p))
		}
		if bit := int(p)/64 < len(s.Words()) && s.Words()[p/64]>>(p%64)&1 == 1; bit != model[p] {
			t.Fatalf("bit %d of the words is %v", p, bit)
		}
	}
}

func TestAllStopsWhenAsked(t *testing.T) {
	var got []Piece
	for p := range FullSet(100).All() {
		if got = append(got, p); len(got) == 3 {
			break
		}
	}
	if !slices.Equal(got, []Piece{0, 1, 2}) {
		t.Error(got)
	}
}

func TestHaveMapHasItsLowestBitFirst(t *testing.T) {
	s := NewSet(12)
	for _, p := range []Piece{0, 3, 8, 11} {
		s.Add(p)
	}
	if got, want := s.Bytes(), []byte{0b0000_1001, 0b0000_1001}; !bytes.Equal(got, want) {
		t.Errorf("got %08b, want %08b", got, want)
	}
	if got := NewSet(17).Bytes(); !bytes.Equal(got, make([]byte, 3)) {
		t.Errorf("an empty set of 17: %v", got)
	}
	if got := FullSet(0).Bytes(); len(got) != 0 {
		t.Errorf("a set of no pieces: %v", got)
	}
}

func TestHaveMapOfWrongShapeIsRefused(t *testing.T) {
	for _, c := range []struct {
		n int
		b []byte
	}{
		{0, []byte{0}}, {1, nil}, {8, []byte{1, 0}}, {9, []byte{1}},
		{1, []byte{2}}, {9, []byte{0, 2}}, {15, []byte{0, 0x80}}, {65, make([]byte, 8)},
	} {
		if s, err := ParseSet(c.n, c.b); err == nil {
			t.Errorf("%v for %d pieces was taken as %v", c.b, c.n, slices.Collect(s.All()))
		}
	}
}

func TestSetsOfDifferentSharesDoNotMix(t *testing.T) {
	a, b := NewSet(10), NewSet(11)
	for name, mix := range map[string]func(){
		"union": func() { a.Union(b) },
		"minus": func() { a.Minus(b) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of sets of 10 and of 11 pieces", name)
				}
			}()
			mix()
		}()
	}
}

func FuzzParseSet(f *testing.F) {
	f.Add(uint16(0), []byte{})
	f.Add(uint16(12), []byte{0xff, 0x0f})
	f.Add(uint16(12), []byte{0xff, 0xff})
	f.Add(uint16(64), make([]byte, 8))
	f.Fuzz(func(t *testing.T, n uint16, b []byte) {
		s, err := ParseSet(int(n), b)
		if err != nil {
			return
		}
		if !bytes.Equal(s.Bytes(), b) {
			t.Errorf("%v became %v", b, s.Bytes())
		}
		for p := range s.All() {
			if int(p) >= int(n) {
				t.Errorf("piece %d of %d", p, n)
			}
		}
	})
}

func BenchmarkParseSet(b *testing.B) {
	raw := FullSet(1_000_000).Bytes()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseSet(1_000_000, raw); err != nil {
			b.Fatal(err)
		}
	}
}
