package daemon

import (
	"testing"

	"github.com/piecelease/fetcher/api"
)

// An entry is as before if its removal could not be written; so is what could not be written of it before. It is served from where it was, and said to be.
func TestWhatWasNotWrittenIsNotForgottenByARemovalThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fails := func(what string, on bool) {
		query := `DROP TRIGGER full_` + what
		if on {
			query = `CREATE TRIGGER full_` + what + ` BEFORE ` + what + ` ON entries BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`
		}
		execCatalog(t, dir, query)
	}
	a := begun(t, t.TempDir())
	e := added(t, a, api.Add{Paths: []string{file(t, "one", t.TempDir(), "film")}})
	b := begun(t, dir)
	fails("update", true)
	got := until(t, b, added(t, b, api.Add{Ticket: e.Ticket, Dir: t.TempDir()}).ID, "here", in(api.Served))
	k, err := b.keeper(got.ID)
	must(t, err)
	k.stop() // as Remove does, while nothing can be written
	fails("delete", true)
	fails("update", false)
	if _, err := b.Remove(t.Context(), got.ID, false); err == nil {
		t.Fatal("it was removed, which could not be written")
	}
	fails("delete", false)
	k, err = b.keeper(got.ID)
	must(t, err)
	must(t, k.settledIn(t.Context()))
	is, err := b.Entry(t.Context(), got.ID)
	must(t, err)
	if is.State != api.Served || is.Path != got.Path || is.Done == nil {
		t.Errorf("what is served from %s is %q (%s), in %q, complete since %v", got.Path, is.State, is.Reason, is.Path, is.Done)
	}
}
