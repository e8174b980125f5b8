package leasedb

import (
	"testing"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
)

// A payment that was entered is not entered again for another sum.
func TestAPaymentIsOfOneSum(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := depot.Payment{Account: 2, Request: [16]byte{1}, Units: 64}
	_, _, err := r.Intend(t.Context(), start, p)
	r.ok(err)
	r.ok(r.Deposit(t.Context(), start, p))
	if done, _, err := r.Intend(t.Context(), start, p); !done || err != nil {
		t.Errorf("sent again: %v, %v", done, err)
	}
	p.Units++
	_, _, err = r.Intend(t.Context(), start, p)
	refused(t, err, depot.BadRequest)
}

// An account that can be credited no more is still told of what was entered, and what was noted, whose passes may be spent, is entered.
func TestAPaymentIsAnsweredAsItWasWhateverTheCreditIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	entered, noted := depot.Payment{Account: 2, Request: [16]byte{1}, Units: 64}, depot.Payment{Account: 2, Request: [16]byte{2}, Units: 64}
	_, _, err := r.Intend(t.Context(), start, entered)
	r.ok(err)
	r.ok(r.Deposit(t.Context(), start, entered))
	_, mark, err := r.Intend(t.Context(), start, noted)
	r.ok(err)
	r.ok(r.write(t.Context(), start, func(t *tx) error { return t.exec(`UPDATE accounts SET credit = ?1`, int64(renewal.MaxCredit)+1) }))
	if done, _, err := r.Intend(t.Context(), start, entered); !done || err != nil {
		t.Errorf("sent again: %v, %v", done, err)
	}
	if done, m, err := r.Intend(t.Context(), start, noted); done || err != nil || m != mark {
		t.Errorf("noted before: %v, %v", done, err)
	}
	_, _, err = r.Intend(t.Context(), start, depot.Payment{Account: 2, Request: [16]byte{3}, Units: 64})
	refused(t, err, depot.WrongSum)
}

// A stranger's account gives way to another's while its first payment is being entered: the passes are
// spent. Either it does not give way, or the depot does not say that they are entered.
func TestAnAccountThatIsPayingDoesNotGiveWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	terms := depot.Terms{Quota: 1 << 30, MaxLease: day, Paid: true}
	admit := func(peer peers.ID) depot.Account {
		a, err := r.Admit(t.Context(), start, peer, terms, 1)
		r.ok(err)
		return a
	}
	p := depot.Payment{Account: admit("payer"), Request: [16]byte{1}, Units: 64}
	done, mark, err := r.Intend(t.Context(), start, p)
	if done || err != nil {
		t.Fatal(done, err)
	}
	// here the passes are spent; meanwhile
	if _, err := r.Admit(t.Context(), start, "another", terms, 1); err != nil {
		return // it did not give way
	}
	if err := r.Deposit(t.Context(), start, p); err == nil {
		_, err := r.Info(t.Context(), start, p.Account)
		t.Errorf("64 units were reported as entered, for an account with: %v", err)
	}
	again := depot.Payment{Account: admit("payer"), Request: p.Request, Units: 64}
	if _, m, err := r.Intend(t.Context(), start, again); err != nil || m != mark {
		t.Errorf("sent again it is not known (%v): spent passes are refused as spent", err)
	}
}
