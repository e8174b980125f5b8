package renewal

import (
	"testing"
)

func BenchmarkHoldsOfOneDepot(b *testing.B) {
	s := New(Config{}, 1)
	for i := range 3000 {
		hold(s, Hold{Key: Key{"d", shareID(i)}, Bytes: 1, Expires: epoch.Add(30 * day), State: Stable}, epoch)
	}
	for b.Loop() {
		s.Holds(epoch)
	}
}
