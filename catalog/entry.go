package catalog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/piecelease/fetcher/share"
)

// ID names an entry for as long as the database lives; no ID is used twice.
type ID int64

// Kind is what an entry is about.
type Kind uint8

// The kinds.
const (
	Serve Kind = iota + 1 // paths of this machine, served from where they are
	Fetch                 // a share to be fetched, and served afterwards
)

func (k Kind) String() string { return name(kinds, int(k)) }

// State is the state of an entry.
type State uint8

// The states. Whether an entry is paused is part of its Wish.
const (
	Asked   State = iota + 1 // not done yet: its files are still to be read, or it is being fetched
	Serving                  // Serve: it is served
	Kept                     // Fetch: all that was chosen is here, and is served
	Ended                    // Fetch: it is here, and was served for as long as was asked
	Missing                  // its files are not on the disk, or are not as they were
	Failed                   // it cannot go on without its owner
)

func (s State) String() string { return name(states, int(s)) }

var (
	kinds  = []string{"", "serve", "fetch"}
	states = []string{"", "asked", "serving", "kept", "ended", "missing", "failed"}
)

func name(of []string, i int) string {
	if i < len(of) {
		return of[i]
	}
	return fmt.Sprint(i)
}

// Entry is one line of the catalog.
type Entry struct {
	ID    ID
	Kind  Kind
	Added time.Time
	Wish
	Status
}

// Wish is what the owner asked for. Fields before the empty line never change for an
// entry.
type Wish struct {
	Paths   []string `json:"paths,omitempty"`   // Serve: absolute; one, or several and a name
	Exclude []string `json:"exclude,omitempty"` // Serve: patterns of what is left out
	Links   string   `json:"links,omitempty"`   // Serve: what to do with symbolic links; empty: keep them
	Name    string   `json:"name,omitempty"`    // Serve: the name of the share; empty: that of the path
	Source  string   `json:"source,omitempty"`  // Fetch: a ticket or a share ID
	Dir     string   `json:"dir,omitempty"`     // Fetch: the folder it is put into, absolute
	Secret  bool     `json:"secret,omitempty"`  // Serve: give it only to peers that know the secret of its ticket
	Called  bool     `json:"called,omitempty"`  // Fetch: a source connects to the node, and none need be known

	Fleet     bool          `json:"fleet,omitempty"`      // Fetch: it is here because the node's fleet has it
	Visible   string        `json:"visible,omitempty"`    // where the share is announced: "lan" or "public"; empty: nowhere
	Repair    bool          `json:"repair,omitempty"`     // Fetch: replace what differs in Dir, until the share is here
	Peers     []string      `json:"peers,omitempty"`      // Fetch: further sources, multiaddrs
	Only      []string      `json:"only,omitempty"`       // Fetch: patterns of what to fetch; none: all
	Skip      []string      `json:"skip,omitempty"`       // Fetch: patterns of what to leave out
	Earlier   []Choice      `json:"earlier,omitempty"`    // Fetch: what Only and Skip were before, the newest last; kept by the catalog
	First     []string      `json:"first,omitempty"`      // Fetch: patterns of what to fetch before the rest
	Priority  int           `json:"priority,omitempty"`   // from -1, low, to 1, high
	Paused    bool          `json:"paused,omitempty"`     // nothing is done for it
	SeedRatio float64       `json:"seed_ratio,omitempty"` // Fetch: serve on until this many times its size was sent; 0: no limit
	SeedTime  time.Duration `json:"seed_time,omitempty"`  // Fetch: serve on for this long; 0: no limit
	Up        int64         `json:"up,omitempty"`         // bytes per second sent to others; 0: no limit of its own
	Down      int64         `json:"down,omitempty"`       // Fetch: bytes per second requested; 0: no limit of its own
}

// Choice is what is chosen of a share: all, or what matches a pattern of Only, without what matches one of Skip.
type Choice struct {
	Only []string `json:"only,omitempty"`
	Skip []string `json:"skip,omitempty"`
}

// chose keeps the choice before as an earlier one, once, and forgets the oldest if they are too many or too large.
func (w *Wish) chose(before Choice) {
	same := func(c Choice) bool { return slices.Equal(c.Only, before.Only) && slices.Equal(c.Skip, before.Skip) }
	w.Earlier = append(slices.DeleteFunc(slices.Clone(w.Earlier), same), before)
	size := 0
	for i, c := range slices.Backward(w.Earlier) {
		for _, s := range slices.Concat(c.Only, c.Skip) {
			size += len(s)
		}
		if len(w.Earlier)-i > maxEarlier || size > maxWish/8 {
			w.Earlier = w.Earlier[i+1:]
			return
		}
	}
}

// Status is what has become of an entry.
type Status struct {
	State    State
	Why      string    // a sentence, for Missing, Failed and Ended; may be empty
	Since    time.Time // of the state
	Share    share.ID  // zero until it is known
	Title    string    // the name of the share; empty until it is known
	Listed   string    // Fetch: its name if nothing of it could be planned: a Title says that something here is the entry's own
	Path     string    // Fetch: where the share is, once it is Kept or Ended
	Bytes    int64     // of the share, or of what was chosen of it
	Files    int
	Done     time.Time // Fetch: when it was complete; zero before
	Sent     int64     // bytes of its content sent to others
	Verified int64     // Fetch: bytes of it that were here when it was last stopped; Bytes once it is Kept
	Found    bool      // Fetch: some of it was in Dir before: this node has not made all that is there now
	Guarded  bool      // Fetch: its sources gave it only to peers that know the secret of its ticket
	Older    []share.ID
	Mounts   []string // where disks were mounted that its files were on, and not on that of the folder above
}

// Limits of an entry. They are far above what people need.
const (
	MaxEntries = 100_000
	MaxOlder   = 16 // earlier versions that are remembered
	maxEarlier = 64 // earlier choices that are remembered

	maxText = 16 << 10 // bytes of one text
	maxList = 1 << 10  // texts in a list
	maxWish = 1 << 20  // bytes of a wish
	maxWhy  = 4 << 10
)

// Errors that callers branch on.
var (
	ErrNoEntry = errors.New("there is no such entry")
	ErrTwice   = errors.New("the catalog has that already")
	ErrFull    = fmt.Errorf("the catalog has %d entries, and takes no more; remove some", MaxEntries)
)

// kind is Serve or Fetch.
func (w *Wish) kind() Kind {
	if len(w.Paths) > 0 {
		return Serve
	}
	return Fetch
}

// Check returns an error that says what is wrong with a wish.
func (w *Wish) Check() error {
	if err := w.sized(); err != nil {
		return err
	}
	switch {
	case w.Priority < -1 || w.Priority > 1:
		return fmt.Errorf("a priority is from -1 to 1, not %d", w.Priority)
	case w.Visible != "" && w.Visible != "lan" && w.Visible != "public":
		return fmt.Errorf("a share is private, or visible to the lan or the public, not to %q", w.Visible)
	case !(w.SeedRatio >= 0 && w.SeedRatio <= 1e6):
		return fmt.Errorf("a seed ratio is from 0 to 1,000,000, not %s", strconv.FormatFloat(w.SeedRatio, 'f', -1, 64))
	case w.SeedTime < 0 || w.SeedTime > 100*366*24*time.Hour:
		return errors.New("a seed time is from 0 to 100 years")
	case !isRate(w.Up) || !isRate(w.Down):
		return fmt.Errorf("a limit is from %d to %d bytes per second, or 0 for none, not %d up and %d down", minRate, int64(maxRate), w.Up, w.Down)
	}
	var exclude []string
	for _, s := range w.Exclude { // a slash in front ties a pattern to the top
		exclude = append(exclude, strings.TrimPrefix(s, "/"))
	}
	if err := patterns(w.Only, w.Skip, w.First, exclude); err != nil {
		return err
	}
	if w.kind() == Serve {
		return w.checkServe()
	}
	return w.checkFetch()
}

// The range of limits, in bytes per second.
const (
	minRate = 1 << 10
	maxRate = 1 << 50
)

func isRate(n int64) bool { return n == 0 || n >= minRate && n <= maxRate }

func patterns(lists ...[]string) error {
	for _, list := range lists {
		if _, err := share.ParseGlobs(list); err != nil {
			return err
		}
	}
	return nil
}

func (w *Wish) checkServe() error {
	for i, p := range w.Paths {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("a path to serve must be absolute, not %q", p)
		}
		name := filepath.Base(p)
		if j := slices.IndexFunc(w.Paths[:i], func(q string) bool { return filepath.Base(q) == name }); j >= 0 {
			return fmt.Errorf("%s and %s would both be %q in the share; rename one of them", w.Paths[j], p, name)
		}
	}
	switch {
	case len(w.Paths) > 1 && w.Name == "":
		return errors.New("a share of several files or folders needs a name")
	case w.Links != "" && !slices.Contains([]string{"keep", "skip", "refuse"}, w.Links):
		return fmt.Errorf("links are kept, skipped or refused, not %q", w.Links)
	case w.Source != "" || w.Dir != "":
		return errors.New("an entry is either paths to serve or a share to fetch, not both")
	case w.Fleet || w.Called || w.Repair || len(w.Peers)+len(w.Only)+len(w.Skip)+len(w.First) > 0 || w.SeedRatio != 0 || w.SeedTime != 0 || w.Down != 0:
		return errors.New("an entry that serves paths takes no settings for a fetch, such as only, seed_ratio or limit_down")
	}
	return nil
}

func (w *Wish) checkFetch() error {
	if _, err := share.Parse(w.Source); err != nil {
		return err
	}
	for _, p := range w.Peers {
		a, err := share.ParseAddr(p)
		if err == nil && (len(a) == 0 || a.Protocols()[len(a)-1].Name != "p2p") {
			err = errors.New("it does not end in /p2p/ID")
		}
		if err != nil {
			return fmt.Errorf("%q is not the address of a peer: %v", p, err)
		}
	}
	switch {
	case !filepath.IsAbs(w.Dir):
		return fmt.Errorf("the folder to put a share into must be absolute, not %q", w.Dir)
	case w.Secret:
		return errors.New("a secret is for paths that are served: what is fetched keeps the secret of its ticket")
	case w.Name != "" || w.Links != "" || len(w.Exclude) > 0:
		return errors.New("an entry that fetches a share takes no name, links or exclude: those are for paths that are served")
	}
	return nil
}

// sized checks the size of every text and list.
func (w *Wish) sized() error {
	texts := []string{w.Links, w.Name, w.Source, w.Dir}
	for _, list := range [][]string{w.Paths, w.Exclude, w.Peers, w.Only, w.Skip, w.First} {
		if len(list) > maxList {
			return fmt.Errorf("an entry takes at most %d paths, patterns or addresses of each kind, not %d", maxList, len(list))
		}
		texts = append(texts, list...)
	}
	all := 0
	for _, t := range texts {
		all += len(t)
		if len(t) > maxText || strings.ContainsRune(t, 0) || !utf8.ValidString(t) {
			return fmt.Errorf("a path, pattern or address must be UTF-8 of at most %d bytes", maxText)
		}
	}
	if all > maxWish/2 {
		return fmt.Errorf("the name, paths, patterns and addresses of an entry have at most %d bytes together, not %d", maxWish/2, all)
	}
	return nil
}

// key identifies the wish: no two entries may have the same key.
func (w *Wish) key() string {
	if w.kind() == Serve {
		return strings.Join(append([]string{"serve", w.Name}, w.Paths...), "\x00")
	}
	t, err := share.Parse(w.Source)
	if err != nil { // cannot happen: Check has read it
		return w.Source
	}
	return strings.Join([]string{"fetch", t.ID.String(), w.Dir}, "\x00")
}
