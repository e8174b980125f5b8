package transfer

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Files may be read while they are fetched. Nobody waits with a goroutine of ours:
// a reader says where it is, and is answered when the byte there is verified. It reads
// the bytes themselves from the store.
//
//	reader ──OpenReader──► Transfer
//	       ◄─ReaderOpened─    │
//	       ──MoveReader──►    │ ──Steer──► LeaseManager   where it is, and how far it will read
//	       ◄─ReaderReady──    │   when a block there is verified, or never will be
//	       ──CloseReader─►    │

// ErrCrowded says that many have come since to wait for the share to be open: whoever still waits asks again.
var ErrCrowded = errors.New("too many wait for the share to be open")

// ErrSkipped says that a file cannot be read because it was not chosen.
var ErrSkipped = errors.New("the file is not selected to be fetched")

const (
	maxAhead    = 256 // pieces; more than a LeaseManager looks at
	maxOpenings = 1 << 12
)

// readers are all readers of files.
type readers struct {
	*core
	content  *content
	list     []*reader
	openings []opening // that came before the share was open
	last     leasemgr.Reader
	left     bool // see Abandon
}

// reader is one reader of a file.
type reader struct {
	id    leasemgr.Reader
	from  peers.Port // who opened it
	entry int
	at    int64      // offset of the byte it is at; -1 before it has read anything
	ahead int64      // bytes it will read soon
	waits peers.Port // to be told of the byte at at; zero: nobody

	piece share.Piece // what the LeaseManager was told last
	n     int
}

func (r *reader) waiting() bool { return r.waits != peers.Port{} }

// opening is an OpenReader that came before the share was open.
type opening struct {
	from peers.Port
	path string
}

// admitAll answers the readers that came before the share was open, and those that
// have been waiting since before it was opened anew.
func (x *readers) admitAll() {
	for _, r := range x.list {
		x.serve(r)
	}
	for _, o := range x.openings {
		x.admit(o)
	}
	x.openings = nil
}

func (x *readers) admit(o opening) {
	entry, err := x.readable(o.path)
	if err != nil {
		x.then(ReaderOpened{To: o.from, Err: err})
		return
	}
	x.last++
	x.list = append(x.list, &reader{id: x.last, from: o.from, entry: entry, at: -1})
	x.then(ReaderOpened{To: o.from, Reader: x.last, Entry: entry})
}

// readable is the entry of a file that can be read.
func (x *readers) readable(path string) (int, error) {
	i, ok := x.content.manifest.Find(path)
	if !ok {
		return 0, fmt.Errorf("%q: %w in the share", path, fs.ErrNotExist)
	}
	switch e := x.content.manifest.Entry(i); {
	case e.Kind == share.Symlink:
		return 0, fmt.Errorf("%q is a link to %q: %w", path, e.Target, fs.ErrInvalid)
	case e.Kind != share.File:
		return 0, fmt.Errorf("%q is a folder: %w", path, fs.ErrInvalid)
	case !x.content.chosen.wants(i):
		return 0, fmt.Errorf("%q: %w", path, ErrSkipped)
	}
	return i, nil
}

// unheard closes a reader whose opener has not waited for it.
func (x *readers) unheard(who peers.Port) {
	for _, r := range x.list {
		if r.from == who {
			x.close(r.id)
			return
		}
	}
}

func (x *readers) move(id leasemgr.Reader, off, ahead int64, waits peers.Port) {
	i := slices.IndexFunc(x.list, func(r *reader) bool { return r.id == id })
	if i < 0 {
		if waits != (peers.Port{}) {
			x.then(ReaderReady{To: waits, Err: ErrFinishing})
		}
		return
	}
	r := x.list[i]
	r.at, r.ahead, r.waits = off, ahead, waits
	x.steer(r)
	x.serve(r)
}

func (x *readers) close(id leasemgr.Reader) {
	n := len(x.list)
	x.list = slices.DeleteFunc(x.list, func(r *reader) bool { return r.id == id })
	if len(x.list) < n {
		x.toLeases(DropReader{id})
	}
}

// steer tells the LeaseManager what a reader needs next, if that has changed.
func (x *readers) steer(r *reader) {
	size := x.content.manifest.Entry(r.entry).Size
	if r.at < 0 || r.at >= size || !x.content.chosen.wants(r.entry) {
		x.steerTo(r, 0, 0)
		return
	}
	l := x.content.manifest.Layout()
	p, _ := l.At(r.entry, r.at)
	last, _ := l.At(r.entry, r.at+min(max(r.ahead, 1), size-r.at)-1)
	x.steerTo(r, p, min(int(last-p)+1, maxAhead))
}

func (x *readers) steerTo(r *reader, p share.Piece, n int) {
	if r.piece != p || r.n != n {
		r.piece, r.n = p, n
		x.toLeases(Steer{r.id, p, n})
	}
}

// steerAll tells a new LeaseManager of all readers.
func (x *readers) steerAll() {
	for _, r := range x.list {
		r.n = 0
		x.steer(r)
	}
}

// serve answers a reader that waits if the block it waits for is verified, or its file is not chosen any more.
func (x *readers) serve(r *reader) {
	if !r.waiting() {
		return
	}
	if !x.content.chosen.wants(r.entry) {
		x.refuse(r, fmt.Errorf("%q: %w", x.content.manifest.Entry(r.entry).Path, ErrSkipped))
		r.waits = peers.Port{}
		return
	}
	if end := x.content.verifiedTo(r.entry, r.at); end > r.at || r.at >= x.content.manifest.Entry(r.entry).Size {
		x.then(ReaderReady{To: r.waits, End: end})
		r.waits = peers.Port{}
	}
}

// serveAll serves the readers that wait for a piece when some of it came.
func (x *readers) serveAll(p share.Piece) {
	for _, r := range x.list {
		if r.waiting() && r.piece == p {
			x.serve(r)
		}
	}
}

// rechosen has what the readers need follow the choice.
func (x *readers) rechosen() {
	for _, r := range x.list {
		x.steer(r)
		x.serve(r)
	}
}

// dropAll ends all readers: what they wait for will not come from here.
func (x *readers) dropAll() {
	for _, o := range x.openings {
		x.then(ReaderOpened{To: o.from, Err: ErrFinishing})
	}
	for _, r := range x.list {
		x.refuse(r, ErrFinishing)
	}
	x.openings, x.list = nil, nil
}

// Abandon ends all readers, and those to come, of a transfer whose owner goes before the end, as after a bug: nothing else of it can be
// relied on. It returns the answers that are owed, each a ReaderOpened or a ReaderReady.
func (x *readers) Abandon() (answers []any) {
	x.left = true
	x.dropAll()
	for _, a := range x.do {
		switch a.(type) {
		case ReaderOpened, ReaderReady:
			answers = append(answers, a)
		}
	}
	x.do = nil
	return answers
}

func (x *readers) refuse(r *reader, err error) {
	if r.waiting() {
		x.then(ReaderReady{To: r.waits, Err: err})
	}
}
