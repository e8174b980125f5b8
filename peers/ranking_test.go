package peers

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// happening is anything that can happen to a peer.
type happening struct {
	What  int
	Bytes int64
	Rate  float64
	First time.Duration
	Wait  time.Duration // before it; may be negative, as when a clock is set back
}

const (
	good = iota
	lie
	badProof
	miss
	measure
	nothing
)

func (h happening) apply(r *Ranking, id ID, now time.Time) {
	switch h.What {
	case good:
		r.Verified(id, h.Bytes, now)
	case lie:
		r.Lied(id, false, now)
	case badProof:
		r.Lied(id, true, now)
	case miss:
		r.Missed(id, now)
	case measure:
		r.Measured(id, h.Rate, h.First, now)
	}
}

func happenings(back bool) *rapid.Generator[happening] {
	least := time.Duration(0)
	if back {
		least = -1000 * time.Hour
	}
	return rapid.Custom(func(t *rapid.T) happening {
		return happening{
			What:  rapid.IntRange(good, nothing).Draw(t, "what"),
			Bytes: rapid.OneOf(rapid.Int64Range(0, 4<<20), rapid.Int64()).Draw(t, "bytes"),
			Rate:  rapid.OneOf(rapid.Float64Range(1, 1e9), rapid.Float64()).Draw(t, "rate"),
			First: time.Duration(rapid.Int64Range(-1, 1e10).Draw(t, "first")),
			Wait: rapid.OneOf(rapid.Just(time.Duration(0)), rapid.Map(rapid.Int64Range(int64(least), int64(1000*time.Hour)),
				func(n int64) time.Duration { return time.Duration(n) })).Draw(t, "wait"),
		}
	})
}

func configs() *rapid.Generator[RankingConfig] {
	return rapid.Custom(func(t *rapid.T) RankingConfig {
		if rapid.Bool().Draw(t, "default") {
			return RankingConfig{}
		}
		return RankingConfig{
			RankingDecay:   rapid.Float64Range(0.001, 1).Draw(t, "decay"),
			SuccessBonus:   rapid.Float64Range(0.001, 1).Draw(t, "bonus"),
			FailurePenalty: rapid.Float64Range(0.001, 1000).Draw(t, "penalty"),
			MissPenalty:    rapid.Float64Range(0.001, 1).Draw(t, "miss"),
			Smoothing:      rapid.Float64Range(0.001, 1).Draw(t, "smoothing"),
		}
	})
}

func TestInvariant17ScoreIsBoundedAndFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRanking(configs().Draw(t, "config"))
		now := epoch
		for _, h := range rapid.SliceOf(happenings(true)).Draw(t, "history") {
			now = now.Add(h.Wait)
			h.apply(r, "p", now)
			for _, at := range []time.Time{now, now.Add(-time.Hour), now.Add(100 * 365 * 24 * time.Hour)} {
				s, i := r.Score("p", at), r.integrity("p", at)
				if !(s >= 0 && s <= 3 && i >= 0 && i <= 2) {
					t.Fatalf("score %v, integrity %v", s, i)
				}
			}
			if p := r.peers["p"]; p != nil && (math.IsInf(p.Rate, 0) || !(p.Rate >= 0) || p.First < 0) {
				t.Fatalf("speed %v, %v", p.Rate, p.First)
			}
		}
		if _, err := json.Marshal(r.Records(now)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestInvariant18SuccessNeverLowersAndFailureNeverRaises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := configs().Draw(t, "config")
		history := rapid.SliceOf(happenings(false)).Draw(t, "history")
		at := rapid.IntRange(0, len(history)).Draw(t, "at")
		extra := happening{What: rapid.SampledFrom([]int{good, lie, badProof, miss}).Draw(t, "extra"), Bytes: rapid.Int64Range(1, 8<<20).Draw(t, "bytes")}

		a, b := NewRanking(cfg), NewRanking(cfg)
		now := epoch
		const close = 1e-9 // for rounding
		for i := 0; ; i++ {
			if i == at {
				extra.apply(b, "p", now)
			}
			sa, sb := a.Score("p", now), b.Score("p", now)
			_, banned := b.Banned("p", now)
			_, was := a.Banned("p", now)
			if i >= at {
				if extra.What == good && (sb < sa-close || banned && !was) {
					t.Fatalf("one more success: %v, without it %v (event %d)", sb, sa, i)
				}
				if extra.What != good && (sb > sa+close || was && !banned) {
					t.Fatalf("one more failure: %v, without it %v (event %d)", sb, sa, i)
				}
			}
			if i == len(history) {
				return
			}
			now = now.Add(history[i].Wait)
			history[i].apply(a, "p", now)
			history[i].apply(b, "p", now)
		}
	})
}

func TestInvariant20IdleTimeMovesTowardNeutralAndNeverAcross(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := NewRanking(configs().Draw(t, "config"))
		now := epoch
		for _, h := range rapid.SliceOf(happenings(false)).Draw(t, "history") {
			now = now.Add(h.Wait)
			h.apply(r, "p", now)
		}
		if until, banned := r.Banned("p", now); banned {
			now = until
		}
		qualities := func(at time.Time) [2]float64 {
			rec := r.at(r.peers["p"], at)
			return [2]float64{rec.Integrity - neutralIntegrity, rec.Speed - neutralSpeed}
		}
		if r.peers["p"] == nil {
			t.Skip("nothing happened")
		}
		before := qualities(now)
		after := qualities(now.Add(time.Duration(rapid.Int64Range(0, int64(10000*time.Hour)).Draw(t, "idle"))))
		for i := range before {
			if math.Abs(after[i]) > math.Abs(before[i])+1e-12 || before[i]*after[i] < -1e-24 {
				t.Fatalf("quality %d went from %v to %v off neutral", i, before[i], after[i])
			}
		}
	})
}

func TestInvariant22MissedDeadlineCostsLessThanALie(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := NewRanking(RankingConfig{}), NewRanking(RankingConfig{})
		now := epoch
		for _, h := range rapid.SliceOf(happenings(true)).Draw(t, "history") {
			now = now.Add(h.Wait)
			h.apply(a, "p", now)
			h.apply(b, "p", now)
		}
		a.Missed("p", now)
		b.Lied("p", false, now)
		if sa, sb := a.Score("p", now), b.Score("p", now); sa < sb {
			t.Fatalf("%v after a missed deadline, %v after a lie", sa, sb)
		}
	})
}

func TestSeedTrapsAreNoMore(t *testing.T) {
	// Each line is a row of the table of faults of the original formula.
	t.Run("a first failure is no ban", func(t *testing.T) {
		r := NewRanking(RankingConfig{})
		r.Missed("p", epoch)
		if r.Score("p", epoch) < 0.8 {
			t.Errorf("score %v", r.Score("p", epoch))
		}
		r = NewRanking(RankingConfig{})
		r.Lied("p", false, epoch)
		if _, banned := r.Banned("p", epoch); banned {
			t.Error("one bad block bans")
		}
	})
	t.Run("speed does not depend on the clock", func(t *testing.T) {
		r := NewRanking(RankingConfig{})
		for i := range 100 {
			r.Verified("often", 1<<20, epoch.Add(time.Duration(i)*time.Second))
		}
		for i := range 10 {
			r.Verified("rarely", 10<<20, epoch.Add(time.Duration(i)*10*time.Second))
		}
		now := epoch.Add(100 * time.Second)
		if a, b := r.integrity("often", now), r.integrity("rarely", now); math.Abs(a-b) > 0.01 {
			t.Errorf("%v and %v for the same bytes", a, b)
		}
	})
	t.Run("broken after a thousand successes", func(t *testing.T) {
		r := NewRanking(RankingConfig{})
		for range 1000 {
			r.Verified("p", 1<<20, epoch)
		}
		r.Lied("p", false, epoch)
		if !r.Lied("p", false, epoch) {
			t.Error("two lies in a row do not ban")
		}
	})
	t.Run("a fast peer is better than a slow one", func(t *testing.T) {
		r := NewRanking(RankingConfig{})
		r.Measured("fast", 10e6, 20*time.Millisecond, epoch)
		r.Measured("slow", 10e3, 20*time.Millisecond, epoch)
		if r.Score("fast", epoch) <= r.Score("slow", epoch) || r.Score("slow", epoch) < 0.5 {
			t.Errorf("%v and %v", r.Score("fast", epoch), r.Score("slow", epoch))
		}
	})
}

func TestSuccessIsCountedInBytesNotInCalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := NewRanking(RankingConfig{}), NewRanking(RankingConfig{})
		a.Lied("p", false, epoch)
		b.Lied("p", false, epoch)
		sum := int64(0)
		for _, n := range rapid.SliceOfN(rapid.Int64Range(1, 1<<20), 1, 20).Draw(t, "bytes") {
			a.Verified("p", n, epoch)
			sum += n
		}
		b.Verified("p", sum, epoch)
		if x, y := a.Score("p", epoch), b.Score("p", epoch); math.Abs(x-y) > 1e-9 {
			t.Fatalf("%v and %v", x, y)
		}
	})
}

func TestProofOfASecondLieBans(t *testing.T) {
	r := NewRanking(RankingConfig{})
	if r.Lied("p", false, epoch) {
		t.Fatal("the first bad block bans")
	}
	if r.Lied("late", false, epoch); r.Lied("late", false, epoch.Add(25*time.Hour)) {
		t.Error("a bad block long after the first bans")
	}
	if !r.Lied("p", false, epoch.Add(time.Hour)) {
		t.Fatal("the second does not")
	}
	if !r.Lied("q", true, epoch) {
		t.Fatal("a bad proof does not")
	}
	until, banned := r.Banned("q", epoch)
	if !banned || !until.Equal(epoch.Add(24*time.Hour)) || r.Score("q", epoch) != 0 {
		t.Errorf("banned %v until %v", banned, until)
	}
	if _, banned := r.Banned("q", until.Add(-1)); !banned {
		t.Error("no longer banned just before the end")
	}
	if _, banned := r.Banned("q", until); banned {
		t.Error("banned at the end")
	}
	// Offences fade more slowly than the ban: the next lie bans again, and for longer than the first.
	if !r.Lied("q", false, until) {
		t.Error("a lie right after a ban does not ban")
	}
	r.Lied("q", true, until)
	if again, _ := r.Banned("q", until); again.Sub(until) <= 24*time.Hour {
		t.Errorf("banned again for %v", again.Sub(until))
	}
	for range 100 {
		r.Lied("q", true, until)
	}
	if again, _ := r.Banned("q", until); again.Sub(until) != 8*24*time.Hour {
		t.Errorf("at most for %v", again.Sub(until))
	}
}

func TestBansAndScoresSurviveARestart(t *testing.T) {
	r := NewRanking(RankingConfig{})
	r.Verified("good", 100<<20, epoch)
	r.Measured("good", 5e6, 30*time.Millisecond, epoch)
	r.Missed("good", epoch)
	r.Lied("liar", true, epoch)
	r.Lied("once", false, epoch)
	b, err := json.Marshal(r.Records(epoch))
	if err != nil {
		t.Fatal(err)
	}
	var records []Record
	if err := json.Unmarshal(b, &records); err != nil {
		t.Fatal(err)
	}
	now := epoch.Add(time.Hour)
	again := NewRanking(RankingConfig{})
	again.Restore(records, now)
	for _, id := range []ID{"good", "liar", "once", "unknown"} {
		if a, b := r.Score(id, now), again.Score(id, now); math.Abs(a-b) > 1e-12 {
			t.Errorf("%s: %v before, %v after", id, a, b)
		}
	}
	ua, ba := r.Banned("liar", now)
	ub, bb := again.Banned("liar", now)
	if !ua.Equal(ub) || !ba || !bb {
		t.Errorf("banned until %v before, %v after", ua, ub)
	}
	if !again.Lied("once", false, now) {
		t.Error("the first lie was forgotten")
	}
	if p := again.peers["good"]; p == nil || p.Rate != 5e6 || p.First != 30*time.Millisecond {
		t.Errorf("speed %+v", p)
	}
}

func TestRestoreTakesAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		num := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1}))
		when := rapid.Map(rapid.Int64Range(-1e18, 1e18), func(n int64) time.Time { return epoch.Add(time.Duration(n)) })
		records := rapid.SliceOf(rapid.Custom(func(t *rapid.T) Record {
			return Record{
				ID: ID(rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "id")), At: when.Draw(t, "at"), Integrity: num.Draw(t, "integrity"),
				Speed: num.Draw(t, "speed"), Prompt: num.Draw(t, "prompt"), Rate: num.Draw(t, "rate"), First: time.Duration(rapid.Int64().Draw(t, "first")),
				Offences: num.Draw(t, "offences"), Until: when.Draw(t, "until"),
			}
		})).Draw(t, "records")
		r := NewRanking(RankingConfig{})
		r.Restore(records, epoch)
		for _, id := range []ID{"a", "b", "c"} {
			if s := r.Score(id, epoch); !(s >= 0 && s <= 3) {
				t.Fatalf("%s: %v", id, s)
			}
			if until, banned := r.Banned(id, epoch); banned && until.After(epoch.Add(8*24*time.Hour)) {
				t.Fatalf("%s: banned until %v", id, until)
			}
			r.Verified(id, 1, epoch)
			r.Lied(id, false, epoch)
		}
		if _, err := json.Marshal(r.Records(epoch)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRestoreDoesNotOverwriteWhatIsKnown(t *testing.T) {
	r := NewRanking(RankingConfig{})
	r.Lied("p", true, epoch)
	r.Restore([]Record{{ID: "p", At: epoch, Integrity: 2}}, epoch)
	if _, banned := r.Banned("p", epoch); !banned {
		t.Error("a restored record lifted a ban")
	}
}

func TestTooManyPeersForgetTheOldestAndBannedOnesLast(t *testing.T) {
	r := NewRanking(RankingConfig{MaxPeers: 10})
	r.Lied("liar", true, epoch)
	for i := range 100 {
		r.Verified(ID(fmt.Sprint("p", i)), 1<<20, epoch)
		r.Verified("p0", 1<<20, epoch) // heard of again and again
		if len(r.peers) > 10 {
			t.Fatalf("%d peers known", len(r.peers))
		}
	}
	if _, banned := r.Banned("liar", epoch); !banned {
		t.Error("the ban was forgotten")
	}
	if r.integrity("p0", epoch) == 1 || r.integrity("p99", epoch) == 1 || r.integrity("p50", epoch) != 1 {
		t.Error("not the oldest were forgotten")
	}
	for i := range 20 {
		r.Lied(ID(fmt.Sprint("liar", i)), true, epoch)
	}
	if _, banned := r.Banned("liar19", epoch); !banned || len(r.peers) > 10 {
		t.Errorf("%d known", len(r.peers))
	}
	if _, banned := r.Banned("liar", epoch); banned {
		t.Error("the oldest ban was kept, and another not")
	}
	for i := 11; i < 20; i++ {
		if _, banned := r.Banned(ID(fmt.Sprint("liar", i)), epoch); !banned {
			t.Errorf("the ban of liar%d was forgotten", i)
		}
	}
	if n := r.plain.count() + r.banned.count(); n != len(r.peers) {
		t.Errorf("%d in the lists, %d known", n, len(r.peers))
	}
}

func TestBannedPeerIsKeptWhateverItDoesLater(t *testing.T) {
	r := NewRanking(RankingConfig{MaxPeers: 10})
	r.Lied("liar", true, epoch)
	r.Missed("liar", epoch)
	r.Verified("liar", 1, epoch)
	for i := range 100 {
		r.Verified(ID(fmt.Sprint("p", i)), 1<<20, epoch)
	}
	if _, banned := r.Banned("liar", epoch); !banned {
		t.Error("forgotten")
	}
}

func TestLieDuringALongBanDoesNotShortenIt(t *testing.T) {
	r := NewRanking(RankingConfig{})
	for range 10 {
		r.Lied("p", true, epoch)
	}
	before, _ := r.Banned("p", epoch)
	later := epoch.Add(3 * 24 * time.Hour)
	if !r.Lied("p", false, later) {
		t.Error("not banned")
	}
	if after, _ := r.Banned("p", later); after.Before(before) {
		t.Errorf("until %v, and then until %v", before, after)
	}
}

func TestRecordOfALaterTimeIsOfNow(t *testing.T) {
	r := NewRanking(RankingConfig{})
	r.Restore([]Record{{ID: "p", At: epoch.Add(1000 * time.Hour), Integrity: 0, Prompt: 1}}, epoch)
	if r.integrity("p", epoch.Add(100*time.Hour)) < 0.9 {
		t.Error("it does not fade")
	}
}

// count returns the length of the list whose ring ends with p.
func (p *peer) count() (n int) {
	for x := p.next; x != p; x = x.next {
		n++
	}
	return n
}

func TestEveryRankingOptionIsRead(t *testing.T) {
	score := func(cfg RankingConfig, f func(r *Ranking)) float64 {
		r := NewRanking(cfg)
		f(r)
		return r.Score("p", epoch.Add(10*time.Hour))
	}
	history := func(r *Ranking) {
		r.Verified("p", 1<<20, epoch)
		r.Lied("p", false, epoch)
		r.Measured("p", 3e6, 100*time.Millisecond, epoch)
		r.Measured("p", 1e6, 300*time.Millisecond, epoch)
		r.Missed("p", epoch)
	}
	base := score(RankingConfig{}, history)
	for name, cfg := range map[string]RankingConfig{
		"RankingDecay":   {RankingDecay: 0.5},
		"SuccessBonus":   {SuccessBonus: 0.1},
		"FailurePenalty": {FailurePenalty: 3},
		"MissPenalty":    {MissPenalty: 0.7},
		"Smoothing":      {Smoothing: 0.9},
		"GoodRate":       {GoodRate: 20e6},
		"GoodFirst":      {GoodFirst: 10 * time.Millisecond},
	} {
		if s := score(cfg, history); math.Abs(s-base) < 1e-6 {
			t.Errorf("%s changes nothing: %v", name, s)
		}
	}
	r := NewRanking(RankingConfig{BanFor: time.Minute})
	if r.Lied("p", true, epoch); r.Score("p", epoch.Add(59*time.Second)) != 0 || r.Score("p", epoch.Add(time.Minute)) == 0 {
		t.Error("BanFor changes nothing")
	}
}

func BenchmarkRanking100kPeers(b *testing.B) {
	r := NewRanking(RankingConfig{})
	ids := make([]ID, 100_000)
	for i := range ids {
		ids[i] = ID(fmt.Sprintf("12D3KooW%040d", i))
		r.Verified(ids[i], 1, epoch)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		now := epoch.Add(time.Duration(i) * time.Millisecond)
		id := ids[i*7919%len(ids)]
		r.Verified(id, 1<<20, now)
		r.Score(id, now)
		i++
	}
}

func BenchmarkRecords100kPeers(b *testing.B) {
	r := NewRanking(RankingConfig{})
	for i := range 100_000 {
		r.Verified(ID(fmt.Sprintf("12D3KooW%040d", i)), 1, epoch)
	}
	for b.Loop() {
		r.Records(epoch)
	}
}

// integrity is the first part of the score, in [0, 2]; 1 is neutral.
func (r *Ranking) integrity(id ID, now time.Time) float64 {
	p := r.peers[id]
	if p == nil {
		return neutralIntegrity
	}
	return r.at(p, now).Integrity
}
