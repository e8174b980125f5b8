package depots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/depot/disk"
	"github.com/piecelease/fetcher/depot/keep"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// Config describes a depot.
type Config struct {
	Name    string
	Disk    int64        // its size in bytes; default 1 GiB
	Reserve int64        // bytes of it that stay free
	Open    *depot.Terms // for peers that have no account; nil: they get none
	Line    simnet.Line
	// Folder is another depot whose folder this one is given by mistake; nil: it has its own.
	Folder *Depot
}

// Depot is a node that keeps shares, with the machine on which it runs. Its methods are for
// the world around it.
type Depot struct {
	*simnet.Node
	// DB is its database, which outlives its programs.
	DB *leasedb.DB
	// Trouble, if not nil, is called before each operation of its disk, which fails with its error.
	Trouble func(storetest.Op) error
	// Synced says that the machine knows its wall clock to be right when it starts.
	Synced bool
	// Renewed, if not nil, is told of each lease that is renewed, and by how much longer it is.
	Renewed func(id share.ID, added time.Duration)
	// Stepped, if not nil, is told of each step forward of its time for which it gives a respite.
	Stepped func(from, to time.Time)

	net  *simnet.Net
	cfg  Config
	keep *keep.Keep

	excused bool // errors that it logs are not faults: something is done to it
	told    map[share.ID][]depot.State
	boots   int
	slept   time.Duration
	made    int // names

	corrupt bool // the database finds, at its next statement, that it is damaged
	left    int  // steps until it crashes; 0: it does not
	crash   func()
	dying   bool
}

// New makes a depot and starts it. Collecting is on.
func New(n *simnet.Net, cfg Config) *Depot {
	if cfg.Disk == 0 {
		cfg.Disk = 1 << 30
	}
	d := &Depot{net: n, cfg: cfg, Synced: true, boots: 1, told: map[share.ID][]depot.State{}}
	d.Lose()
	n.Add(simnet.NodeConfig{Name: cfg.Name, Disk: cfg.Disk, Line: cfg.Line, Deps: d.deps, Closed: d.closed})
	return d
}

func must(err error) {
	if err != nil {
		panic(fmt.Sprintf("depots: an operation failed that no fault was injected into: %v", err))
	}
}

// database makes a new one.
func (d *Depot) database() *leasedb.DB {
	db, _, err := leasedb.Open(context.Background(), ":memory:", beside{d})
	must(err)
	db.Fault = d.statement
	return db
}

// beside is the disk of the machine's present life.
type beside struct{ d *Depot }

func (b beside) Write(all []depot.Promised) error              { return b.d.keep.Root.Write(all) }
func (b beside) Grows(id share.ID) bool                        { return b.d.keep.Root.Grows(id) }
func (b beside) Promises(id share.ID) ([]depot.Promise, error) { return b.d.keep.Root.Promises(id) }
func (b beside) Last(id share.ID) (time.Time, error)           { return b.d.keep.Root.Last(id) }

// deps makes the program of a life keep shares.
func (d *Depot) deps(p *actors.Deps) {
	d.Node = p.Network.(*simnet.Node)
	d.Disk().Fault = d.operation
	d.dying, d.left = false, 0
	d.MayComplain(d.excused)
	d.keep = d.keeping(p.Catalog.(*store.Offers))
	p.Depot = &actors.DepotConfig{Ledger: watched{d.DB, d}, Keep: d.keep, Reading: d.Reading, Reserve: d.cfg.Reserve, Open: d.cfg.Open, Verifiers: 2, Changed: d.changed}
}

// watched is the database, which tells what is renewed, and of steps.
type watched struct {
	*leasedb.DB
	d *Depot
}

func (w watched) Renew(ctx context.Context, now time.Time, a depot.Ask) (depot.Granted, error) {
	g, err := w.DB.Renew(ctx, now, a)
	if err == nil && w.d.Renewed != nil {
		w.d.Renewed(a.Share, g.Added)
	}
	return g, err
}

func (w watched) Step(ctx context.Context, from, to time.Time, clock []byte) error {
	err := w.DB.Step(ctx, from, to, clock)
	if err == nil && w.d.Stepped != nil {
		w.d.Stepped(from, to)
	}
	return err
}

// keeping is the disk of one life, and what is served from it.
func (d *Depot) keeping(offers *store.Offers) (k *keep.Keep) {
	folder := d
	if d.cfg.Folder != nil {
		folder = d.cfg.Folder
	}
	root := disk.New(func() (vfs.FS, error) { return folder.Disk().FS(), nil }, d.name)
	root.Workers = 1
	later := func(f func()) {
		d.net.After(0, func() {
			if d.keep == k && d.Program() != nil { // else in another life
				f()
			}
		})
	}
	k = keep.New(keep.Config{Root: root, Ledger: d.DB, Offers: offers, Later: later, Program: d.Program})
	offers.OnGone(func(id share.ID, _ string) { k.Damaged(id) })
	return k
}

func (d *Depot) changed(id share.ID, s depot.State, why string) {
	d.keep.Changed(id)
	d.told[id] = append(d.told[id], s)
	text := fmt.Sprintf("%s: %v is %v", d.cfg.Name, id, s)
	if why != "" {
		text += ": " + why
	}
	d.net.Timeline().Note("%s", text)
}

func (d *Depot) closed() { must(d.keep.Root.Close()) }

// name returns one that was never used before.
func (d *Depot) name() string {
	d.made++
	return fmt.Sprint(d.cfg.Name, "-", d.made)
}

// Reading is the time as the machine reports it.
func (d *Depot) Reading() depot.Reading {
	return depot.Reading{Boot: fmt.Sprint(d.boots), Wall: d.net.Now().Add(d.Ahead()), Passed: d.net.Elapsed() + d.slept, Synced: d.Synced}
}

// Sleep suspends the machine for this long, in no time of the world.
func (d *Depot) Sleep(dur time.Duration) {
	d.slept += dur
	d.Node.Sleep(dur)
}

// PowerOff ends the machine at once, and with it the measuring of time.
func (d *Depot) PowerOff() {
	d.boots++
	d.Node.PowerOff()
}

// Lose removes the database before the depot starts again; collecting is on in the new one.
func (d *Depot) Lose() {
	d.DB = d.database()
	d.GC()
}

// Backup is a copy of the database.
func (d *Depot) Backup() *leasedb.DB {
	db := d.database()
	must(d.DB.CopyTo(context.Background(), db))
	return db
}

// Restore puts back what Backup made, while the depot does not run.
func (d *Depot) Restore(old *leasedb.DB) { d.DB = old }

// Damage makes the database in use report, at its next statement, that it is damaged.
func (d *Depot) Damage() { d.corrupt = true }

// ---- crashes ----

// CrashIn ends the machine at the nth change of its disk or database from now, or at by if
// there are fewer, and starts it again a second later.
func (d *Depot) CrashIn(n int, power bool) {
	d.left, d.crash = n, func() {
		if power {
			d.PowerOff()
		} else {
			d.Kill()
		}
		d.net.After(time.Second, d.Start)
	}
}

// Dying says whether it has crashed, and the machine does not run again yet.
func (d *Depot) Dying() bool { return d.dying }

// step counts what could be the last thing that the machine does.
func (d *Depot) step() error {
	if d.dying {
		return storetest.ErrPower
	}
	if d.left == 0 {
		return nil
	}
	if d.left--; d.left > 0 {
		return nil
	}
	d.dying = true
	d.MayComplain(true) // of errors at this instant only
	d.net.After(0, d.crash)
	return storetest.ErrPower
}

func (d *Depot) operation(op storetest.Op) error {
	if d.dying || op.Changes() {
		if err := d.step(); err != nil {
			return err
		}
	}
	if d.Trouble != nil {
		return d.Trouble(op)
	}
	return nil
}

func (d *Depot) statement(query string) error {
	if d.corrupt {
		d.corrupt = false
		return sqlite.ResultCorrupt.ToError()
	}
	if d.dying || !strings.HasPrefix(query, "SELECT") {
		return d.step()
	}
	return nil
}

// ---- inspection ----

// Account lets nodes use an account, which is made if there is none of that name.
func (d *Depot) Account(name string, quota int64, nodes ...*simnet.Node) depot.Account {
	ctx, terms := context.Background(), depot.Terms{Quota: quota, MaxLease: 31 * 24 * time.Hour}
	id, err := d.DB.AddAccount(ctx, d.net.Now(), name, terms)
	if errors.Is(err, depot.ErrTaken) {
		id, err = d.DB.Named(ctx, name)
		must(err)
		err = d.DB.SetAccount(ctx, id, terms)
	}
	must(err)
	for _, x := range nodes {
		must(d.DB.AddKey(ctx, id, x.ID()))
	}
	return id
}

// quietly queries the database without counting a step of the depot.
func (d *Depot) quietly(ask func()) {
	fault := d.DB.Fault
	defer func() { d.DB.Fault = fault }()
	d.DB.Fault = nil
	ask()
}

// State is that of a share, according to the database.
func (d *Depot) State(c *simnet.Content) (s depot.State) {
	d.quietly(func() {
		k, err := d.DB.Share(context.Background(), c.ID())
		must(err)
		s = k.State
	})
	return s
}

// HoldAs makes an account that no node uses hold a share that is here until a time.
func (d *Depot) HoldAs(account string, c *simnet.Content, until time.Time) {
	id := c.ID().String()
	request := fmt.Sprint(id[len(id)-12:], until.UnixNano()) // the same again is the same request
	_, err := d.DB.Hold(context.Background(), d.Reading().Wall, depot.Ask{Account: d.Account(account, 1e9), Request: request, Share: c.ID(), Bytes: depot.Bytes(c.Manifest),
		Until: until, Space: depot.Space{Free: 1 << 40}})
	must(err)
}

// Sum is what all accounts use together, except the starter's.
func (d *Depot) Sum() (bytes int64) {
	all, err := d.DB.Accounts(context.Background(), d.Reading().Wall)
	must(err)
	for _, a := range all[1:] {
		bytes += a.Used
	}
	return bytes
}

// Excuse is for a story in which it will have to log errors.
func (d *Depot) Excuse() {
	d.excused = true
	d.MayComplain(true)
}

// Told returns the states that a share has entered, in order.
func (d *Depot) Told(c *simnet.Content) []depot.State { return d.told[c.ID()] }

// Meta is what the database knows of itself.
func (d *Depot) Meta() depot.Meta {
	m, err := d.DB.Meta(context.Background())
	must(err)
	return m
}

// Here compares the files on the disk with a share, byte by byte.
func (d *Depot) Here(c *simnet.Content) error {
	at, err := d.Disk().FS().Sub(path.Join(disk.Folder(c.ID()), "data"))
	if err != nil {
		return err
	}
	return errors.Join(c.Check(at), at.Close())
}

// Left returns the names of a share's files on the disk.
func (d *Depot) Left(c *simnet.Content) (names []string) {
	fs := d.Disk().FS()
	var walk func(at string)
	walk = func(at string) {
		if _, err := fs.Lstat(at); err != nil {
			return
		}
		names = append(names, at)
		list, _ := fs.ReadDir(at)
		for _, e := range list {
			walk(path.Join(at, e.Name))
		}
	}
	walk(disk.Folder(c.ID()))
	walk(path.Join("going", c.ID().String()))
	return names
}

// Copy puts a share on the disk directly: its list of files, and its files.
func (d *Depot) Copy(c *simnet.Content) {
	fs, at := d.Disk().FS(), disk.Folder(c.ID())
	for i, r := range at + "/data/" {
		if r == '/' {
			must(vfs.EnsureDir(fs, (at + "/data/")[:i]))
		}
	}
	must(vfs.WriteFile(fs, at+"/manifest", at+"/manifest.new", c.Manifest.Bytes(), true))
	data, err := fs.Sub(at + "/data")
	must(err)
	must(errors.Join(c.CopyTo(data), data.Close(), fs.SyncAll()))
}

// Spoil writes something else into one of the files beside the data of a share: its
// "leases", "manifest" or "sources".
func (d *Depot) Spoil(c *simnet.Content, what string) {
	name := path.Join(disk.Folder(c.ID()), what)
	must(vfs.WriteFile(d.Disk().FS(), name, name+".new", []byte("something else"), true))
}

// Drop removes a file of a share.
func (d *Depot) Drop(c *simnet.Content, file string) {
	must(d.Disk().FS().Remove(path.Join(disk.Folder(c.ID()), "data", file)))
}

// Vanish removes all of a share, including the files beside its data.
func (d *Depot) Vanish(c *simnet.Content) {
	all := d.Left(c)
	for _, name := range slices.Backward(all) {
		must(d.Disk().FS().Remove(name))
	}
}

// GC turns collecting on.
func (d *Depot) GC() { must(d.DB.SetGC(context.Background(), true)) }

// Unmount takes the disk away, leaving only the folder on which it was mounted; the
// returned function mounts it again.
func (d *Depot) Unmount() (mount func()) {
	names := []string{"depot", "shares"}
	for _, name := range names {
		must(d.Disk().FS().Move(name, "away "+name))
	}
	return func() {
		for _, name := range names {
			must(d.Disk().FS().Move("away "+name, name))
		}
	}
}

// Rot flips a bit in one of the files of a share, and leaves no other trace.
func (d *Depot) Rot(c *simnet.Content, rng *rand.Rand) {
	files := c.Files()
	name := path.Join(disk.Folder(c.ID()), "data", files[rng.IntN(len(files))])
	f, err := d.Disk().FS().Edit(name)
	must(err)
	info, err := f.Stat()
	must(err)
	var b [1]byte
	at := rng.Int64N(info.Size)
	_, err = f.ReadAt(b[:], at)
	must(err)
	b[0] ^= 1
	_, err = f.WriteAt(b[:], at)
	must(errors.Join(err, f.Sync(), f.Close()))
	d.Disk().SetMTime(name, info.MTime)
}
