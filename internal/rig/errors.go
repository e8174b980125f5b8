package rig

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
)

// Errors is a log that keeps errors, for a test that fails on those it has not taken.
type Errors struct {
	mu  sync.Mutex
	got []string
}

// Enabled implements [slog.Handler].
func (l *Errors) Enabled(_ context.Context, lv slog.Level) bool { return lv >= slog.LevelError }

// WithAttrs implements [slog.Handler]: attributes of a logger are left out.
func (l *Errors) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements [slog.Handler].
func (l *Errors) WithGroup(string) slog.Handler { return l }

// Handle implements [slog.Handler].
func (l *Errors) Handle(_ context.Context, r slog.Record) error {
	s := r.Message
	r.Attrs(func(a slog.Attr) bool { s += fmt.Sprintf(" %s=%v", a.Key, a.Value); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.got = append(l.got, s)
	return nil
}

// Take returns what was logged since the last call.
func (l *Errors) Take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	got := l.got
	l.got = nil
	return got
}

// None fails the test for every error that it has not taken.
func (l *Errors) None(t testing.TB) {
	t.Helper()
	for _, e := range l.Take() {
		t.Errorf("logged: %.2000s", e)
	}
}
