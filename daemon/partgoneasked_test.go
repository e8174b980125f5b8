package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// Of what is missing it is not known which pieces are here, and no file of it can be read, be it all of a share or a part.
func TestWhatIsMissingIsNotSaidToHaveNoPieces(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	served := servedTree(t, "1", "2", "3")
	for what, only := range map[string][]string{"the whole": nil, "a part": {"1", "2"}} {
		dir := t.TempDir()
		d := begun(t, dir)
		e := until(t, d, added(t, d, api.Add{Ticket: served.Ticket, Only: only}).ID, "here", in(api.Served))
		must(t, d.Close())
		must(t, os.Remove(filepath.Join(e.Path, "2")))
		d = begun(t, dir)
		until(t, d, e.ID, "missing", in(api.Missing))
		p, err := d.Pieces(t.Context(), e.ID)
		if !errors.Is(err, share.ErrHeld) {
			t.Errorf("%s: %d of %d pieces are said to be here, %v", what, p.Here, p.Pieces, err)
		}
		if _, err := d.OpenFile(t.Context(), e.ID, "1"); !errors.Is(err, share.ErrHeld) {
			t.Errorf("%s: a file of it: %v", what, err)
		}
	}
}
