package spoken

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

const ticket = "shareujqxmatbpbmqcdq7sfg2elagmztpbrylvubxq73ujgvbk4s4fhbifood"

// random is a source of chance for both sides.
type random struct{ *rand.ChaCha8 }

func from(seed byte) random { return random{rand.NewChaCha8([32]byte{seed, 1})} }

func (r random) fetcher(c Code, self string) (*Fetcher, []byte) {
	var chance [80]byte
	r.Read(chance[:])
	return NewFetcher(c, self, chance)
}

func (r random) sharer(t *testing.T, c Code, self string) *Sharer {
	t.Helper()
	var chance [64]byte
	r.Read(chance[:])
	s, err := NewSharer(c, self, ticket, chance)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// exchange runs both sides through a beacon that may change what they say.
func exchange(f *Fetcher, first []byte, s *Sharer, change func(step int, body []byte) []byte) (got string, sharer, fetcher error) {
	body := change(1, first)
	for step := 2; ; step += 2 {
		say, done, err := s.Hear(body, f.name)
		if err != nil {
			_, _, fetcher = f.Hear(nil, s.name)
			return "", err, fetcher
		}
		body, got, fetcher = f.Hear(change(step, say), s.name)
		if fetcher != nil && !done {
			_, _, sharer = s.Hear(nil, f.name)
		}
		if done || fetcher != nil {
			return got, sharer, fetcher
		}
		body = change(step+1, body)
	}
}

func unchanged(_ int, body []byte) []byte { return body }

func TestBothSidesAgree(t *testing.T) {
	r, c := from(1), New(7, 12345)
	s := r.sharer(t, c, "S")
	f, first := r.fetcher(c, "F")
	var said [][]byte
	got, a, b := exchange(f, first, s, func(_ int, body []byte) []byte {
		said = append(said, bytes.Clone(body))
		return body
	})
	if a != nil || b != nil || got != ticket {
		t.Fatalf("%q, %v, %v", got, a, b)
	}
	if len(said) != 4 || (len(said[3])-64-16)%ticketUnit != 0 {
		t.Errorf("%d messages, the last of %d bytes", len(said), len(said[3]))
	}
	for _, m := range said {
		if bytes.Contains(m, []byte(ticket[:16])) || bytes.Contains(m, []byte(c.words[0])) {
			t.Errorf("%q is said", m)
		}
	}
	for _, end := range []func() error{
		func() error { _, _, err := s.Hear(said[2], "F"); return err },
		func() error { _, _, err := f.Hear(said[3], "S"); return err },
	} {
		if end() == nil {
			t.Error("it goes on after its end")
		}
	}
}

// Whoever has another code, or another channel, learns nothing, and both sides are told.
func TestOtherWordsFail(t *testing.T) {
	for _, other := range []Code{New(7, 12346), New(8, 12345)} {
		r := from(2)
		f, first := r.fetcher(other, "F")
		got, a, b := exchange(f, first, r.sharer(t, New(7, 12345), "S"), unchanged)
		if got != "" || !errors.Is(a, ErrWords) || !errors.Is(b, ErrWords) {
			t.Errorf("%v: %q, %v, %v", other, got, a, b)
		}
	}
}

// A beacon that changes a bit of any message is found out, and so is one that names others.
func TestWhatIsChangedFails(t *testing.T) {
	for step := 1; step <= 4; step++ {
		for _, at := range []int{0, 20, 63} {
			r, c := from(3), New(7, 1)
			f, first := r.fetcher(c, "F")
			got, a, b := exchange(f, first, r.sharer(t, c, "S"), func(n int, body []byte) []byte {
				if n != step {
					return body
				}
				out := bytes.Clone(body)
				out[at%len(out)] ^= 1
				return out
			})
			if got != "" || a == nil && b == nil {
				t.Errorf("message %d, byte %d: %q, %v, %v", step, at, got, a, b)
			}
		}
	}
	r, c := from(4), New(7, 1)
	s := r.sharer(t, c, "S")
	f, first := r.fetcher(c, "F")
	say, _, err := s.Hear(first, "M") // through a peer between them that has them think it is the other
	if err != nil {
		t.Fatal(err)
	}
	say, _, err = f.Hear(say, "M")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = s.Hear(say, "M"); !errors.Is(err, ErrWords) {
		t.Errorf("what came from M and was said to M: %v", err)
	}
	s, first = r.sharer(t, c, "S"), nil
	f, first = r.fetcher(c, "F")
	say, _, _ = s.Hear(first, "F")
	say, _, _ = f.Hear(say, "S")
	if _, _, err = s.Hear(say, "G"); !errors.Is(err, ErrStrange) {
		t.Errorf("another peer goes on: %v", err)
	}
}

// A side does not take its own messages for those of another.
func TestAReflectionFails(t *testing.T) {
	r, c := from(5), New(7, 1)
	f, first := r.fetcher(c, "F")
	say, _, err := f.Hear(first[sessionSize:], "S")
	if err != nil {
		t.Fatal(err)
	}
	if _, got, err := f.Hear(append(say, make([]byte, 600)...), "S"); err == nil {
		t.Errorf("%q", got)
	}
	if _, _, err := r.sharer(t, c, "S").Hear(first, "S"); err == nil {
		t.Error("it speaks to itself")
	}
}

func TestATicketTooLongIsRefused(t *testing.T) {
	if _, err := NewSharer(New(7, 1), "S", strings.Repeat("x", MaxTicket+1), [64]byte{}); err == nil {
		t.Error("it is taken")
	}
	r, c := from(6), New(7, 1)
	long := strings.Repeat("x", MaxTicket)
	s, err := NewSharer(c, "S", long, [64]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	f, first := r.fetcher(c, "F")
	most := 0
	got, _, _ := exchange(f, first, s, func(_ int, b []byte) []byte { most = max(most, len(b)); return b })
	if got != long || most > MaxMessage {
		t.Errorf("%d bytes, in messages of up to %d", len(got), most)
	}
}

// A guess is right as often as chance has it, and no try tells anything about another word: with
// 16 codes, 1 try of 16. A beacon that stands between the two sides has one guess at each.
func TestAGuessIsRightAsOftenAsChanceHasIt(t *testing.T) {
	const codes, tries = 16, 240
	r, draw := from(7), rand.New(rand.NewPCG(1, 2))
	guess := func() Code { return New(7, uint32(draw.IntN(codes))) }
	atSharer, atFetcher := 0, 0
	for range tries {
		c := guess()
		s := r.sharer(t, c, "S")
		f, first := r.fetcher(c, "F")

		asFetcher, mine := r.fetcher(guess(), "M") // the beacon towards the sharer
		if got, _, _ := exchange(asFetcher, mine, s, unchanged); got == ticket {
			atSharer++
		}
		asSharer := r.sharer(t, guess(), "M") // and towards the fetcher
		if got, _, _ := exchange(f, first, asSharer, unchanged); got != "" {
			atFetcher++
		}
		if s.step > 0 {
			if _, _, err := s.Hear(mine, "M"); err == nil {
				t.Fatal("a code that was tried is tried again")
			}
		}
	}
	for side, right := range map[string]int{"sharer": atSharer, "fetcher": atFetcher} {
		if right < tries/codes*6/10 || right > tries/codes*15/10 {
			t.Errorf("at the %s %d of %d guesses of %d codes were right", side, right, tries, codes)
		}
	}
}

func FuzzHear(f *testing.F) {
	r, c := from(8), New(7, 1)
	_, first := r.fetcher(c, "F")
	f.Add(first, []byte("x"), true)
	f.Add(first, first, false)
	f.Fuzz(func(t *testing.T, one, two []byte, fetches bool) {
		if fetches {
			side, _ := from(9).fetcher(c, "F")
			for _, m := range [][]byte{one, two} {
				if _, got, _ := side.Hear(m, "S"); got != "" {
					t.Errorf("%q", got)
				}
			}
			return
		}
		side := from(9).sharer(t, c, "S")
		for _, m := range [][]byte{one, two} {
			if _, done, _ := side.Hear(m, "F"); done {
				t.Error("a guess is right")
			}
		}
	})
}
