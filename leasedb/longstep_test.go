package leasedb

import (
	"fmt"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	rigs "github.com/piecelease/fetcher/internal/rig"
)

// A step over so many leases that their ends are not moved in half a minute is done all the same: without it time stands still, and
// nothing ends or goes any more.
func TestAStepOfManyLeasesIsDone(t *testing.T) {
	rigs.Slow(t)
	t.Parallel()
	const slow = `SELECT length(hex(zeroblob(20000000)))` // in place of many leases
	r := newRig(t)
	r.stable(nth(1))
	r.ok(r.db.Write(t.Context(), func(c *sqlite.Conn) error {
		began, n := time.Now(), 0
		for ; time.Since(began) < 4*time.Second; n++ {
			if err := sqlitex.ExecuteTransient(c, slow, nil); err != nil {
				return err
			}
		}
		many := fmt.Sprintf(`SELECT (WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d) SELECT sum(length(hex(zeroblob(20000000 + i)))) FROM n)`, 12*n)
		return sqlitex.ExecuteTransient(c, `CREATE TRIGGER many AFTER UPDATE ON leases BEGIN `+many+`; END`, nil)
	}))
	to := start.Add(40 * day)
	r.ok(r.Step(t.Context(), start, to, nil))
	if l, err := r.Leases(t.Context(), to, nth(1)); err != nil || len(l) != 1 || !l[0].Expires.Equal(to.Add(10*day)) {
		t.Error(fmt.Sprint(l), err)
	}
}
