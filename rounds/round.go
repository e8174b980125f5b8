package rounds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Config describes a round and the process that asks for it.
type Config struct {
	// Name is the name of the round: a key (see [KV]) of at most 128 bytes.
	Name string

	// Office makes the round an office; otherwise it is a job. All processes that
	// ask for a round must agree.
	Office bool

	// Holder names the process that asks, for people to read, in at most
	// [MaxHolder] bytes. In an office it names one process at a time, over all its
	// restarts: a holder takes over an office from its own earlier run at once. If two
	// processes have one name, the later keeps the office.
	Holder string

	// Run is a random text of at most [MaxHolder] bytes, different in each process
	// and after each restart, such as rand.Text() of crypto/rand. It tells whose
	// record it is when an answer of the store was lost.
	Run string

	// Data is what others should know about the holder, such as its addresses, at
	// most [MaxData] bytes.
	Data string

	// MaxTTL is the longest ttl allowed, by default 31 days for a job and 5
	// minutes for an office. A longer ttl in a record is read as MaxTTL.
	MaxTTL time.Duration

	// Clock is usually ClockOf(time.Now).
	Clock func() Now

	// Notice receives what an operator should know; may be nil.
	Notice func(Notice)
}

func (c *Config) check() error {
	if c.MaxTTL == 0 {
		c.MaxTTL = 31 * 24 * time.Hour
		if c.Office {
			c.MaxTTL = 5 * time.Minute
		}
	}
	if c.Notice == nil {
		c.Notice = func(Notice) {}
	}
	if err := CheckName(c.Name); err != nil {
		return err
	}
	switch {
	case c.Holder == "" || len(c.Holder) > MaxHolder || cut(c.Holder, MaxHolder) != c.Holder:
		return fmt.Errorf("round %s: the holder needs a name of 1 to %d bytes of UTF-8", c.Name, MaxHolder)
	case c.Run == "" || len(c.Run) > MaxHolder || cut(c.Run, MaxHolder) != c.Run:
		return fmt.Errorf("round %s: Run must be a random text of at most %d bytes", c.Name, MaxHolder)
	case len(c.Data) > MaxData || cut(c.Data, MaxData) != c.Data:
		return fmt.Errorf("round %s: Data must be at most %d bytes of UTF-8", c.Name, MaxData)
	case c.MaxTTL < 0:
		return fmt.Errorf("round %s: MaxTTL must not be negative", c.Name)
	case c.Clock == nil:
		return fmt.Errorf("round %s: it needs a clock", c.Name)
	}
	return nil
}

const maxName = 128

// CheckName returns an [ErrKey] if a round, or a pointer, may not have the name.
func CheckName(name string) error {
	if n := len(name); n == 0 || n > maxName {
		return fmt.Errorf("%w: it has %d bytes, and a name has 1 to %d", ErrKey, n, maxName)
	}
	return CheckKey(name)
}

// A new meaning of a record or a pointer needs another key.
func roundKey(name string) string   { return "round.v1." + name }
func pointerKey(name string) string { return "pointer.v1." + name }

// A Round is one process's view of a round. Use it for as long as the process
// runs: it remembers how long it has seen a record stand, and which terms it has
// seen.
type Round struct {
	kv    KV
	c     Config
	seen  seen
	open  *Guard            // neither completed, abandoned nor closed
	mine  uint64            // the highest term for which this process had a guard
	high  uint64            // the highest term read
	told  uint64            // the term whose holder's clock was reported
	heard map[string]uint64 // terms reported by members

	tried struct { // the first write that was to replace a revision; its answer may have been lost
		any bool
		rev uint64
		at  time.Duration // by the monotonic clock
	}
}

// New returns a view of a round. It does not use the store.
func New(kv KV, c Config) (*Round, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	return &Round{kv: kv, c: c, heard: map[string]uint64{}}, nil
}

// SetData replaces Config.Data, from the next [Round.TryAcquire] or [Guard.Extend] on.
func (r *Round) SetData(data string) error {
	c := r.c
	c.Data = data
	if err := c.check(); err != nil {
		return err
	}
	r.c.Data = data
	return nil
}

// ErrHolding is returned by a Round whose last guard is still open.
var ErrHolding = errors.New("the round is held by this process; end its guard first")

// A HeldError says that somebody else holds the round.
type HeldError struct {
	Round  string
	Record Record
	Again  time.Duration // ask again after this
}

func (e *HeldError) Error() string {
	if e.Record.Term == 0 {
		return fmt.Sprintf("round %s: somebody else changed it at the same moment", e.Round)
	}
	return fmt.Sprintf("round %s is held by %q, term %d", e.Round, e.Record.Holder, e.Record.Term)
}

// Current returns the record of a round as it is in the store, or [ErrNever], or
// [ErrCorrupt].
func Current(ctx context.Context, kv KV, name string) (Record, error) {
	if err := CheckName(name); err != nil {
		return Record{}, err
	}
	e, err := get(ctx, kv, roundKey(name), callTimeout)
	if err == nil && e.Rev == 0 {
		err = ErrNever
	}
	var rec Record
	if err == nil {
		rec, err = decodeRecord(e.Value)
	}
	if err != nil {
		return Record{}, fmt.Errorf("round %s: %w", name, err)
	}
	return rec, nil
}

// A Named is a round in a store, with its record or, if that cannot be read, why.
type Named struct {
	Name   string
	Record Record
	Err    error // wraps [ErrCorrupt]
}

// List returns the rounds that were ever held, by their names.
func List(ctx context.Context, kv KV) (all []Named, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	listed := false
	err = kv.Watch(ctx, roundKey(""), func(entries []Entry) {
		if listed {
			return
		}
		listed = true
		for _, e := range entries {
			rec, err := decodeRecord(e.Value)
			all = append(all, Named{strings.TrimPrefix(e.Key, roundKey("")), rec, err})
		}
		cancel()
	})
	if !listed {
		return nil, err
	}
	slices.SortFunc(all, func(a, b Named) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// get reads a key within a time limit. A key that nobody has written has revision 0.
func get(ctx context.Context, kv KV, key string, within time.Duration) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	e, err := kv.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return Entry{Key: key}, nil
	}
	return e, err
}

// put replaces an entry within a time limit; revision 0 is a key that nobody has written.
func put(ctx context.Context, kv KV, key string, value []byte, rev uint64, within time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if rev == 0 {
		return kv.Create(ctx, key, value)
	}
	return kv.Update(ctx, key, value, rev)
}

// limit is how long one call to the store may take: in an office a heartbeat, so that its
// holder can try again before its time is over.
func (r *Round) limit(ttl time.Duration) time.Duration {
	if r.c.Office {
		return min(Heartbeat(ttl), callTimeout)
	}
	return callTimeout
}

// A reading is the record as one read found it.
type reading struct {
	Entry
	rec     Record
	finding finding
	again   time.Duration
}

// read reads the record and judges it.
func (r *Round) read(ctx context.Context, within time.Duration) (reading, error) {
	sent := r.c.Clock()
	e, err := get(ctx, r.kv, roundKey(r.c.Name), within)
	if err != nil {
		return reading{}, err
	}
	if e.Rev == 0 {
		return reading{Entry: e, finding: never}, nil
	}
	rec, err := decodeRecord(e.Value)
	if err != nil {
		r.seen = seen{}
		return reading{Entry: e, finding: corrupt}, nil
	}
	rec.TTL = min(rec.TTL, r.c.MaxTTL)
	r.high = max(r.high, rec.Term)
	r.seen.answered(e, rec, r.c.Office, r.c.Clock().Mono)
	if ahead := rec.Acquired.Sub(sent.Wall); ahead > aheadBy && r.told != rec.Term && rec.State != Abandoned {
		r.told = rec.Term
		r.c.Notice(Notice{Kind: ClockAhead, Round: r.c.Name, Record: rec, Clock: sent.Wall})
	}
	f, again := r.seen.judge(rec, &r.c, r.earlier(rec), sent)
	return reading{e, rec, f, again}, nil
}

// earlier reports whether a record is of this process, or of an earlier run of its holder. If
// it was written in the holder's name after a guard of this process, another process
// runs in that name, too: the two would take an office from each other for ever.
func (r *Round) earlier(rec Record) bool {
	return rec.Holder == r.c.Holder && (rec.Run == r.c.Run || rec.Term <= r.mine || r.mine == 0)
}

// TryAcquire takes the round for ttl if it is free, with a term above all earlier ones;
// else it returns a [HeldError]. After any other error it is unknown whether the round
// was taken: call again, and if it was, that call finds the record.
//
// The ttl of a job is its period, whatever happens to its holder. The ttl of an office
// is one and a half heartbeats.
func (r *Round) TryAcquire(ctx context.Context, ttl time.Duration) (*Guard, error) {
	if r.open != nil {
		return nil, fmt.Errorf("round %s: %w", r.c.Name, ErrHolding)
	}
	if ttl < time.Millisecond || ttl > r.c.MaxTTL {
		return nil, fmt.Errorf("round %s: the ttl is %v: it must be from 1ms to %v", r.c.Name, ttl, r.c.MaxTTL)
	}
	g, err := r.acquire(ctx, ttl.Truncate(time.Millisecond))
	if err != nil && !errors.As(err, new(*HeldError)) {
		err = fmt.Errorf("round %s: %w", r.c.Name, err)
	}
	return g, err
}

func (r *Round) acquire(ctx context.Context, ttl time.Duration) (*Guard, error) {
	within := r.limit(ttl)
	was, err := r.read(ctx, within)
	if err != nil {
		return nil, err
	}
	if r.unclaimed(was) && was.finding != expired {
		return r.guard(was.rec, was.Rev, r.tried.at), nil
	}
	if !was.finding.free() {
		return nil, r.heldBy(was)
	}
	term, err := r.nextTerm(ctx, was, within)
	if err != nil {
		return nil, err
	}
	now := r.c.Clock()
	rec := Record{Term: term, Holder: r.c.Holder, Run: r.c.Run, TTL: ttl, Office: r.c.Office, Acquired: stamp(now.Wall), Data: r.c.Data}
	if !r.tried.any || r.tried.rev != was.Rev {
		r.tried.any, r.tried.rev, r.tried.at = true, was.Rev, now.Mono
	}
	rev, wrote := put(ctx, r.kv, roundKey(r.c.Name), rec.encode(), was.Rev, within)
	if wrote == nil {
		return r.guard(rec, rev, now.Mono), nil
	}
	// Somebody else won, or the answer was lost: the record there says which.
	is, err := r.read(ctx, within)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w (and reading it back failed: %v)", wrote, err)
	case r.unclaimed(is):
		return r.guard(is.rec, is.Rev, r.tried.at), nil
	case is.Rev != was.Rev:
		return nil, r.heldBy(is)
	}
	return nil, wrote
}

// unclaimed reports whether we wrote the record but never had a guard for it, because
// the answer was lost.
func (r *Round) unclaimed(is reading) bool {
	return is.rec.State == Running && is.rec.Term > r.mine && is.rec.by(&r.c)
}

func (r *Round) heldBy(is reading) error {
	return &HeldError{Round: r.c.Name, Record: is.rec, Again: is.again}
}

// nextTerm returns one more than every known term. If a record or a pointer cannot be
// read, its revision counts as its term: each term took at least one write, except where a
// term was raised above what members had Heard. So a process that knows nothing but a damaged record
// may choose a lower term than there was. What was published then is kept: a pointer that can be read is read
// here, and never goes back to a lower term. A member that knows more is Heard.
func (r *Round) nextTerm(ctx context.Context, was reading, within time.Duration) (uint64, error) {
	high := r.high // includes the record's term
	if was.finding == corrupt {
		high = max(high, was.Rev)
	}
	p, err := get(ctx, r.kv, pointerKey(r.c.Name), within)
	if err != nil {
		return 0, err
	}
	if at, err := decodeTarget(p.Value); err == nil {
		high = max(high, at.Term)
	} else {
		high = max(high, p.Rev)
	}
	known := high
	for _, who := range slices.Sorted(maps.Keys(r.heard)) {
		if term := r.heard[who]; Plausible(term, known) {
			high = max(high, term)
		} else {
			r.c.Notice(Notice{Kind: Implausible, Round: r.c.Name, Clock: r.c.Clock().Wall, Member: who, Term: term})
		}
	}
	if high >= MaxTerm {
		return 0, fmt.Errorf("there is no term above %d", high)
	}
	return high + 1, nil
}

// maxHeard is how many members' reports are kept.
const maxHeard = 1024

// Heard notes a term that a member of a fleet has seen, which the store may have lost. The
// next term acquired here is above it, unless it is more than 2^32 above all that the
// store knows: then a [Notice] names the member.
func (r *Round) Heard(member string, term uint64) {
	if old, known := r.heard[member]; !known && len(r.heard) == maxHeard || term <= old {
		return
	}
	r.heard[member] = term
}

// Resume returns the guard of a job whose holder was restarted and has kept its term, or a
// [LostError] if the holder no longer has the round, or its time is over. If an earlier
// run still has a guard, that guard changes nothing from then on.
func (r *Round) Resume(ctx context.Context, term uint64) (*Guard, error) {
	switch {
	case r.open != nil:
		return nil, fmt.Errorf("round %s: %w", r.c.Name, ErrHolding)
	case r.c.Office:
		return nil, fmt.Errorf("round %s: an office cannot be resumed; acquire it anew", r.c.Name)
	}
	is, err := r.read(ctx, callTimeout)
	if err != nil {
		return nil, fmt.Errorf("round %s: %w", r.c.Name, err)
	}
	if is.finding != held || is.rec.State != Running || is.rec.Term != term || is.rec.Holder != r.c.Holder {
		return nil, &LostError{Round: r.c.Name, Term: term, Record: is.rec}
	}
	now := r.c.Clock()
	g := &Guard{round: r, rec: is.rec, rev: is.Rev}
	rec := is.rec
	rec.Run = r.c.Run
	if err := g.write(ctx, rec, callTimeout); err != nil {
		return nil, err
	}
	return r.guard(g.rec, g.rev, now.Mono-max(now.Wall.Sub(rec.Acquired), 0)), nil
}
