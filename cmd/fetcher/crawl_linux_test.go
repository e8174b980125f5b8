package main

import (
	order "encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// A crawl over many unchanged shares keeps to its tenth of the time, and a
// node that is killed during it continues where it was. DEPOT_SHARES is how many shares there are.
func TestACrawlKeepsToItsPartOfTheTime(t *testing.T) {
	t.Parallel()
	n, _ := strconv.Atoi(os.Getenv("DEPOT_SHARES"))
	if n == 0 && rig.Long() {
		n = 1500
	} else if n == 0 {
		t.Skip("it takes its time: LONG, or DEPOT_SHARES")
	}
	folder := t.TempDir()
	k := startNode(t, t.TempDir(), "--depot", folder)
	k.until("the first cycle is done", func() (bool, error) { d, err := k.client.Depot(t.Context()); return d.Complete, err })
	k.end(os.Kill)
	began := time.Now()
	fillDepot(t, folder, filepath.Join(k.dir, "leases.db"), n)
	t.Logf("%d shares made in %v", n, time.Since(began))

	k.start()
	k.sure("depot", "crawl")
	began, cpu := time.Now(), k.spent()
	crawled := k.crawlUntil(func(c api.Crawl) bool { return c.Examined > n/2 })
	wall, work := time.Since(began), k.spent()-cpu
	k.again()
	if now := k.crawlUntil(func(c api.Crawl) bool { return c.Cycle == crawled.Cycle }); now.Examined < crawled.Examined {
		t.Errorf("%d shares were seen before it was killed, and %d after", crawled.Examined, now.Examined)
	}
	began, cpu = time.Now(), k.spent()
	done := k.crawlUntil(func(c api.Crawl) bool { return c.Done })
	wall, work = wall+time.Since(began), work+k.spent()-cpu
	t.Logf("crawled %d shares in %v, with %v of processor time", n, wall, work)
	if done.Examined != n || done.Cycle != crawled.Cycle || done.Failed+done.Corrupt+done.Expired > 0 {
		t.Errorf("%+v", done)
	}
	if most := wall/depot.Duty + wall/20 + time.Second; work > most { // and what a node does beside
		t.Errorf("%v of processor time in %v", work, wall)
	}
}

// crawlUntil waits until the crawler is as wanted, in a cycle that has seen something.
func (n *daemonProcess) crawlUntil(f func(api.Crawl) bool) (c api.Crawl) {
	n.t.Helper()
	look := time.NewTicker(2 * time.Second)
	defer look.Stop()
	for late := time.Now().Add(time.Hour); ; <-look.C {
		d, err := n.client.Depot(n.t.Context())
		must(n.t, err)
		if c = d.Crawl; c.Examined > 0 && f(c) {
			return c
		}
		if time.Now().After(late) {
			n.t.Fatalf("%+v", c)
		}
	}
}

// spent is the processor time that the process has had.
func (n *daemonProcess) spent() time.Duration {
	n.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	must(n.t, err)
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var ticks time.Duration
	for _, x := range fields[11:13] {
		v, err := strconv.Atoi(x)
		must(n.t, err)
		ticks += time.Duration(v)
	}
	return ticks * 10 * time.Millisecond
}

// fillDepot puts n small shares into a depot that does not run: onto its disk, and into its
// database.
func fillDepot(t *testing.T, folder, path string, n int) {
	t.Helper()
	db, _, err := leasedb.Open(t.Context(), path, nil)
	must(t, err)
	defer db.Close()
	until := time.Now().Add(10 * 24 * time.Hour).Truncate(time.Second)
	for i := range n {
		content := order.BigEndian.AppendUint64(nil, uint64(i))
		_, v := share.HashPiece(nil, content, 0, true)
		m, err := share.NewManifest("x", []share.Entry{{Path: "x", Size: int64(len(content)), Root: share.FileRoot([]share.Hash{v}), PieceExp: share.PieceExp(int64(len(content)))}})
		must(t, err)
		id := m.ID()
		at := filepath.Join(folder, "shares", hex.EncodeToString(id.Bytes()[4:5]), id.String())
		b := order.LittleEndian.AppendUint64(id.Bytes(), uint64(until.Unix()))
		b = append(order.LittleEndian.AppendUint16(b, 7), "starter"...)
		must(t, os.MkdirAll(filepath.Join(at, "data"), 0o700))
		must(t, os.WriteFile(filepath.Join(at, "manifest"), m.Bytes(), 0o600))
		must(t, os.WriteFile(filepath.Join(at, "data", "x"), content, 0o600))
		must(t, os.WriteFile(filepath.Join(at, "leases"), vfs.EncodeRecord(vfs.LeasesRecord, b), 0o600))
		_, err = db.Found(t.Context(), time.Now(), id, depot.Bytes(m), true, []depot.Promise{{Account: "starter", Expires: until}})
		must(t, err)
	}
}
