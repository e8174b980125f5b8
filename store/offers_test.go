package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/wire"
)

// ask asks for everything of a share, and returns the statuses of Manifest, Check,
// Proof and ReadRun of piece p.
func ask(o *store.Offers, id share.ID, p share.Piece) (out [4]wire.Status) {
	_, r0 := o.Manifest(id)
	_, r1 := o.Check(id, p, 0, 1)
	_, r2 := o.Proof(id, p)
	_, r3 := o.ReadRun(id, p, 0, 1, make([]byte, share.BlockSize))
	return [4]wire.Status{r0.Status, r1.Status, r2.Status, r3.Status}
}

func all(s wire.Status) [4]wire.Status { return [4]wire.Status{s, s, s, s} }

func TestOffersAnswerForEachShare(t *testing.T) {
	r := newRig(t, small())
	o := store.NewOffers()
	id := r.m.ID()
	if got := ask(o, id, 0); got != all(wire.NotFound) {
		t.Error("unknown:", got)
	}
	for what, begin := range map[string]func() func(){"read": o.Reading, "opened": func() func() { return o.Opening(id) }} {
		done := begin()
		if got := ask(o, id, 0); got != all(wire.Busy) {
			t.Errorf("being %s: %v", what, got)
		}
		if _, r := o.Offered(id, ""); r.Status != wire.Busy || r.Retry <= 0 {
			t.Errorf("being %s: subscribers are told %v", what, r)
		}
		done()
		if got := ask(o, id, 0); got != all(wire.NotFound) {
			t.Errorf("not %s after all: %v", what, got)
		}
	}
	done := o.Opening(id)
	if _, reply := o.Manifest(id); reply.Retry <= 0 {
		t.Error("busy, but for how long?")
	}
	o.Add(r.im.Tree)
	done()
	done()
	if got := ask(o, id, 0); got != all(wire.OK) {
		t.Error("offered:", got)
	}
	raw, reply := o.Manifest(id)
	if !bytes.Equal(raw, r.m.Bytes()) || !reply.Whole {
		t.Error("another manifest, or not whole:", reply)
	}
	pieces := share.Piece(r.m.Layout().Pieces())
	if got := ask(o, id, pieces); got != [4]wire.Status{wire.OK, wire.Refused, wire.Refused, wire.Refused} {
		t.Error("no such piece:", got)
	}
	for p := range pieces {
		s := r.m.Layout().PieceSpan(p)
		n := r.m.Layout().Blocks(p)
		buf := make([]byte, n*share.BlockSize)
		k, reply := o.ReadRun(id, p, 0, n, buf)
		if bytes, r2 := o.Check(id, p, 0, n); k != s.Len || bytes != s.Len || reply.Status != wire.OK || r2.Status != wire.OK {
			t.Errorf("piece %d: %d bytes, want %d", p, k, s.Len)
		}
	}
	o.Remove(id)
	o.Remove(id)
	if got := ask(o, id, 0); got != all(wire.Gone) {
		t.Error("removed:", got)
	}
	if _, err := r.im.Tree.Proof(0); err == nil {
		t.Error("a Tree that was taken out is still open")
	}
}

func TestAShareWhoseFileChangedIsGone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "stuff")
	tree{"a": "aaa", "b": "bbb"}.make(t, dir)
	im := importDir(t, dir, store.ImportOptions{})
	id := im.Manifest.ID()
	o := store.NewOffers()
	var told []share.ID
	o.OnGone(func(id share.ID, why string) {
		if why == "" {
			t.Error("no reason")
		}
		told = append(told, id)
	})
	o.Add(im.Tree)
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("AAA"), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := ask(o, id, 1); got != all(wire.OK) {
		t.Error("another file:", got)
	}
	buf := make([]byte, share.BlockSize)
	if n, reply := o.ReadRun(id, 0, 0, 1, buf); n != 0 || reply.Status != wire.Gone || reply.Reason == (wire.Reason{}) {
		t.Error("changed:", n, reply)
	}
	if got := ask(o, id, 1); got != all(wire.Gone) {
		t.Error("afterwards:", got)
	}
	if len(told) != 1 || told[0] != id {
		t.Error("told", told)
	}
	o.Add(importDir(t, dir, store.ImportOptions{}).Tree) // a different share now
	if got := ask(o, id, 1); got != all(wire.Gone) {
		t.Error("the old one:", got)
	}
}

func TestAPartialServesWhatItHas(t *testing.T) {
	r := newRig(t, small())
	o := store.NewOffers()
	id := r.m.ID()
	d := storetest.New(1 << 30)
	p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o.Add(p)
	if got := ask(o, id, 0); got != [4]wire.Status{wire.OK, wire.NotFound, wire.NotFound, wire.NotFound} {
		t.Error("not yet:", got)
	}
	if err := copyPiece(p, r.im.Tree, 0, 1); err != nil {
		t.Fatal(err)
	}
	if got := ask(o, id, 0); got != all(wire.OK) {
		t.Error("here:", got)
	}
	copyAll(t, p, r.im.Tree)
	if _, r := o.Manifest(id); r.Whole {
		t.Error("not finished, and said to be whole")
	}
	if _, err := p.Finish(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, r := o.Manifest(id); !r.Whole {
		t.Error("finished, and not said to be whole")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if got := ask(o, id, 0); got != all(wire.OK) {
		t.Error("done and closed:", got)
	}
	o.Close()
	if got := ask(o, id, 0); got[3] == wire.OK {
		t.Error("closed:", got)
	}
	if open, _ := d.Open(); open != 0 {
		t.Errorf("%d files left open", open)
	}
	o.Add(newRig(t, small()).im.Tree) // too late
}

// A temporary trouble is no reason to give up a share.
func TestDropTakesOutOnlyWhatIsOffered(t *testing.T) {
	r := newRig(t, small())
	o := store.NewOffers()
	defer o.Close()
	d := storetest.New(1 << 30)
	p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o.Add(r.im.Tree)
	o.Drop(p)
	if got := ask(o, r.m.ID(), 0); got != all(wire.OK) {
		t.Error("another was dropped:", got)
	}
	o.Add(p)
	o.Drop(p)
	if got := ask(o, r.m.ID(), 0); got != all(wire.Gone) {
		t.Error("not dropped:", got)
	}
}

// A transfer that begins again closes what it offers and offers it again: meanwhile peers
// that ask are told to come back, not that it is gone.
func TestAPartThatIsOpenedAnewIsBusyMeanwhile(t *testing.T) {
	r := newRig(t, small())
	o := store.NewOffers()
	defer o.Close()
	d := storetest.New(1 << 30)
	p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	copyAll(t, p, r.im.Tree)
	o.Add(p)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, share.BlockSize)
	if n, reply := o.ReadRun(r.m.ID(), 0, 0, 1, buf); n != 0 || reply.Status != wire.Busy || reply.Retry <= 0 {
		t.Errorf("while it is closed: %+v", reply)
	}
	o.Drop(p)
	if _, reply := o.ReadRun(r.m.ID(), 0, 0, 1, buf); reply.Status != wire.Gone {
		t.Errorf("when it has ended: %+v", reply)
	}
}

func TestADiskThatFailsForAMomentIsBusy(t *testing.T) {
	d := storetest.New(1 << 30)
	tree{"f": random(100_000)}.fill(t, d.FS(), "stuff")
	im, err := store.Import(t.Context(), "stuff", store.ImportOptions{FS: d.FS(), Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	o := store.NewOffers()
	o.OnGone(func(share.ID, string) { t.Error("gone") })
	o.Add(im.Tree)
	for _, kind := range []string{"open", "read", "stat", "lstat"} {
		if d.Fault = nil; kind == "lstat" && ask(o, im.Manifest.ID(), 0) != all(wire.OK) { // so that the file is open
			t.Error("not served")
		}
		d.Fault = func(op storetest.Op) error {
			if op.Kind == kind {
				return errors.New("too many open files")
			}
			return nil
		}
		if _, reply := o.ReadRun(im.Manifest.ID(), 0, 0, 1, make([]byte, share.BlockSize)); reply.Status != wire.Busy || reply.Retry <= 0 {
			t.Errorf("%s: %+v", kind, reply)
		}
	}
	d.Fault = nil
	if got := ask(o, im.Manifest.ID(), 0); got != all(wire.OK) {
		t.Error(got)
	}
}

func TestOffersCanBeUsedByMany(t *testing.T) {
	o := store.NewOffers()
	rigs := []rig{newRig(t, tree{"a": random(70_000)}), newRig(t, tree{"b": random(70_000)})}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 50 {
				r := rigs[(w+i)%2]
				if i%10 == 0 {
					o.Opening(r.m.ID())()
				}
				ask(o, r.m.ID(), 0)
				if i == 5*w {
					o.Add(r.im.Tree)
				}
			}
		})
	}
	wg.Wait()
	o.Close()
}

// The peers that know the secret of a share are remembered up to a bound, and for as long as it
// has that secret.
func TestWhoeverKnowsASecretIsRememberedForAWhile(t *testing.T) {
	r := newRig(t, small())
	o := store.NewOffers()
	id := r.m.ID()
	may := func(peer peers.ID) bool {
		_, reply := o.Offered(id, peer)
		return reply.Status == wire.OK
	}
	o.Proved(id, "early")
	o.Guard(id, &share.Secret{1})
	o.Add(r.im.Tree, "named")
	if may("early") || may("stranger") || !may("named") {
		t.Error("guarded, it is given to", may("early"), may("stranger"), may("named"))
	}
	o.Proved(id, "friend")
	o.Guard(id, &share.Secret{1})
	if !may("friend") || *o.Secret(id) != (share.Secret{1}) {
		t.Error("the same secret again, and a friend is forgotten")
	}
	for i := range 5000 {
		o.Proved(id, peers.ID(fmt.Sprint(i)))
	}
	held := 0
	for i := range 5000 {
		if may(peers.ID(fmt.Sprint(i))) {
			held++
		}
	}
	if held < 4000 || held > 4096 || !may("4999") {
		t.Errorf("%d of 5000 are remembered", held)
	}
	o.Guard(id, &share.Secret{2})
	if may("4999") {
		t.Error("the secret was changed, and a peer that knew the first one is let in")
	}
	o.Guard(id, nil)
	if o.Secret(id) != nil || may("stranger") || !may("named") {
		t.Error("without a secret the list does not count")
	}
	o.Guard(id, &share.Secret{2})
	o.Remove(id)
	if o.Secret(id) != nil {
		t.Error("the secret of what was removed is remembered")
	}
}

// The secret that is set for what will be offered holds for it, also if what was offered before ends only then.
func TestAGuardHoldsForWhatIsBeingOpened(t *testing.T) {
	r := newRig(t, small())
	o := store.NewOffers()
	defer o.Close()
	id := r.m.ID()
	d := storetest.New(1 << 30)
	p, err := store.OpenPartialIn(t.Context(), d.FS(), r.m, store.PartialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o.Add(p)
	opened := o.Opening(id)
	o.Guard(id, &share.Secret{1})
	o.Drop(p)
	o.Add(r.im.Tree)
	opened()
	if _, reply := o.Offered(id, "stranger"); reply.Status != wire.Refused {
		t.Error("it is given to a stranger:", reply)
	}
	opened = o.Opening(id)
	o.Remove(id)
	opened()
	if o.Secret(id) != nil {
		t.Error("the secret is remembered of what was not offered in the end")
	}
}
