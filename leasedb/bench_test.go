//go:build unix

package leasedb

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/depot"
	disks "github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// spent returns the processor time that this process has used.
func spent(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

var benchNow = time.Unix(1_000_000_000, 0)

// answered is how many seconds the answers are kept after the leases, so that the sweeps of
// the two are measured separately.
const answered = 200

// fill makes a database of accounts, shares and ten leases of each share, one in ten
// of which has expired, each with the request that made it.
func fill(b *testing.B, shares, accounts int) (*DB, string) {
	b.Helper()
	path := filepath.Join(b.TempDir(), "leases.db")
	root := disks.New(func() (vfs.FS, error) { return vfs.PrivateDir(b.TempDir()) }, rand.Text)
	d, _, err := Open(b.Context(), path, root)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { d.Close(); root.Close() })
	if err := root.Ready(b.Context(), d); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	err = d.db.Write(ctx, func(c *sqlite.Conn) error {
		run := func(query string, args ...any) {
			if err := sqlitex.Execute(c, query, &sqlitex.ExecOptions{Args: args}); err != nil {
				b.Fatal(err)
			}
		}
		now := benchNow.Unix()
		for a := range accounts {
			run(`INSERT INTO accounts(id, name, quota, max_lease, created) VALUES (?1, ?2, ?3, 2678400, ?4)`, a+2, fmt.Sprintf("12D3KooWabcdefghijklmnopqrstuvwxyz%06d", a), int64(depot.MaxBytes), now)
		}
		for s := range shares {
			run(`INSERT INTO shares(id, share, state, bytes, measured, since) VALUES (?1, ?2, 2, 4096000, 1, ?3)`, s+1, nth(s).Bytes(), now-86400)
			for k := range 10 {
				expires := now + int64(86400+s%100000)
				if k == s%10 {
					expires = now - int64(s%100)
				}
				account := (s+k*accounts/10)%accounts + 2
				run(`INSERT INTO leases(share, account, bytes, granted, renewed, expires, own) VALUES (?1, ?2, 4096000, ?3, ?3, ?4, 1)`, s+1, account, now-86400, expires)
				request := share.IDOf(binary.AppendVarint(nil, int64(s*10+k))).Bytes()[4:20]
				run(`INSERT INTO requests(account, request, answer, until) VALUES (?1, ?2, zeroblob(20), ?3)`, account, request, expires+answered)
			}
		}
		run(`UPDATE accounts SET used = (SELECT coalesce(sum(bytes), 0) FROM leases WHERE account = accounts.id), asked = (SELECT count(*) FROM requests WHERE account = accounts.id)`)
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return d, path
}

// BenchmarkMillion measures Usage, admission and the sweep with 1,000,000 leases of 100,000
// shares by 1,000 accounts, and the size of the database.
func BenchmarkMillion(b *testing.B) {
	d, path := fill(b, 100_000, 1000)
	for i, name := range []string{"sweep 100,000 leases", "sweep their answers"} {
		now, first := benchNow.Add(time.Duration(i)*answered*time.Second), true
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				began, cpu, n := time.Now(), spent(b), 0
				for done := false; !done; {
					m, ok, err := d.Sweep(b.Context(), now, 100_000)
					if err != nil {
						b.Fatal(err)
					}
					n, done = n+m, ok
				}
				if first {
					b.ReportMetric(time.Since(began).Seconds(), "s/first")
					b.ReportMetric((spent(b) - cpu).Seconds(), "CPU-s/first")
					b.ReportMetric(float64(n), "leases")
					first = false
				}
			}
		})
	}
	b.Run("usage", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := d.Usage(b.Context(), benchNow, depot.Account(i%1000+2)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("states", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.States(b.Context(), benchNow); err != nil {
				b.Fatal(err)
			}
		}
	})
	benchmarkHolds(b, d)
	b.Run("size", func(b *testing.B) {
		var bytes int64
		for b.Loop() {
			bytes = 0
			for _, part := range []string{"", "-wal"} {
				if info, err := os.Stat(path + part); err == nil {
					bytes += info.Size()
				}
			}
		}
		b.ReportMetric(float64(bytes)/1e6, "MB")
	})
}

// benchmarkHolds measures what a hold takes with all its syncs, in the database and beside the data:
// of clients that wait for their answer before they ask again. crowd is one share that all of them
// hold.
func benchmarkHolds(b *testing.B, d *DB) {
	var held atomic.Int64
	for _, what := range []struct {
		name  string
		share func(n int) share.ID
	}{
		{"a new share", func(n int) share.ID { return nth(1_000_000 + n) }},
		{"a share that is here", func(n int) share.ID { return nth(n % 100_000) }},
		{"one share of a crowd", func(int) share.ID { return nth(999_999) }},
	} {
		for _, clients := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("hold of %s, %d clients", what.name, clients), func(b *testing.B) {
				var all sync.WaitGroup
				cpu, left := spent(b), atomic.Int64{}
				left.Store(int64(b.N))
				var slow [64]time.Duration
				for c := range clients {
					all.Go(func() {
						for left.Add(-1) >= 0 {
							n := int(held.Add(1))
							began := time.Now()
							hold(b, d, n, depot.Account(n%1000+2), what.share(n))
							slow[c] = max(slow[c], time.Since(began))
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "holds/s")
				b.ReportMetric(float64(slices.Max(slow[:]).Microseconds())/1e3, "ms-slowest")
				b.ReportMetric(float64((spent(b)-cpu).Microseconds())/float64(b.N), "CPU-µs/op")
			})
		}
	}
}

func hold(b *testing.B, d *DB, n int, a depot.Account, id share.ID) {
	_, err := d.Hold(b.Context(), benchNow, depot.Ask{Account: a, Request: fmt.Sprint("bench", n), Share: id, Bytes: 4096000,
		Until: benchNow.Add(20 * 24 * time.Hour), Space: depot.Space{Free: depot.MaxBytes}})
	if err != nil {
		b.Error(err)
	}
}
