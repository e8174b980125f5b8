package catalog

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/share"
)

var errCrash = errors.New("crash")

// A history is a database, and beside it the entries that must be in it.
type history struct {
	*rapid.T
	ctx  testing.TB
	path string
	db   *DB
	want []Entry
	last ID
	now  time.Time
}

// crash opens what a kill at this moment would leave: a copy of the files as they are while
// the database is open.
func (h *history) crash() {
	to := filepath.Join(h.ctx.TempDir(), "catalog.db")
	for _, part := range []string{"", "-wal"} {
		b, err := os.ReadFile(h.path + part)
		if err == nil {
			err = os.WriteFile(to+part, b, 0o600)
		} else if part != "" && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			h.Fatal(err)
		}
	}
	h.db.Close()
	h.path = to
	h.open()
}

func (h *history) open() {
	db, aside, err := Open(h.ctx.Context(), h.path)
	if err != nil || aside != "" {
		h.Fatalf("open: %v, set aside: %q", err, aside)
	}
	h.db = db
}

// do runs f, which is one transaction. It may crash before any of its statements: then nothing
// has happened, and it is run again.
func (h *history) do(f func() error) error {
	if at := rapid.IntRange(0, 12).Draw(h.T, "crash"); at > 0 {
		h.db.fault = func(string) error {
			if at--; at == 0 {
				return errCrash
			}
			return nil
		}
		err := f()
		h.db.fault = nil
		if !errors.Is(err, errCrash) {
			return err
		}
		h.crash()
	}
	return f()
}

func pick[V any](h *history, what string, from ...V) V {
	return rapid.SampledFrom(from).Draw(h.T, what)
}

func (h *history) pickID() ID { return ID(rapid.Int64Range(0, int64(h.last)+1).Draw(h.T, "id")) }

func (h *history) at(id ID) int {
	return slices.IndexFunc(h.want, func(e Entry) bool { return e.ID == id })
}

func (h *history) is(what string, err, want error) {
	h.Helper()
	if !errors.Is(err, want) {
		h.Fatalf("%s: %v, want %v", what, err, want)
	}
}

func (h *history) same(what string, got, want Entry) {
	h.Helper()
	if !reflect.DeepEqual(got, want) {
		h.Fatalf("%s:\n%+v, want\n%+v", what, got, want)
	}
}

func (h *history) add() {
	w := Wish{Paths: []string{pick(h, "path", abs("a"), abs("b"))}, Exclude: pick(h, "exclude", nil, []string{"*.o"})}
	if pick(h, "fetch", false, true) {
		w = Wish{Source: pick(h, "source", share.IDOf(nil).String(), share.IDOf([]byte{1}).String()), Dir: pick(h, "dir", abs("x"), abs("y")), SeedTime: time.Hour}
	}
	var e Entry
	err := h.do(func() (err error) { e, err = h.db.Add(h.ctx.Context(), h.now, w); return err })
	if i := slices.IndexFunc(h.want, func(e Entry) bool { return e.Wish.key() == w.key() }); i >= 0 {
		h.is("add", err, ErrTwice)
		h.same("add", e, h.want[i])
		return
	}
	h.is("add", err, nil)
	if e.ID <= h.last {
		h.Fatalf("ID %d after %d", e.ID, h.last)
	}
	h.last = e.ID
	h.same("add", e, Entry{ID: e.ID, Kind: w.kind(), Added: h.now, Wish: w, Status: Status{State: Asked, Since: h.now}})
	h.want = append(h.want, e)
}

func (h *history) set() {
	id, i := h.pickID(), 0
	f := func(w *Wish) error { w.Paused, w.Priority = !w.Paused, 1; return nil }
	want := error(nil)
	how := pick(h, "how", 0, 1, 2, 3)
	switch how {
	case 3:
		f = func(w *Wish) error {
			if w.kind() == Fetch {
				w.Only = []string{pick(h, "only", "a", "b")}
			}
			return nil
		}
	case 1:
		f, want = func(w *Wish) error { w.Paused = !w.Paused; return errCrash }, errCrash
	case 2:
		f, want = func(w *Wish) error { w.Priority = 2; return nil }, nil
	}
	var e Entry
	err := h.do(func() (err error) { e, err = h.db.Set(h.ctx.Context(), id, f); return err })
	if i = h.at(id); i < 0 {
		h.is("set", err, ErrNoEntry)
		return
	}
	w := e.Wish
	if how != 3 {
		w = h.want[i].Wish
		f(&w)
	}
	if w.Priority == 2 {
		if err == nil {
			h.Fatal("a priority of 2 was taken")
		}
		return
	}
	h.is("set", err, want)
	if err == nil {
		if how == 3 && !slices.Equal(w.Only, h.want[i].Only) {
			h.want[i].State, h.want[i].Why = Asked, ""
		}
		h.want[i].Wish = w
		h.same("set", e, h.want[i])
	}
}

func (h *history) note() {
	id := h.pickID()
	to, version := pick(h, "state", Asked, Serving, Kept, Missing), share.IDOf([]byte{byte(rapid.IntRange(0, 9).Draw(h.T, "version"))})
	f := func(s *Status) {
		if !s.Share.IsZero() && s.Share != version {
			s.Older = append(s.Older, s.Share)
		}
		s.State, s.Share, s.Why, s.Title, s.Bytes, s.Done = to, version, "why", "t", 7, h.now
	}
	var e Entry
	err := h.do(func() (err error) { e, err = h.db.Note(h.ctx.Context(), h.now, id, f); return err })
	i := h.at(id)
	if i < 0 {
		h.is("note", err, ErrNoEntry)
		return
	}
	h.is("note", err, nil)
	x := &h.want[i]
	if x.State != to {
		x.Since = h.now
	}
	x.Older = slices.Clone(x.Older)
	f(&x.Status)
	x.Older = x.Older[max(0, len(x.Older)-MaxOlder):]
	h.same("note", e, *x)
}

func (h *history) sent() {
	id := h.pickID()
	h.is("sent", h.do(func() error { return h.db.Sent(h.ctx.Context(), map[ID]int64{id: 5}) }), nil)
	if i := h.at(id); i >= 0 {
		h.want[i].Sent += 5
	}
}

func (h *history) remove() {
	id := h.pickID()
	var e Entry
	err := h.do(func() (err error) { e, err = h.db.Remove(h.ctx.Context(), id); return err })
	i := h.at(id)
	if i < 0 {
		h.is("remove", err, ErrNoEntry)
		return
	}
	h.is("remove", err, nil)
	h.same("remove", e, h.want[i])
	h.want = slices.Delete(h.want, i, i+1)
}

func (h *history) check() {
	all, err := h.db.List(h.ctx.Context())
	if err != nil || len(all) != len(h.want) {
		h.Fatalf("list: %d entries, want %d: %v", len(all), len(h.want), err)
	}
	for i, e := range all {
		h.same("list", e, h.want[i])
	}
}

func abs(name string) string {
	p, err := filepath.Abs(filepath.Join(string(filepath.Separator), name))
	if err != nil {
		panic(err)
	}
	return p
}

// Whatever is done, and wherever it is interrupted, the catalog has what was confirmed to its
// owner and nothing else.
func TestTheCatalogIsWhatItsOwnerWasTold(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := &history{T: r, ctx: t, path: filepath.Join(t.TempDir(), "catalog.db"), now: time.Unix(1e9, 0)}
		h.open()
		defer func() { h.db.Close() }()
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			h.now = h.now.Add(time.Minute)
			pick(h, "step", h.add, h.add, h.set, h.note, h.note, h.sent, h.remove, h.crash)()
			h.check()
		}
	})
}

func TestAnIDIsNeverUsedTwice(t *testing.T) {
	db := fresh(t)
	a := added(t, db, Wish{Paths: []string{abs("a")}})
	if _, err := db.Remove(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	}
	if b := added(t, db, Wish{Paths: []string{abs("a")}}); b.ID == a.ID {
		t.Errorf("entry %d was removed, and another has its ID", a.ID)
	}
}

func fresh(t *testing.T) *DB {
	t.Helper()
	db, _, err := Open(t.Context(), filepath.Join(t.TempDir(), "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func added(t *testing.T, db *DB, w Wish) Entry {
	t.Helper()
	e, err := db.Add(context.Background(), time.Unix(1e9, 0), w)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
