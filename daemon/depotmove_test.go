package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/archive"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

const (
	peerA = "12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
	peerB = "12D3KooWBMAjZHEqjYEoXPCVpCZpFQtpXJeTbaSkpUkNaxiKaqhR"
)

// mover is a depot with shares that were put there by hand.
type mover struct {
	*testing.T
	*Daemon
	dir, folder string
}

func newMover(t *testing.T) *mover {
	m := &mover{T: t, dir: t.TempDir(), folder: filepath.Join(t.TempDir(), "depot")}
	m.begin()
	return m
}

func (m *mover) begin() {
	m.Helper()
	m.Daemon = begun(m.T, m.dir, func(c *Config) { c.Depot = m.folder })
}

// put enters a share with leases of accounts, as another depot had it.
func (m *mover) put(name string, leases map[string]time.Time) share.ID {
	m.Helper()
	return m.putFile(file(m.T, "the content of "+name, m.TempDir(), name), leases)
}

// putFile enters a file of at most a piece.
func (m *mover) putFile(src string, leases map[string]time.Time) share.ID {
	m.Helper()
	imp, err := store.Import(m.Context(), src, store.ImportOptions{})
	must(m.T, err)
	defer imp.Tree.Close()
	id := imp.Manifest.ID()
	content, err := os.ReadFile(src)
	must(m.T, err)
	var all []depot.Promise
	for a, at := range leases {
		all = append(all, depot.Promise{Account: a, Expires: at})
	}
	must(m.T, m.lender.root.Bring(m.Context(), imp.Manifest, all, func(_ share.Piece, buf []byte) ([]share.Hash, error) {
		copy(buf, content)
		values, _ := share.HashPiece(nil, buf, 0, true)
		return values, nil
	}))
	all = append(all, depot.Promise{Account: "starter", Expires: time.Now()})
	_, err = m.lender.db.Found(m.Context(), time.Now(), id, depot.Bytes(imp.Manifest), true, all)
	must(m.T, err)
	return id
}

func (m *mover) account(name, key string) {
	m.Helper()
	_, err := m.AddAccount(m.Context(), api.AddAccount{Name: name, Key: key, Quota: 1 << 30, MaxLease: "90d"})
	must(m.T, err)
}

func (m *mover) export(after string) []byte {
	m.Helper()
	write, err := m.Daemon.Export(m.Context(), after)
	must(m.T, err)
	var b bytes.Buffer
	must(m.T, write(&b))
	return b.Bytes()
}

func (m *mover) enter(b []byte) api.Imported {
	m.Helper()
	out, err := m.Daemon.Import(m.Context(), bytes.NewReader(b))
	must(m.T, err)
	return out
}

// held is all live leases but the starter's.
func (m *mover) held() map[string]time.Time {
	m.Helper()
	out := map[string]time.Time{}
	all, err := m.Accounts(m.Context())
	must(m.T, err)
	for _, a := range all[1:] {
		leases, err := m.Leases(m.Context(), a.Name, "", 1000)
		must(m.T, err)
		for _, l := range leases {
			out[a.Name+" "+l.Share] = l.Expires.UTC()
		}
	}
	return out
}

// exported is a depot that knows anna's key and has a share for some accounts, and what it exports.
func exported(t *testing.T, accounts ...string) (a *mover, film share.ID, stream []byte) {
	t.Helper()
	a = newMover(t)
	a.account("anna", peerA)
	leases := map[string]time.Time{}
	for _, name := range accounts {
		leases[name] = later
	}
	film = a.put("film", leases)
	return a, film, a.export("")
}

var later = time.Now().Add(20 * 24 * time.Hour).Truncate(time.Second)

// What one depot exports another keeps, for the same accounts and as long; a second import changes nothing.
func TestADepotMoves(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a := newMover(t)
	a.account("anna", peerA)
	film := a.put("film", map[string]time.Time{"anna": later, "bert": later.Add(time.Hour)})
	a.put("note", map[string]time.Time{"anna": later.Add(-time.Hour)})
	b := newMover(t)
	stream := a.export("")
	if got := b.enter(stream); got.Shares != 2 || got.Known != 0 || got.Accounts != 2 || got.LeftOut != 0 || len(got.Refused)+len(got.Damaged) != 0 {
		t.Errorf("%+v", got)
	}
	want := a.held()
	if got := b.held(); len(want) != 3 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if tree, err := b.lender.root.Tree(film); err != nil {
		t.Error(err)
	} else {
		tree.Close()
	}
	acc, err := b.account2("anna")
	if err != nil || acc.Quota != 1<<30 || acc.MaxLease != 90*86400 || !slices.Equal(acc.Keys, []string{peerA}) {
		t.Errorf("%+v, %v", acc, err)
	}
	if got := b.enter(stream); got.Shares != 0 || got.Known != 2 || got.Accounts != 0 || !reflect.DeepEqual(b.held(), want) {
		t.Errorf("a second time: %+v, %v", got, b.held())
	}
	fetched(t, b, film)
}

// fetched has a stranger fetch a share from a depot.
func fetched(t *testing.T, from *mover, id share.ID) {
	t.Helper()
	n, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir(), Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	must(t, err)
	defer n.Close()
	x, err := n.Fetch(t.Context(), id.String(), fetcher.FetchOptions{Dir: t.TempDir(), Peers: from.node.Addrs()})
	must(t, err)
	must(t, x.Wait(t.Context()))
}

func (m *mover) account2(name string) (api.Account, error) {
	l, now, id, err := m.accountNamed(m.Context(), name)
	if err != nil {
		return api.Account{}, err
	}
	return l.account(m.Context(), now, id)
}

// The database is lost, and an export entered: the leases are those that there were, also where one was
// renewed since.
func TestAnExportGivesBackWhatADatabaseLost(t *testing.T) {
	t.Parallel()
	a := newMover(t)
	a.account("anna", peerA)
	film := a.put("film", map[string]time.Time{"anna": later})
	a.put("note", map[string]time.Time{"anna": later})
	stream := a.export("")
	id, err := a.lender.db.Named(t.Context(), "anna")
	must(t, err)
	_, err = a.lender.db.Renew(t.Context(), time.Now(), depot.Ask{Account: id, Request: "r", Share: film, Until: later.Add(24 * time.Hour)})
	must(t, err)
	want := a.held()
	must(t, a.Close())
	for _, part := range []string{"", "-wal", "-shm"} {
		os.Remove(filepath.Join(a.dir, leasesName+part))
	}
	a.begin()
	a.enter(stream)
	if got := a.held(); len(want) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if acc, err := a.account2("anna"); err != nil || acc.Quota != 1<<30 || !slices.Equal(acc.Keys, []string{peerA}) {
		t.Errorf("%+v, %v", acc, err)
	}
	a.enter(stream) // it is older than the leases, and ends none
	if got := a.held(); !reflect.DeepEqual(got, want) {
		t.Errorf("again: %v, want %v", got, want)
	}
}

// An import gives nobody what belongs to another, and changes no account.
func TestAnImportChangesNoAccount(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	_, film, stream := exported(t, "anna")
	b := newMover(t) // where that key belongs to another name
	b.account("other", peerA)
	must(t, b.lender.db.SetAccount(t.Context(), 2, depot.Terms{Quota: 5, MaxLease: time.Hour}))
	b.enter(stream)
	if got := b.held(); !reflect.DeepEqual(got, map[string]time.Time{"other " + film.String(): later.UTC()}) {
		t.Errorf("%v", got)
	}
	if acc, err := b.account2("other"); err != nil || acc.Quota != 5 {
		t.Errorf("%+v, %v", acc, err)
	}
	c := newMover(t) // where that name is of another key
	c.account("anna", peerB)
	if got := c.enter(stream); len(got.Refused) != 1 || got.Shares != 0 || got.Expired != 1 || len(c.held()) != 0 {
		t.Errorf("%+v, %v", got, c.held())
	}
	d := newMover(t) // where both keys have an account
	d.account("x", peerA)
	d.account("y", peerB)
	if got := d.enter(archived(t, archive.Account{Name: "z", Keys: []string{peerA, peerB}, MaxLease: 5})); len(got.Refused) != 1 || got.Accounts != 0 {
		t.Errorf("%+v", got)
	}
	for _, bad := range []archive.Account{{Name: "starter", MaxLease: 5}, {Name: "z", Quota: -1, MaxLease: 5}, {Name: "z"}, {Name: "z", MaxLease: 1 << 40}, {Name: "z", Keys: []string{"no key"}, MaxLease: 5}} {
		if _, err := d.Daemon.Import(t.Context(), bytes.NewReader(archived(t, bad))); !errors.Is(err, api.ErrRequest) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// archived is an export of accounts alone.
func archived(t *testing.T, accounts ...archive.Account) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, "d", time.Now(), accounts)
	must(t, err)
	must(t, w.Close(0))
	return b.Bytes()
}

// Accounts that a depot opened for strangers stay those of strangers, which give way when they hold nothing.
func TestStrangersMoveAsStrangers(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	b := newMover(t)
	b.enter(archived(t, archive.Account{Name: peerA, Keys: []string{peerA}, Quota: 7, MaxLease: 60, Stranger: true}))
	all, err := b.lender.db.Accounts(t.Context(), time.Now())
	must(t, err)
	if len(all) != 2 || !all[1].Stranger || all[1].Quota != 7 {
		t.Errorf("%+v", all)
	}
	id, err := b.lender.db.AccountOf(t.Context(), peers.ID(peerA))
	if err != nil || id != all[1].ID {
		t.Error(id, err)
	}
}

// What is damaged, cut or does not fit is not entered; what came before it is, and the same can be imported
// again.
func TestAnImportThatFailsLeavesWholeShares(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a := newMover(t)
	a.account("anna", peerA)
	var ids []share.ID
	for _, name := range []string{"film", "note", "song"} {
		ids = append(ids, a.put(name, map[string]time.Time{"anna": later}))
	}
	slices.SortFunc(ids, share.ID.Compare)
	stream := a.export("")
	b := newMover(t)
	at := bytes.Index(stream, []byte("shares/"+ids[2].String()+"/data"))
	if _, err := b.Daemon.Import(t.Context(), bytes.NewReader(stream[:at+512+5])); !errors.Is(err, api.ErrRequest) || !strings.HasSuffix(err.Error(), "; 2 shares came in before that: import a whole export for the rest") {
		t.Error(err)
	}
	if got := b.held(); len(got) != 2 {
		t.Errorf("of a cut stream: %v", got)
	}
	damaged := bytes.Clone(stream)
	damaged[at+512+5] ^= 1
	if got := b.enter(damaged); got.Known != 2 || !slices.Equal(got.Damaged, []string{ids[2].String()}) || len(b.held()) != 2 {
		t.Errorf("%+v, %v", got, b.held())
	}
	if absent, err := b.lender.root.Absent(ids[2]); err != nil || !absent {
		t.Error("something of a damaged share is here:", err)
	}
	if got := b.enter(a.export(ids[1].String())); got.Shares != 1 || got.Known != 0 || len(b.held()) != 3 {
		t.Errorf("the rest: %+v", got)
	}
	c := newMover(t)
	c.lender.importing.Lock()
	if _, err := c.Daemon.Import(t.Context(), bytes.NewReader(stream)); !errors.Is(err, api.ErrHave) {
		t.Error("two imports at once:", err)
	}
	c.lender.importing.Unlock()
	c.mu.Lock()
	c.settings.Reserve = 1 << 62
	c.mu.Unlock()
	if _, err := c.Daemon.Import(t.Context(), bytes.NewReader(stream)); !errors.Is(err, share.ErrDiskFull) || !strings.Contains(err.Error(), "the depot has room for 0 B") || !strings.Contains(err.Error(), "depot-reserve") {
		t.Error(err)
	}
	seen, err := a.lender.root.Look(ids[0])
	must(t, err)
	x := importer{}
	if _, err := x.promises(archive.Share{Manifest: seen.Manifest, Leases: []archive.Lease{{Account: "me", Expires: later}}}, time.Now()); err == nil || !strings.Contains(err.Error(), ": a lease on ") || !strings.HasSuffix(err.Error(), " until "+later.Local().Format("2006-01-02 15:04")+` is longer than a lease may be, or is of the account "me", which the export does not list`) {
		t.Error("a lease of no account:", err)
	}
}

// A share that is not whole here is left out, and the export says so; so is one that nobody holds.
func TestAnExportHasWhatIsWhole(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	a := newMover(t)
	a.account("anna", peerA)
	a.put("film", map[string]time.Time{"anna": later})
	rotten := a.put("rotten", map[string]time.Time{"anna": later})
	a.put("loose", map[string]time.Time{"anna": time.Now().Add(-time.Hour)})
	id, err := a.lender.db.Named(t.Context(), "anna")
	must(t, err)
	_, err = a.lender.db.Hold(t.Context(), time.Now(), depot.Ask{Account: id, Request: "r", Share: share.IDOf([]byte("coming")), Bytes: 8192, Until: later, Space: depot.Space{Free: 1 << 40}})
	must(t, err)
	at := filepath.Join(a.folder, "shares")
	must(t, filepath.WalkDir(at, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Name() == "rotten" && e.Type().IsRegular() {
			must(t, os.WriteFile(path, []byte("the content of rotteN"), 0o600))
		}
		return err
	}))
	b := newMover(t)
	if got := b.enter(a.export("")); got.Shares != 1 || got.LeftOut != 2 || !slices.Equal(got.Damaged, []string{rotten.String()}) || got.Accounts != 1 {
		t.Errorf("%+v", got)
	}
	if _, err := a.Daemon.Export(t.Context(), "no ID"); !errors.Is(err, api.ErrRequest) {
		t.Error(err)
	}
}
