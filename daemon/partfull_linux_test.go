package daemon

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// What was fetched is served after a restart also if its disk is full by now, or can only be read, be it all of a share or a part.
func TestAPartIsServedFromAFullDisk(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	served := servedTree(t, "1", "2", "3")
	for what, only := range map[string][]string{"the whole": nil, "a part": {"1", "2"}} {
		for disk, becomes := range map[string]func(dir string){"full": func(dir string) {
			f, err := os.Create(filepath.Join(dir, "another"))
			must(t, err)
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
			must(t, f.Close())
		}, "only to be read": func(dir string) {
			must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
		}} {
			to, dir := t.TempDir(), t.TempDir()
			mount(t, to, "film")
			d := begun(t, dir)
			e := until(t, d, added(t, d, api.Add{Ticket: served.Ticket, Dir: to, Only: only}).ID, "here", in(api.Served))
			must(t, d.Close())
			becomes(to)
			d = begun(t, dir)
			e = until(t, d, e.ID, "looked at", func(e api.Entry) bool {
				return e.State == api.Served || e.State == api.Waiting || e.State == api.Failed
			})
			if e.State != api.Served {
				t.Errorf("on a disk that is %s, %s is %s: %s", disk, what, e.State, e.Reason)
			}
		}
	}
}
