package beacon

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

var epoch = time.Unix(1e9, 0)

var elsewhere = peers.Endpoint{Host: "8.8.4.4", Net: "8.8.4.0/24"}

// at is where a host of a block is, and says that it can be reached.
func at(block, host int) peers.Endpoint {
	net := fmt.Sprintf("10.%d.%d.0/24", block/256, block%256)
	ip := fmt.Sprintf("10.%d.%d.%d", block/256, block%256, host)
	return peers.Endpoint{Addr: "/ip4/" + ip + "/tcp/4001", Host: ip, Net: net, Port: 4001}
}

func keyOf(n int) (k share.Hash) {
	binary.BigEndian.PutUint32(k[:], uint32(n+1))
	return k
}

func peerOf(n int) peers.ID {
	return peers.ID(fmt.Sprintf("12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHc%06d", n))
}

func announce(t *Table, id, block int, now time.Time, keys ...int) Refusal {
	where := at(block, id%256)
	all := make([]share.Hash, len(keys))
	for i, k := range keys {
		all[i] = keyOf(k)
	}
	refused, _ := t.Announce(peerOf(id), where, []peers.Endpoint{where}, false, all, now)
	return refused
}

// sample is whom a stranger is told, without limits of how often.
func sample(t *Table, key, n int, now time.Time) (out []peers.ID) {
	t.seeksOf, t.seeksFrom = peers.NewAllowance(1, 1), peers.NewAllowance(1, 1)
	all, _ := t.Sample("stranger", elsewhere, keyOf(key), n, 1<<20, now)
	for _, a := range all {
		out = append(out, a.ID)
	}
	return out
}

// check is what is wrong with the table in itself.
func check(t *Table) error {
	records, age := 0, 0
	for net, b := range t.blocks {
		peersOf := 0
		for _, a := range t.peers {
			if a.block == b {
				peersOf++
			}
		}
		switch {
		case b.net != net || t.biggest[b.at] != b || peersOf != b.peers || peersOf == 0:
			return fmt.Errorf("block %s: %d peers, says %d", net, peersOf, b.peers)
		case len(b.records) > ofBlock:
			return fmt.Errorf("block %s: %d records", net, len(b.records))
		case len(b.records) > len(t.biggest[0].records):
			return fmt.Errorf("block %s is bigger than the biggest", net)
		}
		records += len(b.records)
	}
	for id, a := range t.peers {
		if a.id != id || len(a.records) == 0 || len(a.records) > ofPeer || t.blocks[a.block.net] != a.block {
			return fmt.Errorf("peer %s: %d records", id, len(a.records))
		}
		for i, r := range a.records {
			if r.of != a || r.inPeer != i || a.block.records[r.inBlock] != r || r.shelf.of(a) != r || t.shares[r.shelf.key] != r.shelf {
				return fmt.Errorf("peer %s: a record that is lost", id)
			}
		}
	}
	for _, s := range t.shares {
		n := 0
		for _, c := range s.cells {
			if n += len(c.records); len(c.records) == 0 || len(c.records) > ofBlockHere {
				return fmt.Errorf("%d records of a share in one block", len(c.records))
			}
		}
		if n != s.records || n == 0 || n > ofShare {
			return fmt.Errorf("a share of %d records, says %d", n, s.records)
		}
	}
	for r := t.oldest; r != nil; r = r.after {
		if age++; r.after != nil && r.after.until.Before(r.until) {
			return fmt.Errorf("an older record behind a newer one")
		}
	}
	if records != t.records || age != records || records > maxRecords || len(t.peers) > maxPeers || len(t.biggest) != len(t.blocks) {
		return fmt.Errorf("%d records, %d by age, says %d; %d peers", records, age, t.records, len(t.peers))
	}
	return nil
}

// Whatever is announced and withdrawn, by whom and when: the table agrees with itself, keeps
// its bounds, and knows nobody who did not announce within the time that it lasts.
func TestTheTableAgreesWithWhatWasSaid(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		tb, now := New(1), epoch
		said := map[[2]int]time.Time{}
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			id, key := rapid.IntRange(0, 9).Draw(r, "peer"), rapid.IntRange(0, 4).Draw(r, "key")
			switch rapid.IntRange(0, 3).Draw(r, "what") {
			case 0, 1:
				announce(tb, id, rapid.IntRange(0, 3).Draw(r, "block"), now, key)
				said[[2]int{id, key}] = now.Add(TTL)
			case 2:
				tb.Withdraw(peerOf(id), []share.Hash{keyOf(key)}, now)
				delete(said, [2]int{id, key})
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(r, "minutes")) * time.Minute)
			}
			if err := check(tb); err != nil {
				r.Fatal(err)
			}
			for _, p := range sample(tb, key, 20, now) {
				known := false
				for i := range 10 {
					known = known || p == peerOf(i) && now.Before(said[[2]int{i, key}])
				}
				if !known {
					r.Fatalf("%s is said to have share %d", p, key)
				}
			}
		}
	})
}

func TestWhoAnnouncesIsFoundUntilTheTimeIsOver(t *testing.T) {
	tb := New(1)
	announce(tb, 1, 1, epoch, 7)
	announce(tb, 2, 2, epoch.Add(time.Minute), 7)
	tb.Withdraw(peerOf(2), []share.Hash{keyOf(7)}, epoch.Add(2*time.Minute))
	if got := sample(tb, 7, 16, epoch.Add(TTL-time.Second)); !slices.Equal(got, []peers.ID{peerOf(1)}) {
		t.Errorf("found %v", got)
	}
	announce(tb, 1, 1, epoch.Add(TTL-time.Second), 7) // again
	if got := sample(tb, 7, 16, epoch.Add(TTL+time.Second)); len(got) != 1 {
		t.Errorf("found %v after it was announced again", got)
	}
	if got := sample(tb, 7, 16, epoch.Add(2*TTL)); got != nil || tb.Stats(epoch) != (Stats{}) {
		t.Errorf("found %v after the end; %d records", got, tb.records)
	}
}

// A peer is told where it announced itself last, and of the addresses that it gives only
// those of the host that it was seen at.
func TestNobodyAnnouncesAnAddressOfOthers(t *testing.T) {
	tb := New(1)
	own, victim := at(1, 1), at(2, 1)
	udp := own
	udp.Addr, udp.QUIC = "/ip4/"+own.Host+"/udp/9/quic-v1", true
	low := own
	low.Addr, low.Port = "/ip4/"+own.Host+"/tcp/22", 22
	if refused, _ := tb.Announce("p", own, []peers.Endpoint{victim}, false, []share.Hash{keyOf(1)}, epoch); refused != NoAddress || tb.records > 0 {
		t.Errorf("an address of another host alone: refused %d, %d records", refused, tb.records)
	}
	if refused, _ := tb.Announce("p", own, nil, false, []share.Hash{keyOf(1)}, epoch); refused != NoAddress {
		t.Error("a peer without an address is remembered")
	}
	tb.Announce("p", own, []peers.Endpoint{victim, udp, low, own}, false, []share.Hash{keyOf(1)}, epoch)
	all, _ := tb.Sample("q", elsewhere, keyOf(1), 16, 1<<20, epoch)
	if len(all) != 1 || !slices.Equal(all[0].Addrs, []string{udp.Addr, own.Addr}) {
		t.Errorf("told %v", all)
	}
	moved := at(9, 9)
	tb.Announce("p", moved, []peers.Endpoint{moved}, false, []share.Hash{keyOf(2)}, epoch)
	if got := sample(tb, 1, 16, epoch); got != nil {
		t.Errorf("%v is told where it was before", got)
	}
	if err := check(tb); err != nil {
		t.Error(err)
	}
}

// 500 identities of one block of addresses get the share of one block in the samples.
func TestIdentitiesOfOneBlockGetTheShareOfOne(t *testing.T) {
	tb := New(1)
	const honest, draws = 40, 400
	for i := range honest {
		announce(tb, i, i, epoch, 7)
	}
	for i := range 500 {
		announce(tb, 1000+i, 200, epoch, 7)
	}
	told, seen := 0, map[peers.ID]int{}
	for range draws {
		all := sample(tb, 7, 16, epoch)
		if len(all) != 16 {
			t.Fatalf("a sample of %d", len(all))
		}
		for _, p := range all {
			seen[p]++
			if p >= peerOf(1000) {
				told++
			}
		}
	}
	if most := draws * 16 * 2 / (honest + 1); told > most {
		t.Errorf("they are %d of %d in the samples, where one block has %d", told, draws*16, draws*16/(honest+1))
	}
	for i := range honest {
		if n, fair := seen[peerOf(i)], draws*16/(honest+1); n < fair/2 || n > 2*fair {
			t.Errorf("peer %d is told %d times, fair are %d", i, n, fair)
		}
	}
	if n := tb.shares[keyOf(7)].cell(tb.blocks[at(200, 0).Net]); len(n.records) != ofBlockHere {
		t.Errorf("%d of them are remembered", len(n.records))
	}
}

// A block that floods takes its own place away, and nobody else's.
func TestWhoeverFloodsGivesWay(t *testing.T) {
	rig.Slow(t)
	tb := New(1)
	now := epoch
	for i := range 50 {
		announce(tb, i, i, now, 7)
	}
	for i := range 20 { // of 20 blocks, as many as they may
		for p := range 2 * ofBlock / 128 {
			keys := make([]int, 128)
			for k := range keys {
				keys[k] = 1000 + (i*4096+p)*128 + k
			}
			announce(tb, 1000+i*1000+p, 300+i, now, keys...)
		}
	}
	if err := check(tb); err != nil {
		t.Fatal(err)
	}
	if tb.records != maxRecords {
		t.Fatalf("%d records: the flood does not fill the table", tb.records)
	}
	announce(tb, 60, 60, now, 8)
	if got := len(tb.shares[keyOf(7)].cells); got != 50 {
		t.Errorf("%d of 50 are left", got)
	}
	if got := sample(tb, 8, 16, now); len(got) != 1 {
		t.Errorf("a newcomer finds no room")
	}
}

func TestWhoeverAsksTooOftenWaits(t *testing.T) {
	tb := New(1)
	keys := make([]int, ofPeer)
	for i := range keys {
		keys[i] = i
	}
	for range 2 {
		if r := announce(tb, 1, 1, epoch, keys...); r != 0 {
			t.Fatalf("refused %d", r)
		}
	}
	if r := announce(tb, 1, 1, epoch, 1); r != TooOften {
		t.Errorf("refused %d", r)
	}
	if r := announce(tb, 2, 1, epoch, 1); r != 0 {
		t.Errorf("a neighbour is refused %d", r)
	}
	if r := announce(tb, 2, 1, epoch, slices.Concat([]int{ofPeer}, keys)[:ofPeer+1]...); r != Full {
		t.Errorf("%d of its records: refused %d", len(tb.peers[peerOf(2)].records), r)
	}
	asked := 0
	for ; asked < 10_000; asked++ {
		if _, wait := tb.Sample("s", elsewhere, keyOf(1), 16, 1<<20, epoch); wait > 0 {
			break
		}
	}
	if asked != peerSeeksAtOnce {
		t.Errorf("%d questions are answered at once", asked)
	}
}

// Whoever is on the beacon's own network is told to others there alone.
func TestNobodyIsToldWhomItCannotReach(t *testing.T) {
	tb := New(1)
	near := at(1, 1)
	near.Reach = share.SameNetwork
	tb.Announce("near", near, []peers.Endpoint{near}, false, []share.Hash{keyOf(7)}, epoch)
	if all, _ := tb.Sample("far", elsewhere, keyOf(7), 16, 1<<20, epoch); all != nil {
		t.Errorf("from afar: told %v", all)
	}
	if all, _ := tb.Sample("neighbour", near, keyOf(7), 16, 1<<20, epoch); len(all) != 1 {
		t.Errorf("a neighbour is told %v", all)
	}
}

// A beacon that is a relay leads whoever asks to those that have a place there, wherever they are; it names
// nobody an address that is too near.
func TestABeaconLeadsToThoseWhoseRelayItIs(t *testing.T) {
	tb := New(1)
	near := at(1, 1)
	near.Reach = share.SameNetwork
	if refused, _ := tb.Announce("near", near, []peers.Endpoint{near}, true, []share.Hash{keyOf(7)}, epoch); refused != 0 {
		t.Fatal("refused:", refused)
	}
	for _, x := range []struct {
		from peers.Endpoint
		want []string
	}{{elsewhere, []string{peers.ThroughNamer}}, {near, []string{near.Addr, peers.ThroughNamer}}} {
		if all, _ := tb.Sample("q", x.from, keyOf(7), 16, 1<<20, epoch); len(all) != 1 || !slices.Equal(all[0].Addrs, x.want) {
			t.Errorf("whoever asks from %s is told %v, want %v", x.from.Addr, all, x.want)
		}
	}
	if refused, _ := tb.Announce("hidden", at(2, 2), nil, true, []share.Hash{keyOf(8)}, epoch); refused != 0 {
		t.Error("refused, though the beacon leads to it:", refused)
	}
	tb.Announce("near", near, []peers.Endpoint{near}, false, []share.Hash{keyOf(7)}, epoch)
	if all, _ := tb.Sample("q", elsewhere, keyOf(7), 16, 1<<20, epoch); all != nil {
		t.Errorf("it has lost its place, and is named: %v", all)
	}
}

func TestASampleFitsIntoItsBytes(t *testing.T) {
	tb := New(1)
	for i := range 30 {
		announce(tb, i, i, epoch, 7)
	}
	one := Size(peers.Addr{ID: peerOf(10), Addrs: []string{at(10, 10).Addr}})
	if all, _ := tb.Sample("s", elsewhere, keyOf(7), 16, 5*one, epoch); len(all) != 5 {
		t.Errorf("%d peers in %d bytes, of %d each", len(all), 5*one, one)
	}
	if all, _ := tb.Sample(peerOf(3), elsewhere, keyOf(7), 100, 1<<20, epoch); len(all) != 29 {
		t.Errorf("%d peers: whoever asks is one of them", len(all))
	}
}

// 10,000 announcements a second from 1,000 peers, each of another share: the memory is bounded.
func TestAFloodOfAnnouncementsIsBounded(t *testing.T) {
	tb, now := New(1), epoch
	before := heapNow()
	for i := range 100_000 {
		p := i % 1000
		announce(tb, p, p/4, now.Add(time.Duration(i)*100*time.Microsecond), i)
	}
	if err := check(tb); err != nil {
		t.Fatal(err)
	}
	used := heapNow() - before
	t.Logf("%d records of %d peers: %d MiB", tb.records, len(tb.peers), used>>20)
	if used > 48<<20 {
		t.Errorf("%d MiB", used>>20)
	}
	runtime.KeepAlive(tb)
}

func heapNow() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func BenchmarkAnnounce(b *testing.B) {
	tb, now := New(1), epoch
	i := 0
	for b.Loop() {
		announce(tb, i%1000, i%1000/4, now.Add(time.Duration(i)*100*time.Microsecond), i)
		i++
	}
}

// One peer that announces and asks all the time gets what is its own, and takes nothing from its neighbours:
// a /24, a provider's address or a /48 is of many.
func TestOnePeerDoesNotUseUpItsBlock(t *testing.T) {
	table := New(1)
	keys := make([]int, 128)
	for i := range keys {
		keys[i] = i
	}
	refused, deaf := 0, 0
	for i := range 4 * 60 * 10 { // four messages a second, for ten minutes
		now := epoch.Add(time.Duration(i) * time.Second / 4)
		announce(table, 1, 0, now, keys...)
		for range 20 {
			table.Sample(peerOf(1), at(0, 1), keyOf(1), 1, 1<<10, now)
		}
		if i > 4*60*5 && i%(4*10) == 0 { // each of ten neighbours announces one share, and asks once
			id := 2 + i/40%10
			if announce(table, id, 0, now, 1000+id) != 0 {
				refused++
			}
			if _, wait := table.Sample(peers.ID(peerOf(id)), at(0, id), keyOf(1), 1, 1<<10, now); wait != 0 {
				deaf++
			}
		}
	}
	if refused > 0 || deaf > 0 {
		t.Errorf("of 29 neighbours that announce one share, %d were refused, and %d got no answer", refused, deaf)
	}
}
