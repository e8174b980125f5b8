// Package few keeps what others can cause at will from filling a log: of each kind a few are
// said, and the next that is said tells how many were not.
package few

import "time"

// A Limiter lets Most of each key through in each time Per; the first at once. The zero value
// lets nothing through. It is not safe for concurrent use.
type Limiter[K comparable] struct {
	Most int
	Per  time.Duration

	seen map[K]*window
}

// window is what one key did since a moment.
type window struct {
	since      time.Time
	said, left int
}

// maxKeys bounds what is remembered. Keys beyond it count as one.
const maxKeys = 1 << 10

// Take says whether one of key may be said now, and if so, how many before it were not.
func (l *Limiter[K]) Take(key K, now time.Time) (say bool, left int) {
	w := l.seen[key]
	if w == nil && len(l.seen) >= maxKeys {
		l.forget(now)
		if len(l.seen) >= maxKeys {
			var others K
			key = others
			w = l.seen[key]
		}
	}
	if w == nil {
		if l.seen == nil {
			l.seen = map[K]*window{}
		}
		w = &window{since: now}
		l.seen[key] = w
	}
	if now.Sub(w.since) >= l.Per {
		w.since, w.said = now, 0
	}
	if w.said >= l.Most {
		w.left++
		return false, 0
	}
	w.said++
	left, w.left = w.left, 0
	return true, left
}

// forget forgets the keys whose time is over.
func (l *Limiter[K]) forget(now time.Time) {
	for k, w := range l.seen {
		if now.Sub(w.since) >= l.Per {
			delete(l.seen, k)
		}
	}
}
