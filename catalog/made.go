package catalog

import (
	"context"
	"iter"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/store/vfs"
)

// portion is how many rows of made are read, written or deleted in one transaction: an entry can have millions, and others wait meanwhile.
const portion = 10_000

// Make records what was put in its place for an entry, by its number in the list of files, and what it looked like then. That is all that may
// be removed with the entry, as long as it looks so.
func (d *DB) Make(ctx context.Context, id ID, made iter.Seq2[int, vfs.Stamp]) error {
	next, stop := iter.Pull2(made)
	defer stop()
	for more := true; more; {
		if err := d.write(ctx, func(t tx) (err error) {
			var file int
			var st vfs.Stamp
			for n := 0; n < portion && err == nil; n++ {
				if file, st, more = next(); !more {
					break
				}
				err = t.rows(`INSERT OR REPLACE INTO made(entry, file, size, mtime, ctime, inode) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`, nil,
					int64(id), int64(file), st.Size, st.MTime, st.CTime, int64(st.Inode))
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Made returns what Make has recorded of an entry.
func (d *DB) Made(ctx context.Context, id ID) (made map[int]vfs.Stamp, err error) {
	made = map[int]vfs.Stamp{}
	from := 0
	for n := portion; n == portion && err == nil; {
		n = 0
		err = d.read(ctx, func(t tx) error {
			return t.rows(`SELECT file, size, mtime, ctime, inode FROM made WHERE entry = ?1 AND file >= ?2 ORDER BY file LIMIT ?3`, func(s *sqlite.Stmt) error {
				made[s.ColumnInt(0)] = vfs.Stamp{Size: s.ColumnInt64(1), MTime: s.ColumnInt64(2), CTime: s.ColumnInt64(3), Inode: uint64(s.ColumnInt64(4))}
				from, n = s.ColumnInt(0)+1, n+1
				return nil
			}, int64(id), int64(from), int64(portion))
		})
	}
	return made, err
}

// forget deletes the first portion of what Make has recorded of an entry, and says whether there may be more.
func (t tx) forget(id ID) (more bool, err error) {
	err = t.rows(`DELETE FROM made WHERE entry = ?1 AND file IN (SELECT file FROM made WHERE entry = ?1 ORDER BY file LIMIT ?2)`, nil, int64(id), int64(portion))
	return t.c.Changes() == portion, err
}

// forget deletes what Make has recorded of an entry that was removed. What ctx leaves no time for, or fails, is deleted when the catalog is opened again.
func (d *DB) forget(ctx context.Context, id ID) {
	var err error
	for more := true; more && err == nil; {
		err = d.write(ctx, func(t tx) (err error) {
			more, err = t.forget(id)
			return err
		})
	}
}

// forgetRemoved is forget for all entries that were removed.
func (d *DB) forgetRemoved(ctx context.Context) {
	var removed []ID
	d.read(ctx, func(t tx) error {
		return t.rows(`WITH RECURSIVE of(entry) AS (SELECT min(entry) FROM made
		   UNION ALL SELECT (SELECT min(made.entry) FROM made WHERE made.entry > of.entry) FROM of WHERE of.entry IS NOT NULL)
		 SELECT entry FROM of WHERE entry NOT IN (SELECT id FROM entries)`, func(s *sqlite.Stmt) error {
			removed = append(removed, ID(s.ColumnInt64(0)))
			return nil
		})
	})
	for _, id := range removed {
		d.forget(ctx, id)
	}
}
