package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
)

// What an account has paid and not used up goes with it only if its depot's owner says so.
func TestAnAccountIsNotRemovedWithWhatItHasPaid(t *testing.T) {
	t.Parallel()
	m := newMover(t)
	m.account("payer", "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN")
	l := m.lender
	id, err := l.db.Named(t.Context(), "payer")
	must(t, err)
	complete(t, l)
	p := depot.Payment{Account: id, Request: [16]byte{1}, Units: 3}
	_, _, err = l.db.Intend(t.Context(), time.Now(), p)
	must(t, err)
	must(t, l.db.Deposit(t.Context(), time.Now(), p))
	if _, err := m.RemoveAccount(t.Context(), "payer", false); !errors.Is(err, api.ErrHave) || !strings.Contains(err.Error(), "3 passes") {
		t.Error(err)
	}
	if a, err := m.RemoveAccount(t.Context(), "payer", true); err != nil || Passes(a.Credit) != 3 {
		t.Error(a, err)
	}
}

// complete makes the ledger of a depot complete, as a cycle of the crawler does.
func complete(t *testing.T, l *lender) {
	t.Helper()
	m, err := l.db.Meta(t.Context())
	must(t, err)
	must(t, l.db.CycleDone(t.Context(), time.Now(), m.Self, depot.Cycle{}))
}
