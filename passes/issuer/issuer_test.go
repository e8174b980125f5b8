package issuer

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

func must[V any](t testing.TB) func(V, error) V {
	return func(v V, err error) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

const epoch = passes.EpochDays * 24 * time.Hour

var now = time.Unix(0, 0).Add(100*epoch + 20*24*time.Hour)

func opened(t testing.TB, d *storetest.Disk, at time.Time) *Issuer {
	t.Helper()
	return must[*Issuer](t)(Open(d.FS(), rand.NewChaCha8([32]byte{1})))
}

func order(t testing.TB, i *Issuer, units int64, id byte, at time.Time) *passes.Purchase {
	t.Helper()
	o := must[passes.Order](t)(passes.NewOrder(passes.RequestID{id}, passes.Seed{id}, "issuer", "depot", must[passes.Listing](t)(i.Listing(at)), units, 4096, at))
	return must[*passes.Purchase](t)(o.Prepare())
}

// bought returns passes worth units.
func bought(t testing.TB, i *Issuer, units int64, id byte) []passes.Held {
	t.Helper()
	v := must[passes.Voucher](t)(i.Sell(units, now))
	p := order(t, i, units, id, now)
	return must[[]passes.Held](t)(p.Finish(must[passes.Responses](t)(i.Redeem(v, p.Requests, now))))
}

func spends(held []passes.Held, b passes.Binding) (all []passes.Spend, units int64) {
	for _, h := range held {
		all, units = append(all, h.Spend(b)), units+int64(h.Size)
	}
	return all, units
}

func TestPassesAreTakenOnceAndForever(t *testing.T) {
	d := storetest.New(1 << 24)
	i := opened(t, d, now)
	held := bought(t, i, 64+3, 1)
	first := passes.Binding{Depot: "depot", Account: "a", Share: "s", Request: passes.RequestID{1}}
	all, units := spends(held, first)
	for range 2 { // the answer may get lost
		if bad, err := i.Spend(all, first, passes.Mark{}, units, now); err != nil {
			t.Fatal(bad, err)
		}
	}
	second := first
	second.Request[0]++
	again, _ := spends(held, second)
	for range 2 {
		if bad, err := i.Spend(again, second, passes.Mark{}, units, now); !errors.Is(err, passes.ErrSpent) || len(bad) != len(held) {
			t.Errorf("spent twice: %v %v", bad, err)
		}
		if err := i.Close(); err != nil {
			t.Fatal(err)
		}
		d.CutPower()
		d.Restart(7)
		i = opened(t, d, now)
	}
	if bad, err := i.Spend(all, first, passes.Mark{}, units, now); err != nil {
		t.Errorf("the first request, after a power cut: %v %v", bad, err)
	}
	if _, err := i.Spend(all, second, passes.Mark{}, units, now); !errors.Is(err, passes.ErrForged) {
		t.Errorf("a spend that was seen, for another request: %v", err)
	}
}

func TestOneOfTwoWins(t *testing.T) {
	i := opened(t, storetest.New(1<<24), now)
	held := bought(t, i, 1, 1)
	var wins [8]bool
	var all sync.WaitGroup
	for n := range wins {
		all.Go(func() {
			b := passes.Binding{Depot: "depot", Request: passes.RequestID{byte(n + 1)}}
			if n%2 == 1 { // at the issuer, for another of the same size
				p := order(t, i, 1, byte(n), now)
				b.Batch = p.Hash()
				s, _ := spends(held, b)
				_, _, err := i.Exchange(s, b, p.Requests, now)
				wins[n] = err == nil
				return
			}
			s, units := spends(held, b)
			_, err := i.Spend(s, b, passes.Mark{}, units, now)
			wins[n] = err == nil
		})
	}
	all.Wait()
	if n := len(slices.DeleteFunc(wins[:], func(w bool) bool { return !w })); n != 1 {
		t.Errorf("%d have spent one pass", n)
	}
}

func TestAVoucherPaysForOneOrder(t *testing.T) {
	d := storetest.New(1 << 24)
	i := opened(t, d, now)
	v := must[passes.Voucher](t)(i.Sell(65, now))
	p, other := order(t, i, 65, 1, now), order(t, i, 65, 2, now)
	if _, err := i.Redeem(passes.Voucher{}, p.Requests, now); !errors.Is(err, passes.ErrUnknown) {
		t.Errorf("no voucher: %v", err)
	}
	if _, err := i.Redeem(v, order(t, i, 66, 1, now).Requests, now); !errors.Is(err, passes.ErrUnits) {
		t.Errorf("more than it is worth: %v", err)
	}
	must[passes.Responses](t)(i.Redeem(v, p.Requests, now))
	i.Close()
	d.CutPower()
	d.Restart(1)
	i = opened(t, d, now)
	if _, err := i.Redeem(v, other.Requests, now); !errors.Is(err, passes.ErrRedeemed) {
		t.Errorf("another order: %v", err)
	}
	// The order is answered again, even in the next half year.
	later := now.Add(epoch)
	must[passes.Listing](t)(i.Listing(later))
	if held := must[[]passes.Held](t)(p.Finish(must[passes.Responses](t)(i.Redeem(v, p.Requests, later)))); len(held) != 2 {
		t.Errorf("%d passes", len(held))
	}
	for _, units := range []int64{0, -1, MaxUnits + 1} {
		if _, err := i.Sell(units, now); err == nil || !strings.HasSuffix(err.Error(), fmt.Sprint(" passes, not for ", units)) {
			t.Errorf("a voucher for %d: %v", units, err)
		}
	}
}

func TestAnExchangePaysForItsBatchAlone(t *testing.T) {
	i := opened(t, storetest.New(1<<24), now)
	held := bought(t, i, 64, 1)
	v := must[passes.Order](t)(passes.NewOrder(passes.RequestID{3}, passes.Seed{3}, "issuer", "depot", must[passes.Listing](t)(i.Listing(now)), 64, 1, now))
	small, other := must[*passes.Purchase](t)(v.Prepare()), order(t, i, 64, 4, now)
	b := passes.Binding{Depot: "depot", Request: passes.RequestID{3}, Batch: small.Hash()}
	s, _ := spends(held, b)
	if _, _, err := i.Exchange(s, b, other.Requests, now); !errors.Is(err, passes.ErrForged) {
		t.Errorf("another batch: %v", err)
	}
	if _, _, err := i.Exchange(nil, b, small.Requests, now); !errors.Is(err, passes.ErrUnits) {
		t.Errorf("for nothing: %v", err)
	}
	for range 2 {
		signed, _, err := i.Exchange(s, b, small.Requests, now)
		if got := must[[]passes.Held](t)(small.Finish(signed)); err != nil || len(got) != 64 || got[0].Size != 1 {
			t.Fatal(len(got), err)
		}
	}
}

func TestKeysAreOfTheirTime(t *testing.T) {
	d := storetest.New(1 << 24)
	i := opened(t, d, now)
	held := bought(t, i, 1, 1)
	unspent := bought(t, i, 1, 2)
	first := must[passes.Listing](t)(i.Listing(now))
	i.Close()
	i = opened(t, d, now)
	if err := must[passes.Listing](t)(i.Listing(now)).Agrees(first); err != nil || len(first) != 3 {
		t.Errorf("%d keys; after a restart: %v", len(first), err)
	}
	next := now.Add(epoch)
	if l := must[passes.Listing](t)(i.Listing(next)); len(l) != 6 || l.Key(first[0].ID()) == nil || l.Signing(1, next) == nil {
		t.Errorf("half a year later: %d keys", len(l))
	}
	b := passes.Binding{Depot: "depot", Request: passes.RequestID{1}}
	s, _ := spends(held, b)
	if _, err := i.Spend(s, b, passes.Mark{}, 1, next); err != nil {
		t.Errorf("half a year later: %v", err)
	}
	if l := must[passes.Listing](t)(i.Listing(next.Add(epoch))); len(l) != 6 || l.Key(first[0].ID()) != nil {
		t.Errorf("a year later: %d keys", len(l))
	}
	if _, err := i.Spend(s, b, passes.Mark{}, 1, next.Add(epoch)); err != nil {
		t.Errorf("what was spent, a year later: %v", err)
	}
	s, _ = spends(unspent, b)
	if _, err := i.Spend(s, b, passes.Mark{}, 1, next.Add(epoch)); !errors.Is(err, passes.ErrKey) {
		t.Errorf("a year later: %v", err)
	}
}

// What was taken under a mark was not taken under another, also after a restart.
func TestASpentPassKeepsItsMark(t *testing.T) {
	d := storetest.New(1 << 24)
	i := opened(t, d, now)
	b := passes.Binding{Depot: "depot", Request: passes.RequestID{1}}
	s, units := spends(bought(t, i, 65, 1), b)
	for range 3 {
		if _, err := i.Spend(s, b, passes.Mark{1}, units, now); err != nil {
			t.Error(err)
		}
		if bad, err := i.Spend(s, b, passes.Mark{2}, units, now); !errors.Is(err, passes.ErrSpent) || len(bad) != 0 {
			t.Errorf("under another mark: %v, %v", bad, err)
		}
		i.Close()
		i = opened(t, d, now)
	}
}

// Whatever is answered was durable: power cuts and failed writes anywhere.
func TestWhatWasAnsweredIsRemembered(t *testing.T) {
	for seed := range uint64(rig.Most(20, 6)) {
		chance := rand.New(rand.NewPCG(seed, 1))
		d := storetest.New(1 << 24)
		i := opened(t, d, now)
		held := bought(t, i, 63, 1)
		answered := map[passes.Name]passes.RequestID{}
		for n := byte(1); n < 12; n++ {
			after := chance.IntN(8)
			cut := chance.IntN(2) == 0
			d.Fault = func(op storetest.Op) error {
				if !op.Changes() {
					return nil
				}
				if after--; after < 0 {
					return errors.New("broken")
				}
				return nil
			}
			b := passes.Binding{Depot: "depot", Request: passes.RequestID{n}}
			some := held[chance.IntN(60):][:3]
			s, units := spends(some, b)
			bad, err := i.Spend(s, b, passes.Mark{}, units, now)
			for _, one := range s {
				name := passes.Name(one.Nonce[:16])
				had, known := answered[name]
				switch {
				case err == nil && known:
					t.Fatalf("seed %d: spent for %x and for %x", seed, had, b.Request)
				case err == nil:
					answered[name] = b.Request
				case slices.Contains(bad, name) && !known:
					answered[name] = passes.RequestID{} // it was written, but not answered
				}
			}
			if cut {
				d.CutPower()
			}
			i.Close()
			d.Fault = nil
			if cut {
				d.Restart(seed)
			}
			i = opened(t, d, now)
		}
		for _, h := range held {
			b := passes.Binding{Depot: "depot", Request: answered[passes.Name(h.Nonce[:16])]}
			if b.Request == (passes.RequestID{}) {
				continue
			}
			if _, err := i.Spend([]passes.Spend{h.Spend(b)}, b, passes.Mark{}, 1, now); err != nil {
				t.Fatalf("seed %d: the request is answered otherwise now: %v", seed, err)
			}
		}
		i.Close()
	}
}

// A pass must not be taken twice because the middle of the book cannot be read.
func TestADamagedBookIsNotUsed(t *testing.T) {
	d := storetest.New(1 << 24)
	i := opened(t, d, now)
	held := bought(t, i, 10, 1)
	for n, h := range held {
		b := passes.Binding{Depot: "depot", Request: passes.RequestID{byte(n + 1)}}
		s, units := spends([]passes.Held{h}, b)
		if _, err := i.Spend(s, b, passes.Mark{}, units, now); err != nil {
			t.Fatal(err)
		}
	}
	i.Close()
	fs := d.FS()
	f := must[vfs.File](t)(fs.Edit(logFile))
	info := must[vfs.Info](t)(f.Stat())
	whole := make([]byte, info.Size)
	f.ReadAt(whole, 0)
	for _, at := range []int64{5, 9, info.Size / 2, info.Size - 200} {
		f.WriteAt([]byte{whole[at] ^ 1}, at)
		if _, err := Open(d.FS(), rand.NewChaCha8([32]byte{})); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d: %v", at, err)
		}
		f.WriteAt(whole[at:at+1], at)
	}
	f.WriteAt([]byte{whole[info.Size-1] ^ 1}, info.Size-1) // the last frame: torn
	i = opened(t, d, now)
	i.Close()
	k := must[[]byte](t)(vfs.ReadFile(fs, keysFile, maxKeys))
	for _, bad := range []string{"x", "100 4096 abc\n", "100 3 " + strings.Repeat("11", 32), string(k[:len(k)-20])} {
		if err := vfs.WriteFile(fs, keysFile, keysTemp, []byte(bad), true); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(d.FS(), rand.NewChaCha8([32]byte{})); err == nil || !strings.Contains(err.Error(), "put back a copy") {
			t.Errorf("keys %q: %v", bad, err)
		}
	}
}

// A book without keys that has signed something, and keys without a book or with one that lost its bytes, were there together once: none of
// them is made anew.
func TestWhatIsGoneIsNotMadeAnew(t *testing.T) {
	sold := func(i *Issuer) { i.Sell(1, now) }
	for _, c := range []struct {
		file     string
		before   func(*Issuer)
		cut      int64
		says     string
		harmless bool
	}{
		{logFile, nil, -1, "it is missing; put back a copy of it, or move issuer/keys away", false},
		{logFile, nil, 0, "damaged at byte 0 of 0; put back a copy of it, or move it and issuer/keys away", false},
		{logFile, nil, 60, "damaged at byte 0 of 60; put back a copy of it, or", false},
		{keysFile, nil, -1, "put back a copy of issuer/keys, or move issuer/book away", false},
		{keysFile, nil, 0, "issuer/keys in the state directory is damaged in line 1; put back a copy of it, or move it", false},
		{keysFile, sold, -1, "", true}, // a voucher needs none
		{logFile, func(*Issuer) {}, -1, "", true},
	} {
		d := storetest.New(1 << 24)
		i := opened(t, d, now)
		if c.before == nil {
			bought(t, i, 1, 1)
			i.Close()
			i = opened(t, d, now) // the book is one frame now
		} else {
			c.before(i)
		}
		i.Close()
		var err error
		if c.cut < 0 {
			err = vfs.RemoveFile(d.FS(), c.file)
		} else {
			b := must[[]byte](t)(vfs.ReadFile(d.FS(), c.file, 1<<20))
			err = vfs.WriteFile(d.FS(), c.file, "temp", b[:c.cut], true)
		}
		if err != nil {
			t.Fatal(err)
		}
		i, err = Open(d.FS(), rand.NewChaCha8([32]byte{2}))
		if err == nil {
			i.Close()
		}
		if harmless := err == nil; harmless != c.harmless || !harmless && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s, cut to %d bytes: %v", c.file, c.cut, err)
		}
	}
}

func TestOneProcessHasIt(t *testing.T) {
	dir := t.TempDir()
	i := must[*Issuer](t)(Open(must[vfs.FS](t)(vfs.PrivateDir(dir)), rand.NewChaCha8([32]byte{})))
	if _, err := Open(must[vfs.FS](t)(vfs.PrivateDir(dir)), rand.NewChaCha8([32]byte{})); !errors.Is(err, share.ErrHeld) {
		t.Errorf("a second process: %v", err)
	}
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	must[*Issuer](t)(Open(must[vfs.FS](t)(vfs.PrivateDir(dir)), rand.NewChaCha8([32]byte{}))).Close()
}

func FuzzBook(f *testing.F) {
	good := append(frame(1, []passes.Entry{{Kind: passes.Spent}}), frame(2, nil)...)
	f.Add(good)
	f.Add(bytes.Repeat([]byte{0}, 60))
	f.Fuzz(func(t *testing.T, b []byte) {
		fs := storetest.New(1 << 24).FS()
		if err := vfs.WriteFile(fs, logFile, logTemp, b, true); err != nil {
			t.Fatal(err)
		}
		read(fs, func(passes.Entry) {})
		parseKeys(b)
	})
}
