package catalog

import (
	"context"
	"iter"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/store/vfs"
)

// Make records what was put in its place for an entry, by its number in the list of files, and what it looked like then. That is all that may
// be removed with the entry, as long as it looks so.
func (d *DB) Make(ctx context.Context, id ID, made iter.Seq2[int, vfs.Stamp]) error {
	return d.write(ctx, func(t tx) error {
		for file, st := range made {
			if err := t.rows(`INSERT OR REPLACE INTO made(entry, file, size, mtime, ctime, inode) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`, nil,
				int64(id), int64(file), st.Size, st.MTime, st.CTime, int64(st.Inode)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Made returns what Make has recorded of an entry.
func (d *DB) Made(ctx context.Context, id ID) (made map[int]vfs.Stamp, err error) {
	made = map[int]vfs.Stamp{}
	err = d.read(ctx, func(t tx) error {
		return t.rows(`SELECT file, size, mtime, ctime, inode FROM made WHERE entry = ?1`, func(s *sqlite.Stmt) error {
			made[s.ColumnInt(0)] = vfs.Stamp{Size: s.ColumnInt64(1), MTime: s.ColumnInt64(2), CTime: s.ColumnInt64(3), Inode: uint64(s.ColumnInt64(4))}
			return nil
		}, int64(id))
	})
	return made, err
}
