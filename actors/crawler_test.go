package actors

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/share"
)

// pagedKeep is a disk that lists its shares a few at a time.
type pagedKeep struct {
	Keep
	ids  []share.ID
	page int
}

func (k pagedKeep) After(id share.ID) ([]share.ID, error) {
	i := 0
	for i < len(k.ids) && !id.IsZero() && id.Compare(k.ids[i]) >= 0 {
		i++
	}
	return slices.Clone(k.ids[i:min(i+k.page, len(k.ids))]), nil
}

func (pagedKeep) Look(share.ID) (depot.OnDisk, error) { return depot.OnDisk{Gone: true}, nil }

// The crawler sees each share once, in order, whether the disk, the ledger or both know it.
func TestTheCrawlerMeetsDiskAndLedger(t *testing.T) {
	var all []share.ID
	for i := range 3 * sliceShares {
		all = append(all, share.IDOf([]byte{byte(i), byte(i >> 8)}))
	}
	slices.SortFunc(all, share.ID.Compare)
	now := time.Unix(1e9, 0)
	for what, in := range map[string]func(i int) (disk, ledger bool){
		"both":   func(i int) (bool, bool) { return i%3 != 0, i%3 != 1 },
		"parted": func(i int) (bool, bool) { return i < 300, i >= 300 },
		"turned": func(i int) (bool, bool) { return i >= 300, i < 300 },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			db, _, err := leasedb.Open(t.Context(), ":memory:", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			k := pagedKeep{page: 7}
			for i, id := range all {
				disk, ledger := in(i)
				if disk {
					k.ids = append(k.ids, id)
				}
				if !ledger {
					continue
				}
				if _, err := db.Found(t.Context(), now, id, 5000, true, nil); err != nil {
					t.Fatal(err)
				}
			}
			v := surveyor{l: db, keep: k}
			var got []share.ID
			for at := (share.ID{}); ; at = got[len(got)-1] {
				page, err := v.after(t.Context(), at)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				got = append(got, page...)
			}
			if !slices.Equal(got, all) {
				t.Errorf("%d shares are met, want %d", len(got), len(all))
			}
		})
	}
}

// A share that was removed since its folder was read is not entered again.
func TestTheCrawlerDoesNotEnterWhatIsGone(t *testing.T) {
	db := ledgerOf(t)
	at := &depotTimes{reading: func() depot.Reading { return depot.Reading{Boot: "1", Wall: time.Unix(1e9, 0), Synced: true} }}
	id := share.IDOf([]byte("x"))
	v := surveyor{l: db, keep: pagedKeep{}, t: at}
	if _, x, err := v.look(t.Context(), id); err != nil || !x.gone {
		t.Errorf("%+v, %v", x, err)
	}
	if s, err := db.Share(t.Context(), id); err != nil || s.State != depot.None {
		t.Errorf("%+v, %v", s, err)
	}
}
