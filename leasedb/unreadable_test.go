package leasedb

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// unreadable is a disk on which the leases of one share cannot be read.
type unreadable struct {
	disk
	id share.ID
}

func (u *unreadable) Last(id share.ID) (time.Time, error) {
	if id == u.id {
		return time.Time{}, errCrash
	}
	return u.disk.Last(id)
}

// One damaged file does not stop all collecting.
func TestUnreadableLeasesOfOneShareKeepThatShareAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	r.stable(ids[1])
	r.DB.beside = &unreadable{r.disk, ids[0]}
	late := start.Add(12 * day)
	out, _, err := r.Candidates(t.Context(), late, share.ID{}, 10)
	if err != nil || !slices.ContainsFunc(out, func(k depot.Kept) bool { return k.Share == ids[1] }) {
		t.Errorf("%v, %v", out, err)
	}
}
