package few

import (
	"testing"
	"time"
)

func TestAFewAreSaidAndTheRestCounted(t *testing.T) {
	l := Limiter[string]{Most: 2, Per: time.Minute}
	now := time.Unix(1e9, 0)
	for i, x := range []struct {
		after time.Duration
		key   string
		say   bool
		left  int
	}{
		{0, "a", true, 0},
		{0, "a", true, 0},
		{time.Second, "a", false, 0},
		{time.Second, "b", true, 0},
		{57 * time.Second, "a", false, 0},
		{time.Second, "a", true, 2},
		{0, "a", true, 0},
		{0, "a", false, 0},
		{time.Hour, "a", true, 1},
		{0, "b", true, 0},
	} {
		now = now.Add(x.after)
		if say, left := l.Take(x.key, now); say != x.say || left != x.left {
			t.Errorf("%d, %q: %v, %d left out; want %v, %d", i, x.key, say, left, x.say, x.left)
		}
	}
}

// Whoever has many names is not remembered without bound, and is not heard more for them.
func TestManyKeysCountAsOne(t *testing.T) {
	l := Limiter[int]{Most: 1, Per: time.Minute}
	now, said := time.Unix(1e9, 0), 0
	for i := range 10 * maxKeys {
		if say, _ := l.Take(i+1, now); say {
			said++
		}
	}
	if len(l.seen) > maxKeys+1 || said > maxKeys+1 {
		t.Errorf("%d keys, %d said", len(l.seen), said)
	}
	if say, _ := l.Take(-1, now.Add(time.Minute)); !say || len(l.seen) != 1 {
		t.Errorf("a minute later: %v, %d keys", say, len(l.seen))
	}
}
