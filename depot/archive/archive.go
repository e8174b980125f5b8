// Package archive is shares with their leases as one stream, a tar, for another depot. It promises
// nothing to outsiders. docs/formats.md has the format; [Writer] writes it, and [Reader] reads it
// without trusting it.
//
//	depot.json            version, name of the depot, time
//	accounts.json         who holds leases
//	shares/ID/leases.json of each share, in the order of IDs
//	shares/ID/manifest
//	shares/ID/data        the bytes of its files, one file after the other
//	end.json              how many shares there are; a stream without it was cut
package archive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

const (
	format  = "fetcher depot"
	version = 1

	maxHead = 4 << 10  // bytes of depot.json and end.json
	maxList = 16 << 20 // bytes of accounts.json, and of leases.json
	maxName = 256      // bytes of the name of an account
)

// Head is how a stream begins.
type Head struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Depot   string    `json:"depot"` // the name in its folder
	At      time.Time `json:"at"`    // by its clock
}

// Account is an account that holds leases.
type Account struct {
	Name     string   `json:"name"`
	Keys     []string `json:"keys"` // peer IDs
	Quota    int64    `json:"quota"`
	MaxLease int64    `json:"max_lease_seconds"`
	Paid     bool     `json:"paid"`     // its leases cost passes
	Stranger bool     `json:"stranger"` // the depot's owner did not make it
}

// Lease is a lease of a share, by the name of its account.
type Lease struct {
	Account string    `json:"account"`
	Expires time.Time `json:"expires"` // in whole seconds
}

type end struct {
	Shares  int `json:"shares"`
	LeftOut int `json:"left_out"` // shares with leases that are not in it, as they are not whole
}

var (
	// ErrFormat means that a stream is not an export of a depot that this program can read.
	ErrFormat = errors.New("this is not an export of a depot")
	// ErrCut means that a stream has no end: what came before is good.
	ErrCut = errors.New("this is not an export of a depot, or was cut short while it was written")
	// ErrDamaged means that the data of a share is not what its manifest says.
	ErrDamaged = errors.New("its data is damaged")
)

// Writer writes a stream.
type Writer struct {
	t      *tar.Writer
	at     time.Time
	shares int
}

// NewWriter begins a stream with all accounts that hold leases.
func NewWriter(w io.Writer, depot string, at time.Time, accounts []Account) (*Writer, error) {
	x := &Writer{t: tar.NewWriter(w), at: at}
	if err := x.json("depot.json", Head{format, version, depot, at.UTC().Truncate(time.Second)}); err != nil {
		return nil, err
	}
	return x, x.json("accounts.json", append([]Account{}, accounts...))
}

func (w *Writer) json(name string, v any) error {
	b, err := json.MarshalIndent(v, "", " ")
	if err == nil && len(b) >= maxList {
		err = words.Error(share.ErrLimit, "%s takes %d bytes, and a depot reads at most %d", name, len(b)+1, maxList)
	}
	if err != nil {
		return err
	}
	return w.entry(name, int64(len(b)+1), func() error {
		_, err := w.t.Write(append(b, '\n'))
		return err
	})
}

// entry writes an entry of that many bytes. The format of GNU has room for each length.
func (w *Writer) entry(name string, size int64, write func() error) error {
	if err := w.t.WriteHeader(&tar.Header{Name: name, Size: size, Mode: 0o600, ModTime: w.at, Format: tar.FormatGNU}); err != nil {
		return err
	}
	return write()
}

// Share writes the next share, whose ID is above that of the one before. read fills a buffer with a
// piece; if it cannot, what is in the buffer is written, and whoever reads it finds that it is wrong.
func (w *Writer) Share(m *share.Manifest, all []Lease, read func(p share.Piece, buf []byte)) error {
	at, l := "shares/"+m.ID().String()+"/", m.Layout()
	if err := w.json(at+"leases.json", append([]Lease{}, all...)); err != nil {
		return err
	}
	if err := w.entry(at+"manifest", int64(len(m.Bytes())), func() error {
		_, err := w.t.Write(m.Bytes())
		return err
	}); err != nil {
		return err
	}
	w.shares++
	return w.entry(at+"data", l.Bytes(), func() error {
		var buf []byte
		for p := share.Piece(0); int(p) < l.Pieces(); p++ {
			n := l.PieceLen(p)
			if cap(buf) < n {
				buf = make([]byte, n)
			}
			read(p, buf[:n])
			if _, err := w.t.Write(buf[:n]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close ends the stream, from which that many shares with leases were left out. It does not close
// what it writes to.
func (w *Writer) Close(leftOut int) error {
	if err := w.json("end.json", end{w.shares, leftOut}); err != nil {
		return err
	}
	return w.t.Close()
}

// Reader reads a stream.
type Reader struct {
	Head     Head
	Accounts []Account
	LeftOut  int // after the last share: how many with leases are not in it, as they are not whole

	t      *tar.Reader
	last   share.ID
	shares int
}

// NewReader reads the beginning of a stream. A stream of another version is refused.
func NewReader(r io.Reader) (*Reader, error) {
	x := &Reader{t: tar.NewReader(r)}
	name, size, err := x.next()
	if err != nil {
		return nil, err
	}
	if name != "depot.json" {
		return nil, ErrFormat
	}
	if err := x.json(name, size, &x.Head); err != nil {
		return nil, err
	}
	if x.Head.Format != format {
		return nil, ErrFormat
	}
	if x.Head.Version != version {
		return nil, fmt.Errorf("%w that this program can read: it has version %d, and this program knows version %d; use the fetcher that wrote it, or a newer one", ErrFormat, x.Head.Version, version)
	}
	name, size, err = x.next()
	if err == nil && name != "accounts.json" {
		err = fmt.Errorf("%w: it has %q in the place of accounts.json", ErrFormat, name)
	}
	if err == nil {
		x.Accounts, err = list(x, name, size, func(a Account) bool { return named(a.Name) })
	}
	return x, err
}

func named(account string) bool { return account != "" && len(account) <= maxName }

// list reads a list, up to the first item that is not good.
func list[T any](r *Reader, name string, size int64, good func(T) bool) (out []T, err error) {
	b, err := r.all(name, size, maxList)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, fmt.Errorf("%w: %s is not a list", ErrFormat, name)
	}
	for d.More() {
		var v T
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("%w: item %d of %s cannot be read (%v)", ErrFormat, len(out)+1, name, err)
		} else if !good(v) {
			return nil, fmt.Errorf("%w: item %d of %s is not valid", ErrFormat, len(out)+1, name)
		}
		out = append(out, v)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	return out, nil
}

// next returns the name and the length of the next entry, a plain file.
func (r *Reader) next() (name string, size int64, err error) {
	h, err := r.t.Next()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "", 0, ErrCut
	case errors.Is(err, tar.ErrHeader), errors.Is(err, tar.ErrFieldTooLong):
		return "", 0, ErrFormat
	case err != nil:
		return "", 0, err
	case h.Typeflag != tar.TypeReg || len(h.PAXRecords) > 0: // a sparse file could be endless
		return "", 0, fmt.Errorf("%w: %q is not a plain file", ErrFormat, h.Name)
	}
	return h.Name, h.Size, nil
}

func (r *Reader) json(name string, size int64, v any) error {
	b, err := r.all(name, size, maxHead)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	return nil
}

// all reads an entry.
func (r *Reader) all(name string, size, most int64) ([]byte, error) {
	if size > most {
		return nil, fmt.Errorf("%w: %s has %d bytes, and may have at most %d", ErrFormat, name, size, most)
	}
	b, err := io.ReadAll(r.t) // the length in the header is not believed
	return b, cut(err)
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrCut
	}
	return err
}

// A Share is the next share of a stream. Its data follows: see Piece.
type Share struct {
	Manifest *share.Manifest
	Leases   []Lease
}

// Next returns the next share; io.EOF after the last, and ErrCut if there is no end.
func (r *Reader) Next() (s Share, err error) {
	name, size, err := r.next()
	if err != nil {
		return s, err
	}
	if name == "end.json" {
		var e end
		if err := r.json(name, size, &e); err != nil {
			return s, err
		}
		if e.Shares != r.shares {
			return s, fmt.Errorf("%w: it has %s, and says that it has %d", ErrFormat, words.Count(r.shares, "share"), e.Shares)
		}
		r.LeftOut = e.LeftOut
		return s, io.EOF
	}
	return r.share(name, size)
}

// longest is the latest end of a lease that makes sense.
var longest = time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC)

func (r *Reader) share(name string, size int64) (s Share, err error) {
	text, _ := strings.CutSuffix(strings.TrimPrefix(name, "shares/"), "/leases.json")
	id, err := share.ParseID(text)
	at := "shares/" + id.String() + "/"
	if err != nil || name != at+"leases.json" {
		return s, fmt.Errorf("%w: %q is in the place of the leases of a share", ErrFormat, name)
	}
	if !r.last.IsZero() && id.Compare(r.last) <= 0 {
		return s, fmt.Errorf("%w: its shares are out of order: %v comes after %v", ErrFormat, id, r.last)
	}
	all, err := list(r, name, size, func(l Lease) bool { return named(l.Account) && l.Expires.Unix() > 0 && l.Expires.Before(longest) })
	if err != nil {
		return s, err
	}
	name, size, err = r.next()
	if err != nil {
		return s, err
	}
	if name != at+"manifest" {
		return s, fmt.Errorf("%w: it has %q in the place of %smanifest", ErrFormat, name, at)
	}
	b, err := r.all(name, size, share.MaxManifest)
	if err != nil {
		return s, err
	}
	if share.IDOf(b) != id {
		return s, fmt.Errorf("%w: the list of files of %v is that of another share", ErrFormat, id)
	}
	m, err := share.DecodeManifest(b)
	if err != nil {
		return s, fmt.Errorf("%w: the list of files of %v: %w", ErrFormat, id, err)
	}
	name, size, err = r.next()
	if err != nil {
		return s, err
	}
	if name != at+"data" || size != m.Layout().Bytes() {
		return s, fmt.Errorf("%w: it has %q, of %d bytes, where the data of %v, of %d bytes, should be", ErrFormat, name, size, id, m.Layout().Bytes())
	}
	r.last, r.shares = id, r.shares+1
	return Share{m, all}, nil
}

// Piece reads the next piece of the data, which begins with the first, and checks it. It
// returns the hashes of its blocks.
func (r *Reader) Piece(m *share.Manifest, p share.Piece, buf []byte) ([]share.Hash, error) {
	if _, err := io.ReadFull(r.t, buf); err != nil {
		return nil, cut(err)
	}
	s := m.Layout().PieceSpan(p)
	_, pieces := m.Layout().PiecesOf(s.Entry)
	values, value := share.HashPiece(nil, buf, s.Offset, pieces == 1)
	if value != m.PieceValue(p) {
		return nil, fmt.Errorf("%v, piece %d: %w", m.ID(), p, ErrDamaged)
	}
	return values, nil
}
