package transfer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

func TestAddressesOfASourceAreBoundedAndTriedInTurn(t *testing.T) {
	p := Addresses{{Addrs: []string{"first"}}}
	for i := range 10 {
		if a := (peers.Addr{By: "somebody", Addrs: []string{fmt.Sprint(i)}}); !p.Also(a) || p.Also(a) {
			t.Error(i, "is not new once")
		}
	}
	var tried []string
	for i := range 2 * MaxAddresses {
		tried = append(tried, p.Try(i).Addrs[0])
	}
	if want := []string{"first", "7", "8", "9", "first", "7", "8", "9"}; !slices.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
}

// While something is waited for, the reason names the peer that could send it, not one
// that was banned, however recently.
func TestTheLastWordIsOfWhoIsWaitedFor(t *testing.T) {
	t.Parallel()
	from := func(id string, state SourceState, why string, out bool) *source {
		return &source{addr: peers.Addr{ID: peers.ID(id)}, info: Source{State: state, Why: why}, out: out}
	}
	liar := from("liar", Banned, "banned", true)
	away := from("away", Resting, "refused; trying again in 2 s", false)
	mute := from("mute", Active, "fetching", false)
	quiet := from("quiet", Active, "", false)
	for _, c := range []struct {
		of   []*source
		want string
	}{
		{nil, "no source is known"},
		{[]*source{away, liar}, "away: refused; trying again in 2 s"},
		{[]*source{mute, away, liar, quiet}, "mute: fetching"},
		{[]*source{liar, quiet}, "liar: banned"},
	} {
		if got := (&sources{order: c.of}).lastWord(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestAtMostSoManySourcesAreFetchedFrom(t *testing.T) {
	w := fetching(t, Config{MaxSources: 2}, "a", "b", "c")
	if len(w.pools) != 2 || w.poolOf("c") != 0 {
		t.Fatalf("pools of %v", w.running())
	}
	w.status(SourceStatus{Source: "a", State: Left, Why: "it withdrew the share", Gone: true})
	if w.poolOf("a") != 0 || w.poolOf("c") == 0 {
		t.Errorf("pools of %v after one has left", w.running())
	}
	w.find("self")
	if len(w.x.order) != 3 {
		t.Error("it is a source of its own")
	}
}

// A source that cannot be reached gives its place to one that waits, and gets its turn again.
func TestWhoCannotBeReachedMakesRoom(t *testing.T) {
	w := fetching(t, Config{MaxSources: 1}, "a", "b", "c")
	var had []peers.ID
	for range 6 {
		of := w.running()
		had = append(had, of...)
		w.status(SourceStatus{Source: of[0], State: Resting, Why: "refused", LastLoss: "refused", Dials: enoughDials - 1, Connected: true})
		if !slices.Equal(w.running(), of) {
			t.Fatalf("%s gives way too early", of)
		}
		w.status(SourceStatus{Source: of[0], State: Resting, Why: "refused; trying again in 8 s", LastLoss: "refused", Dials: enoughDials, Connected: true})
	}
	if want := []peers.ID{"a", "b", "c", "a", "b", "c"}; !slices.Equal(had, want) {
		t.Errorf("places went to %v, want %v", had, want)
	}
	if s := got[SourceChanged](w); len(s) != 1 || s[0].Source.State != Resting || s[0].Source.Why != "waits while others are tried: refused" {
		t.Errorf("told %+v", s)
	}
}

func TestWhoIsAloneNeedNotMakeRoom(t *testing.T) {
	for _, most := range []int{1, 3} {
		w := fetching(t, Config{MaxSources: most}, "b", "a")
		w.status(SourceStatus{Source: "b", State: Left, Why: "is out", Gone: true})
		w.active("a")
		pool := w.poolOf("a")
		w.status(SourceStatus{Source: "a", State: Resting, Why: "refused", Dials: namedDials + 1, Connected: true})
		if pool == 0 || w.poolOf("a") != pool {
			t.Errorf("of %d: it gives way to nobody", most)
		}
	}
}

// A source that only others named, and that was never reached, is given up; it comes back by
// itself, or a few times because it is named again.
func TestWhoIsNamedAndNotReachedIsGivenUp(t *testing.T) {
	w := fetching(t, Config{}, "a")
	at := 0
	name := func(via peers.Via) {
		at++
		w.happens(func() {
			w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: "n", Addrs: []string{fmt.Sprint(at)}}, Via: via}, w.now)
		})
	}
	fails := func(dials int) {
		w.status(SourceStatus{Source: "n", State: Resting, Why: "refused; trying again", LastLoss: "refused", Dials: dials, Answered: true})
	}
	name(peers.ViaPeer)
	for i := range MaxAddresses + 1 {
		fails(namedDials - 1)
		if w.poolOf("n") == 0 {
			t.Fatalf("%d: given up too early", i)
		}
		fails(namedDials)
		if s := got[SourceChanged](w); w.poolOf("n") != 0 || len(s) != 1 || s[0].Source.State != Left || s[0].Source.Why != "refused" {
			t.Fatalf("%d: told %+v, pools of %v", i, s, w.running())
		}
		name(peers.ViaPeer)
		if again := w.poolOf("n") != 0; again != (i < MaxAddresses) {
			t.Fatalf("named again after %d times: fetched from: %v", i, again)
		}
	}
	w.status(SourceStatus{Source: "a", State: Left, Why: "is out", Gone: true})
	w.claim(w.x.ending == nil, "it ends, and one may come yet")
	name(peers.ViaItself)
	if w.poolOf("n") == 0 || len(w.x.byID["n"].at) != 1 {
		t.Errorf("it came by itself: pool %d, at %v", w.poolOf("n"), w.x.byID["n"].at)
	}
	w.status(SourceStatus{Source: "n", State: Active, Connected: true})
	fails(namedDials)
	if w.poolOf("n") == 0 {
		t.Error("it was reached, and is given up like one that never was")
	}
}

// Another address of a source that could not be reached is tried next, and at once.
func TestAnotherAddressIsTriedAtOnce(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID()})
	w.find("a")
	w.replied("a", wire.Reply{}, peers.ErrUnreachable)
	w.pass(1500 * time.Millisecond)
	w.replied("a", wire.Reply{}, peers.ErrUnreachable)
	if got := got[AskManifest](w); len(got) > 0 {
		t.Fatalf("asked %v at once", got)
	}
	w.happens(func() {
		w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: "a", Addrs: []string{"there"}}, Via: peers.ViaLAN}, w.now)
	})
	if got := got[AskManifest](w); len(got) != 1 || !slices.Equal(got[0].From.Addrs, []string{"there"}) {
		t.Errorf("then asked %v", got)
	}
}

// Who said that it does not have the share, or not for this node, is asked again when it comes by itself, and only then.
func TestWhoSaidNoAndThenComesIsAskedAgain(t *testing.T) {
	comes := func(w *world, via peers.Via) {
		w.happens(func() { w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: "b"}, Via: via}, w.now) })
	}
	for no, r := range map[string]wire.Reply{"it has none": {Status: wire.NotFound}, "not any more": {Status: wire.Gone},
		"not for this node": {Status: wire.Refused, Reason: wire.Why(wire.CodeNotAllowed)}} {
		w := newWorld(t, Config{Called: true}, Fetch{Share: theManifest.ID()})
		w.find("b")
		w.replied("b", r, nil)
		comes(w, peers.ViaPeer)
		w.claim(!w.asks["b"], "%s: it is asked again as another named it", no)
		comes(w, peers.ViaItself)
		w.claim(w.asks["b"], "%s: it came, and is not asked again", no)
		w.replied("b", r, nil)
		w.claim(!w.asks["b"], "%s: it said so twice, and is asked again", no)
	}
	for _, no := range []error{share.ErrNotFound, share.ErrNotAllowed, nil} {
		w := fetching(t, Config{}, "a", "b")
		w.status(SourceStatus{Source: "b", State: Left, Why: "is out", Gone: true, Outcome: no})
		comes(w, peers.ViaItself)
		if again := w.poolOf("b") != 0; again != (no != nil) {
			t.Errorf("it left with %v, and came: fetched from: %v", no, again)
		}
	}
}

// A ban outlives all that would bring a source back.
func TestWhoIsBannedDoesNotComeBack(t *testing.T) {
	w := fetching(t, Config{}, "a")
	w.happens(func() { w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: "n"}, Via: peers.ViaPeer}, w.now) })
	w.status(SourceStatus{Source: "n", State: Resting, LastLoss: "refused", Dials: namedDials})
	ban := func() { w.ban("n", time.Hour) }
	ban()
	if s := got[SourceChanged](w); len(s) != 1 || s[0].Source.State != Banned || s[0].Source.Why != "banned for 60 min: it lied before" {
		t.Errorf("told %+v", s)
	}
	w.happens(func() { w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: "n"}, Via: peers.ViaItself}, w.now) })
	if s := w.progress().Sources[1]; s.State != Banned || w.poolOf("n") != 0 {
		t.Errorf("it came, and is %v", s.State)
	}
	ban()
	if len(w.did) > 0 {
		t.Errorf("banned again: %v", w.did)
	}
}

// A ban ends, and so does what it does to a transfer that goes on until then: the source is fetched from again.
func TestWhoWasBannedIsFetchedFromWhenThatIsOver(t *testing.T) {
	w := fetching(t, Config{Stall: 24 * time.Hour}, "a", "b", "c")
	w.ban("b", time.Hour)
	w.ban("c", 3*time.Hour)
	w.pass(time.Minute)
	w.ban("b", time.Hour) // again, by what was still to be verified
	w.pass(time.Hour - time.Millisecond)
	w.claim(w.poolOf("b") == 0, "it is banned, and fetched from")
	w.pass(time.Millisecond)
	if s := w.progress().Sources; w.poolOf("b") == 0 || s[1].Banned || s[1].State != Connecting || w.poolOf("c") != 0 || len(got[Rank](w)) != 1 {
		t.Errorf("the ban is over: %+v, pools of %v; what is done: %v", s, w.running(), w.did)
	}
	w.pass(2 * time.Hour)
	w.claim(w.poolOf("c") != 0 && w.poolOf("b") != 0, "pools of %v", w.running())
}

func TestALiarIsBlamedAndItsLeasesReturn(t *testing.T) {
	for _, x := range []struct {
		lie   SourceLied
		proof bool
		why   string
	}{
		{SourceLied{Source: "a", Kind: BadBlock}, false, "sent a wrong block"},
		{SourceLied{Source: "a", Kind: BadProof}, true, "sent a wrong proof"},
		{SourceLied{Source: "a", Kind: Broken, Rule: "too long"}, true, "broke the protocol: too long"},
	} {
		w := fetching(t, Config{}, "a", "b")
		w.happens(func() { w.x.SourceLied(SourceLied{Source: "nobody"}, w.now) })
		if len(w.did) > 0 {
			t.Errorf("a lie of nobody: %v", w.did)
		}
		w.happens(func() { w.x.SourceLied(x.lie, w.now) })
		if b := got[Blame](w); len(b) != 1 || b[0] != (Blame{"a", x.proof}) {
			t.Errorf("%v: %v", x.lie.Kind, b)
		}
		w.happens(func() { w.x.Banned("a", w.now.Add(time.Hour), w.now) })
		if s := w.progress().Sources[0]; s.Why != "banned for 60 min: it "+x.why || s.BadBlocks != 1 || !s.Banned {
			t.Errorf("%+v", s)
		}
		if d := got[DropSource](w); len(d) != 1 || d[0].Peer != "a" || w.poolOf("a") != 0 {
			t.Errorf("dropped %v, pools of %v", d, w.running())
		}
	}
}

// A source in the ticket is tried as long as there is hope; a source that is found again is
// left alone; and a change of state is reported, with the time since when.
func TestWhatIsKnownOfASource(t *testing.T) {
	w := fetching(t, Config{}, "a", "b")
	w.find("c")
	w.status(SourceStatus{Source: "c", State: Resting, Why: "refused", LastLoss: "refused", Dials: namedDials + 1})
	w.claim(w.poolOf("c") != 0, "the ticket's own source is given up")
	w.pass(time.Second)
	since := w.now
	w.status(SourceStatus{Source: "b", State: Resting, Why: "is busy", RTT: time.Second, Connected: true})
	w.claim(len(got[SourceChanged](w)) == 1, "told %v", w.did)
	w.pass(500 * time.Millisecond)
	w.status(SourceStatus{Source: "b", State: Resting, Why: "is still busy", Connected: true})
	w.claim(len(got[SourceChanged](w)) == 0, "told of no change")
	if s := w.progress().Sources[1]; !s.Since.Equal(since) || s.RTT != time.Second || s.Why != "is still busy" {
		t.Errorf("%+v", s)
	}
	w.happens(func() { w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: "b", Addrs: []string{"/other"}}}, w.now) })
	if s := w.progress().Sources[1]; s.State != Resting || len(got[TellPool](w)) != 1 || len(got[StartPool](w)) != 0 {
		t.Errorf("found again: %+v, %v", s, w.did)
	}
}

// Late messages of a pool that has been replaced do not count.
func TestAnOldPoolIsNotHeard(t *testing.T) {
	w := fetching(t, Config{}, "a")
	old := w.poolOf("a")
	delete(w.pools, old)
	w.happens(func() { w.x.PoolFailed(old, w.now) })
	w.happens(func() { w.x.SourceStatus(SourceStatus{Pool: old, Source: "a", State: Left, Gone: true}, w.now) })
	if w.poolOf("a") == 0 || w.over != nil {
		t.Errorf("pools of %v", w.running())
	}
}

func TestAPoolThatFailsAgainAndAgainIsGivenUp(t *testing.T) {
	w := fetching(t, Config{}, "a", "b")
	for i := range maxRestarts + 1 {
		n := w.poolOf("a")
		if n == 0 {
			t.Fatalf("given up after %d", i)
		}
		delete(w.pools, n)
		w.happens(func() { w.x.PoolFailed(n, w.now) })
	}
	if s := w.progress().Sources[0]; w.poolOf("a") != 0 || s.State != Left || s.Why != "fetching from it failed again and again" {
		t.Errorf("it is %v: %q", s.State, s.Why)
	}
	w.happens(func() { w.x.PoolFailed(99, w.now) })
	if w.poolOf("b") == 0 {
		t.Error("the other is gone too")
	}
}

// How often a transfer begins again is no fault of its sources: a pool that fails once then is begun again.
func TestAPoolThatFailsOnceAfterOthersIsBegunAgain(t *testing.T) {
	w := fetching(t, Config{}, "a", "b")
	for range maxRestarts {
		w.happens(func() { w.x.WorkerFailed("verifier", "a bug", w.now) })
		w.ends()
		w.worked(nil, 0, 0)
		w.opens(nil, nil)
	}
	n := w.poolOf("a")
	delete(w.pools, n)
	w.happens(func() { w.x.PoolFailed(n, w.now) })
	if s := w.progress().Sources[0]; w.poolOf("a") == 0 || s.State == Left {
		t.Errorf("it failed once, and is %v: %q", s.State, s.Why)
	}
}

func TestGoodSourcesAreThoseThatGaveAndDidNotLie(t *testing.T) {
	known := []peers.Addr{{ID: "known"}, {ID: "liar"}}
	w := newWorld(t, Config{Keep: true}, Fetch{Share: theManifest.ID(), Manifest: theManifest, Sources: known})
	w.opens(nil, nil)
	w.find("known", "liar", "gave", "idle", "bad")
	w.active("known", "liar", "gave", "idle", "bad")
	for p := range share.Piece(thePieces - 1) {
		w.piece([]peers.ID{"gave", "bad", "known", "gave"}[p], p)
	}
	for _, id := range []peers.ID{"liar", "bad"} {
		w.ban(id, time.Hour)
	}
	w.piece("gave", 4)
	w.worked(nil, 0, 0)
	var ids []peers.ID
	for _, a := range got[ServeOn](w) {
		for _, s := range a.Sources {
			ids = append(ids, s.ID)
		}
	}
	if want := []peers.ID{"known", "gave"}; !slices.Equal(ids, want) {
		t.Errorf("it came from %v, want %v", ids, want)
	}
	if s := w.progress().Sources[2]; s.Pieces != 3 || s.Bytes == 0 {
		t.Errorf("one gave %d pieces, %d bytes", s.Pieces, s.Bytes)
	}
}

// Each piece is put down to the source that brought it, and to none in particular if several did.
func TestWhoBroughtEachPieceIsKnown(t *testing.T) {
	w := fetching(t, Config{}, "a", "b")
	if by := w.x.Brought(); len(by) > 0 {
		t.Errorf("before any came: %v", by)
	}
	w.piece("b", 1)
	w.piece("a", 3)
	w.happens(func() { w.x.PieceDone(2, []peers.ID{"a", "b"}, false, Leases{}, w.now) })
	w.happens(func() { w.x.PieceDone(4, []peers.ID{"stranger"}, false, Leases{}, w.now) })
	for i := range Several {
		w.find(peers.ID(fmt.Sprint("more", i)))
	}
	w.happens(func() { w.x.PieceDone(0, []peers.ID{peers.ID(fmt.Sprint("more", Several-1))}, false, Leases{}, w.now) })
	by := w.x.Brought()
	if want := []byte{Several, 2, Several, 1, 0}; !slices.Equal(by, want) {
		t.Errorf("%v, want %v", by, want)
	}
	by[1] = 9
	if w.x.Brought()[1] != 2 {
		t.Error("what it returned is its own")
	}
}

// While there is no list of files, few sources are asked at once, and others in addition to slow ones.
func TestTheListOfFilesIsAskedForOfFew(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID()})
	w.find("a", "b", "c", "d", "e")
	if len(w.asks) != maxManifestAsks {
		t.Fatalf("%d are asked", len(w.asks))
	}
	w.pass(slowManifest)
	if len(w.asks) != 5 {
		t.Errorf("%d are asked after a while", len(w.asks))
	}
	w.replied("a", wire.Reply{Status: wire.Busy, Retry: time.Hour}, nil)
	w.pass(maxBusy - time.Millisecond)
	if w.asks["a"] {
		t.Error("one that is busy is asked again at once")
	}
	w.pass(time.Millisecond)
	if !w.asks["a"] {
		t.Error("one that is busy is never asked again")
	}
	w.replied("b", wire.Reply{Status: wire.OK}, nil)
	if len(w.asks) > 0 {
		t.Errorf("%v are asked, and it is here", w.asks)
	}
	if o := got[Open](w); len(o) != 1 || o[0].Manifest.ID() != theManifest.ID() {
		t.Errorf("opened %v", o)
	}
	w.replied("c", wire.Reply{Status: wire.OK}, nil)
	if len(w.did) > 0 {
		t.Errorf("a late answer: %v", w.did)
	}
}

func TestWhatASourceSaysOfTheList(t *testing.T) {
	for name, x := range map[string]struct {
		r    wire.Reply
		err  error
		then SourceState
		why  string
	}{
		"busy":        {wire.Reply{Status: wire.Busy, Retry: time.Millisecond}, nil, Resting, "is busy; is asked again in 100 ms"},
		"not there":   {wire.Reply{Status: wire.NotFound}, nil, Left, "does not have the share"},
		"gone":        {wire.Reply{Status: wire.Gone, Reason: wire.Why(wire.CodeEnded)}, nil, Left, wire.Reply{Status: wire.Gone, Reason: wire.Why(wire.CodeEnded)}.String()},
		"refused":     {wire.Reply{Status: wire.Refused, Reason: wire.Reason{Prose: "not you"}}, nil, Left, wire.Reply{Status: wire.Refused, Reason: wire.Reason{Prose: "not you"}}.String()},
		"unreachable": {wire.Reply{}, peers.ErrUnreachable, Resting, "peer is unreachable; trying again in 1 s"},
		"lost":        {wire.Reply{}, peers.ErrLost, Resting, "connection was lost; trying again in 1 s"},
		"wrong":       {wire.Reply{}, fmt.Errorf("%w: nonsense", peers.ErrProtocol), Left, "broke the protocol: nonsense"},
		"too long":    {wire.Reply{}, share.ErrManifest, Left, "broke the protocol: " + share.ErrManifest.Error()},
	} {
		w := newWorld(t, Config{}, Fetch{Share: theManifest.ID()})
		w.find("a", "b")
		w.replied("a", x.r, x.err)
		if s := w.progress().Sources[0]; s.State != x.then || s.Why != x.why {
			t.Errorf("%s: %v because of %q", name, s.State, s.Why)
		}
		if blamed := len(got[Blame](w)) > 0; blamed != (name == "wrong" || name == "too long") {
			t.Errorf("%s: blamed: %v", name, blamed)
		}
		w.replied("nobody", wire.Reply{}, nil)
		w.claim(w.work == nil, "what nobody was asked for is believed")
	}
}

// A pool is told that its source has every piece if the source has just said so; the next pool of it is not.
func TestThatASourceIsWholeIsToldOnce(t *testing.T) {
	for _, whole := range []bool{true, false} {
		w := newWorld(t, Config{}, Fetch{Share: theManifest.ID()})
		w.find("a", "b")
		w.replied("a", wire.Reply{Status: wire.OK, Whole: whole}, nil)
		w.opens(nil, nil)
		pools := got[StartPool](w)
		if len(pools) != 2 || pools[0].Source.ID != "a" || pools[0].Whole != whole || pools[1].Whole {
			t.Fatalf("said %v: %+v", whole, pools)
		}
		w.did = nil
		w.happens(func() { delete(w.pools, pools[0].Pool); w.x.PoolFailed(pools[0].Pool, w.now) })
		if pools = got[StartPool](w); len(pools) != 1 || pools[0].Whole {
			t.Errorf("said %v; begun again: %+v", whole, pools)
		}
	}
}

// A list that cannot be read is the end: the share ID names those bytes, and no others.
func TestAListThatCannotBeReadIsTheEnd(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID()})
	w.find("a")
	w.happens(func() {
		delete(w.asks, "a")
		w.x.ManifestCame("a", []byte("nonsense"), wire.Reply{Status: wire.OK}, nil, w.now)
	})
	if end := w.isOver(); !errors.Is(end.Err, share.ErrManifest) {
		t.Errorf("ended with %v", end.Err)
	}
}

// A source that is asked for the list in vain is asked ever more rarely, within bounds.
func TestTheListIsAskedForEverMoreRarely(t *testing.T) {
	w := newWorld(t, Config{Stall: time.Hour}, Fetch{Share: theManifest.ID()})
	w.find("a")
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		w.replied("a", wire.Reply{}, peers.ErrLost)
		w.pass(want*time.Second - time.Millisecond)
		if w.asks["a"] {
			t.Fatalf("%d: asked again before %d s", i, want)
		}
		w.pass(time.Millisecond)
		if !w.asks["a"] {
			t.Fatalf("%d: not asked again after %d s", i, want)
		}
		if why := w.progress().Sources[0].Why; why != "connection was lost; trying again" {
			t.Errorf("it is %q", why)
		}
	}
	w.happens(func() { w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: "n"}, Via: peers.ViaPeer}, w.now) })
	for range namedDials {
		w.replied("n", wire.Reply{}, peers.ErrUnreachable)
		w.pass(30 * time.Second)
	}
	if w.asks["n"] || w.progress().Sources[1].State != Left {
		t.Error("one that was only named, and cannot be reached, is asked for ever")
	}
	w.find("known")
	for range namedDials + 1 {
		w.replied("known", wire.Reply{}, peers.ErrUnreachable)
		w.pass(30 * time.Second)
	}
	if !w.asks["known"] {
		t.Error("one that the user named is given up")
	}
}

// A transfer ends when no source is left that could help, and names those that are to blame.
func TestATransferEndsWhenNobodyCanHelp(t *testing.T) {
	gone := func(id peers.ID, outcome error) func(*world) {
		return func(w *world) {
			w.status(SourceStatus{Source: id, State: Left, Why: "is out", Gone: true, Connected: true, Outcome: outcome})
		}
	}
	away := func(id peers.ID) func(*world) {
		return func(w *world) {
			w.status(SourceStatus{Source: id, State: Resting, Why: "refused; trying again in 4 s", LastLoss: "refused", Dials: enoughDials})
		}
	}
	noTCP := func(id peers.ID) func(*world) {
		return func(w *world) {
			w.status(SourceStatus{Source: id, State: Resting, Why: "tried", LastLoss: "no TCP", Proxy: peers.ErrNoTCP, Dials: enoughDials})
		}
	}
	noProxy := func(id peers.ID) func(*world) {
		return func(w *world) {
			w.status(SourceStatus{Source: id, State: Resting, Why: "tried", LastLoss: "no proxy", Proxy: peers.ErrNoProxy, Dials: enoughDials})
		}
	}
	banned := func(id peers.ID) func(*world) {
		return func(w *world) {
			w.ban(id, time.Hour)
		}
	}
	lied := func(id peers.ID) func(*world) {
		return func(w *world) {
			w.happens(func() { w.x.SourceLied(SourceLied{Source: id, Kind: BadProof}, w.now) })
			w.ban(id, time.Hour)
		}
	}
	for name, x := range map[string]struct {
		fleet, called, alone bool
		then                 []func(*world)
		want, not            error
		says                 string
	}{
		"one may come":       {called: true, then: []func(*world){away("a"), away("b")}},
		"nobody answers":     {then: []func(*world){away("a"), away("b")}, want: share.ErrNetwork, says: "no connection to 2 peers (b: refused)"},
		"no TCP, one":        {then: []func(*world){away("a"), noTCP("b")}, want: share.ErrNetwork, not: peers.ErrNoTCP},
		"no TCP, at first":   {then: []func(*world){noTCP("b"), away("b"), noTCP("b"), noTCP("a")}, want: share.ErrNetwork, not: peers.ErrNoTCP},
		"no TCP, at last":    {then: []func(*world){away("a"), noTCP("a"), noTCP("b")}, want: share.ErrNetwork, not: peers.ErrNoTCP},
		"no TCP, all":        {then: []func(*world){noTCP("a"), noTCP("b")}, want: peers.ErrNoTCP, says: "network: no connection to 2 peers (b: no TCP)"},
		"no proxy, at first": {then: []func(*world){noProxy("a"), away("b")}, want: share.ErrNetwork, not: peers.ErrNoProxy},
		"no proxy, at last":  {then: []func(*world){noTCP("a"), noProxy("b")}, want: peers.ErrNoProxy, says: "network: no connection to 2 peers (b: no proxy)"},
		"the only one left":  {alone: true, then: []func(*world){gone("a", nil)}, want: share.ErrStalled, says: "the only source was given up (a: is out)"},
		"one may answer":     {then: []func(*world){away("a")}},
		"nobody has it":      {then: []func(*world){gone("a", share.ErrNotFound), gone("b", share.ErrNotFound)}, want: share.ErrNotFound, says: "asked 2 peers (b: is out)"},
		"all have left":      {then: []func(*world){gone("a", nil), gone("b", share.ErrNotFound)}, want: share.ErrStalled, says: "none of 2 sources is left (b: is out)"},
		"something answers": {then: []func(*world){away("a"), func(w *world) {
			w.status(SourceStatus{Source: "b", State: Resting, Why: "says nothing", Dials: enoughDials, Answered: true})
		}}},
		"one is left":           {then: []func(*world){gone("a", nil)}},
		"a fleet may name more": {fleet: true, then: []func(*world){gone("a", nil), gone("b", nil)}},
		"all lied":              {then: []func(*world){lied("a"), lied("b")}, want: share.ErrLied, says: "none of 2 sources is left, and 2 lied"},
		"the only one lied":     {alone: true, then: []func(*world){lied("a")}, want: share.ErrLied, says: "wrong data was sent: the only source lied (a: banned for 60 min: it sent a wrong proof)"},
		"all lied before":       {then: []func(*world){banned("a"), banned("b")}, want: share.ErrLied, says: "none of 2 sources is left, and 2 lied"},
		"one lied, one is away": {then: []func(*world){lied("a"), away("b")}, want: share.ErrLied, says: "wrong data was sent: none of 2 sources is left, and 1 lied (b: refused)"},
	} {
		cfg := Config{Called: x.called}
		if x.fleet {
			cfg.Fleet.Coordinator.ID = "seat"
		}
		w := newWorld(t, cfg, Fetch{Share: theManifest.ID(), Manifest: theManifest})
		w.opens(nil, nil)
		w.find("a")
		if !x.alone {
			w.find("b")
		}
		for _, f := range x.then {
			f(w)
		}
		if x.want == nil {
			w.claim(w.x.ending == nil, "%s: it ends with %v", name, w.x.ending)
			continue
		}
		if end := w.isOver(); !errors.Is(end.Err, x.want) || x.not != nil && errors.Is(end.Err, x.not) || !strings.Contains(end.Err.Error(), x.says) {
			t.Errorf("%s: ended with %v", name, end.Err)
		}
	}
}

func TestWhoGivesTheShareIsCounted(t *testing.T) {
	const one = " the share only to peers that it names"
	for _, c := range []struct {
		some, n int
		want    string
	}{{1, 1, "the only peer that was asked gives" + one}, {1, 3, "1 of 3 peers gives" + one}, {2, 3, "2 of 3 peers give the share only to peers that they name"}} {
		if got := giving(c.some, c.n); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.some, c.n, got, c.want)
		}
	}
}

// A source that names others in place of sending the list of files is asked for the list itself when
// the time that it named is over, even if all that are asked meanwhile are silent.
func TestSourceThatNamedOthersIsAskedAgain(t *testing.T) {
	w := newWorld(t, Config{}, Fetch{Share: theManifest.ID()})
	w.find("a")
	if got := got[AskManifest](w); len(got) != 1 || !got[0].Others {
		t.Fatalf("asked %v", got)
	}
	w.replied("a", wire.Reply{Status: wire.Busy, Retry: time.Second, Others: []peers.Addr{{ID: "b"}}}, nil)
	w.find("b", "c", "d", "e")
	if len(w.asks) != maxManifestAsks {
		t.Fatalf("asked %v", w.asks)
	}
	w.pass(time.Second)
	if got := got[AskManifest](w); len(got) != 1 || got[0].From.ID != "a" || got[0].Others {
		t.Errorf("then asked %v", got)
	}
	fleet := newWorld(t, Config{Fleet: Fleet{Coordinator: peers.Addr{ID: "f"}}}, Fetch{Share: theManifest.ID()})
	fleet.find("a")
	if got := got[AskManifest](fleet); len(got) != 1 || got[0].Others {
		t.Errorf("in a fleet: asked %v", got)
	}
}

// However many keep those who ask for the list waiting, and name others or do not: no more than some are asked at once, and
// they keep nobody else from being asked.
func TestThoseThatKeepAnAskerWaitingTakeNobodysTurn(t *testing.T) {
	others := []peers.Addr{{ID: "x"}}
	for _, c := range []struct{ liars, honest []peers.Addr }{{nil, nil}, {others, nil}, {others, others}, {nil, others}} {
		w := newWorld(t, Config{}, Fetch{Share: theManifest.ID()})
		busy := func(id peers.ID, others []peers.Addr) {
			w.replied(id, wire.Reply{Status: wire.Busy, Retry: 1, Others: others}, nil)
		}
		var asked []peers.ID // the oldest first
		look := func() {
			for _, x := range got[AskManifest](w) {
				asked = append(asked, x.From.ID)
			}
		}
		for _, id := range []peers.ID{"a", "b", "c", "d", "e", "f", "g", "h"} {
			w.find(id)
			busy(id, c.liars)
		}
		w.find("honest")
		busy("honest", c.honest)
		w.pass(100 * time.Millisecond)
		look()
		for i := 0; !w.asks["honest"]; i++ {
			if len(asked) == 0 || len(asked) > 2*maxManifestAsks || i == 100 {
				t.Errorf("%v: %v are asked at once, and the honest one is not", c, asked)
				break
			}
			busy(asked[0], c.liars)
			asked = asked[1:]
			look()
			w.pass(slowManifest / 5)
			look()
		}
	}
}
