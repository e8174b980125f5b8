package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

var at = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// made is a share of one file, and its content.
func made(t testing.TB, name string, n int) (*share.Manifest, []byte) {
	t.Helper()
	content := bytes.Repeat([]byte(name), n/len(name)+1)[:n]
	e := share.Entry{Path: name, Size: int64(n), PieceExp: share.PieceExp(int64(n))}
	var values []share.Hash
	for off := 0; off < n; off += share.MinPiece {
		_, v := share.HashPiece(nil, content[off:min(off+share.MinPiece, n)], int64(off), n <= share.MinPiece)
		values = append(values, v)
	}
	if e.Root = share.FileRoot(values); len(values) > 1 {
		e.Pieces = values
	}
	m, err := share.NewManifest(name, []share.Entry{e})
	if err != nil {
		t.Fatal(err)
	}
	return m, content
}

var accounts = []Account{{Name: "anna", Keys: []string{"k1", "k2"}, Quota: 1e9, MaxLease: 86400, Paid: true}, {Name: "k3", Keys: []string{"k3"}, Stranger: true}}

// stream has three shares, of which one has no bytes.
func stream(t testing.TB) ([]byte, map[share.ID]*share.Manifest) {
	t.Helper()
	type one struct {
		m *share.Manifest
		b []byte
	}
	var all []one
	of := map[share.ID]*share.Manifest{}
	for name, n := range map[string]int{"film": share.MinPiece + 5, "note": 7, "empty": 0} {
		m, b := made(t, name, n)
		all, of[m.ID()] = append(all, one{m, b}), m
	}
	slices.SortFunc(all, func(a, b one) int { return a.m.ID().Compare(b.m.ID()) })
	var buf bytes.Buffer
	w, err := NewWriter(&buf, "depot-1", at, accounts)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		if err := w.Share(x.m, []Lease{{"anna", at.Add(time.Hour)}, {"starter", at.Add(time.Minute)}}, func(p share.Piece, buf []byte) {
			copy(buf, x.b[x.m.Layout().PieceSpan(p).Offset:])
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(4); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes(), of
}

// readAll reads a stream with all its data, and returns how many shares were whole.
func readAll(b []byte) (r *Reader, all []Share, err error) {
	if r, err = NewReader(bytes.NewReader(b)); err != nil {
		return r, nil, err
	}
	for {
		s, err := r.Next()
		if err != nil {
			return r, all, err
		}
		for p := range s.Manifest.Layout().Pieces() {
			if _, err := r.Piece(s.Manifest, share.Piece(p), make([]byte, s.Manifest.Layout().PieceLen(share.Piece(p)))); err != nil {
				return r, all, err
			}
		}
		all = append(all, s)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	b, of := stream(t)
	r, all, err := readAll(b)
	if err != io.EOF || len(all) != len(of) || r.LeftOut != 4 {
		t.Fatal(len(all), r.LeftOut, err)
	}
	if want := (Head{format, version, "depot-1", at}); r.Head != want || !reflect.DeepEqual(r.Accounts, accounts) {
		t.Errorf("%+v %+v", r.Head, r.Accounts)
	}
	for _, s := range all {
		if want := []Lease{{"anna", at.Add(time.Hour)}, {"starter", at.Add(time.Minute)}}; of[s.Manifest.ID()] == nil || !reflect.DeepEqual(s.Leases, want) {
			t.Errorf("%+v", s)
		}
	}
}

// A stream that was cut anywhere is known as such, and the shares that are whole in it are good.
func TestACutStreamIsKnownAsSuch(t *testing.T) {
	b, of := stream(t)
	last := 0
	step := 499
	for n := 0; n < len(b)-2048; n += step { // up to so many bytes follow the end
		if step = 499; n > 10_000 && n < len(b)-220_000 {
			step = 200_003 // the most of it is one film
		}
		_, all, err := readAll(b[:n])
		if !errors.Is(err, ErrCut) || len(all) < last || len(all) > len(of) {
			t.Fatalf("%d of %d bytes: %d shares, %v", n, len(b), len(all), err)
		}
		last = len(all)
	}
	if last != len(of) {
		t.Errorf("%d shares at last", last)
	}
}

// edited is the stream with one entry changed.
func edited(t *testing.T, change func(h *tar.Header, b []byte) []byte) []byte {
	b, _ := stream(t)
	in := tar.NewReader(bytes.NewReader(b))
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for {
		h, err := in.Next()
		if err != nil {
			w.Close()
			return out.Bytes()
		}
		all, _ := io.ReadAll(in)
		all = change(h, all)
		h.Size = int64(len(all))
		if h.Typeflag != tar.TypeReg {
			h.Size, all = 0, nil
		}
		if w.WriteHeader(h) != nil {
			t.Fatal(h)
		}
		w.Write(all)
	}
}

func TestAStreamIsNotBelieved(t *testing.T) {
	for what, x := range map[string]struct {
		at, from, to string
		want         error
	}{
		"another version":      {"depot.json", `"version": 1`, `"version": 2`, ErrFormat},
		"another format":       {"depot.json", "fetcher depot", "whatever", ErrFormat},
		"no name":              {"accounts.json", `"anna"`, `""`, ErrFormat},
		"a long name":          {"accounts.json", `"anna"`, `"` + strings.Repeat("a", 300) + `"`, ErrFormat},
		"no account":           {"accounts.json", `"anna"`, `7`, ErrFormat},
		"no list":              {"accounts.json", "[", "{", ErrFormat},
		"a lease of nobody":    {"leases.json", `"anna"`, `""`, ErrFormat},
		"a lease for ever":     {"leases.json", "2026-05-04T04", "9999-05-04T04", ErrFormat},
		"a lease of long ago":  {"leases.json", "2026-05-04T04", "1926-05-04T04", ErrFormat},
		"another manifest":     {"manifest", "film", "filn", ErrFormat},
		"other data":           {"data", "film", "filn", ErrDamaged},
		"less data":            {"data", "note", "no", ErrFormat},
		"a share that is lost": {"end.json", `"shares": 3`, `"shares": 4`, ErrFormat},
	} {
		b := edited(t, func(h *tar.Header, b []byte) []byte {
			if strings.HasSuffix(h.Name, x.at) {
				return bytes.Replace(b, []byte(x.from), []byte(x.to), 1)
			}
			return b
		})
		if _, _, err := readAll(b); !errors.Is(err, x.want) || strings.Contains(err.Error(), "nil") {
			t.Errorf("%s: %v, want %v", what, err, x.want)
		}
	}
	for what, change := range map[string]func(*tar.Header){
		"a link":         func(h *tar.Header) { h.Typeflag, h.Linkname = tar.TypeSymlink, "/etc/passwd" },
		"another path":   func(h *tar.Header) { h.Name = "../" + h.Name },
		"a PAX record":   func(h *tar.Header) { h.Format, h.PAXRecords = tar.FormatPAX, map[string]string{"X.y": "z"} },
		"the same twice": func(h *tar.Header) { h.Name = "depot.json" },
	} {
		for _, at := range []string{"accounts.json", "leases.json", "manifest", "data", "end.json"} {
			b := edited(t, func(h *tar.Header, b []byte) []byte {
				if strings.HasSuffix(h.Name, at) {
					change(h)
				}
				return b
			})
			if _, _, err := readAll(b); !errors.Is(err, ErrFormat) {
				t.Errorf("%s at %s: %v", what, at, err)
			}
		}
	}
	if _, err := NewReader(strings.NewReader(strings.Repeat("no tar", 1000))); !errors.Is(err, ErrFormat) || err.Error() != ErrFormat.Error() {
		t.Error(err)
	}
}

// Shares come in the order of their IDs, each once: an import can go on after one.
func TestSharesComeInOrder(t *testing.T) {
	for _, names := range [][2]string{{"a", "b"}, {"b", "a"}, {"a", "a"}} {
		var buf bytes.Buffer
		w, err := NewWriter(&buf, "d", at, nil)
		if err != nil {
			t.Fatal(err)
		}
		var ids []share.ID
		for _, n := range names {
			m, b := made(t, n, 9)
			ids = append(ids, m.ID())
			if err := w.Share(m, nil, func(_ share.Piece, buf []byte) { copy(buf, b) }); err != nil {
				t.Fatal(err)
			}
		}
		w.Close(0)
		want := error(ErrFormat)
		if ids[0].Compare(ids[1]) < 0 {
			want = io.EOF
		}
		if _, _, err := readAll(buf.Bytes()); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", names, err, want)
		}
	}
}

// A list that could not be read is not written.
func TestAListThatIsTooLongIsRefused(t *testing.T) {
	rig.Slow(t)
	many := make([]Account, 1<<18)
	for i := range many {
		many[i].Name = "a name of some length"
	}
	if _, err := NewWriter(io.Discard, "d", at, many); !errors.Is(err, share.ErrLimit) {
		t.Error(err)
	}
}

func FuzzReader(f *testing.F) {
	b, _ := stream(f)
	f.Add(b)
	f.Add(b[:2000])
	f.Add([]byte("no tar"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, all, err := readAll(b)
		if err == nil || err == io.EOF && (r == nil || len(all) != r.shares) {
			t.Fatal(err)
		}
		for i := range all {
			if i > 0 && all[i].Manifest.ID().Compare(all[i-1].Manifest.ID()) <= 0 {
				t.Fatal("out of order")
			}
		}
	})
}
