package share

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ipld/go-ipld-prime/codec/dagcbor"
	"github.com/ipld/go-ipld-prime/node/basicnode"
	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/internal/rig"
)

func TestManifestSurvivesItsEncoding(t *testing.T) {
	name := rapid.StringMatching(`[a-zé漢]{1,3}`)
	rapid.Check(t, func(t *rapid.T) {
		var entries []Entry
		for i, dir := range rapid.SliceOfNDistinct(name, 0, 5, rapid.ID).Draw(t, "dirs") {
			path := dir + "/" + name.Draw(t, "name")
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				entries = append(entries, Entry{Path: dir, Kind: Dir})
			case 1:
				entries = append(entries, Entry{Path: path, Kind: Symlink, Target: "../" + name.Draw(t, "target")})
			default:
				data := pattern(rapid.SampledFrom([]int{0, 1, BlockSize + 1, MinPiece, MinPiece + 1}).Draw(t, "length"))
				e := hashFile(path, data, minPieceExp).entry
				e.Exec = i%2 == 0
				entries = append(entries, e)
			}
		}
		m, err := NewManifest("root", entries)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeManifest(m.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != "root" || got.Single() || got.ID() != m.ID() || !slices.EqualFunc(entriesIn(got), entriesIn(m), sameEntry) {
			t.Fatalf("%v became %v", entriesIn(m), entriesIn(got))
		}
		if g, w := got.Layout(), m.Layout(); g.Pieces() != w.Pieces() || g.Bytes() != w.Bytes() {
			t.Fatal("another layout")
		}
		slices.Reverse(entries)
		again, err := NewManifest("root", entries)
		if err != nil || again.ID() != m.ID() {
			t.Fatalf("entries in another order make another share: %v", err)
		}
		// Any implementation of DAG-CBOR agrees that this is its canonical form.
		nb := basicnode.Prototype.Any.NewBuilder()
		if err := dagcbor.Decode(nb, bytes.NewReader(m.Bytes())); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := dagcbor.Encode(nb.Build(), &out); err != nil || !bytes.Equal(out.Bytes(), m.Bytes()) {
			t.Fatalf("%v: go-ipld-prime writes %x, and we %x", err, out.Bytes(), m.Bytes())
		}
	})
}

func entriesIn(m *Manifest) (out []Entry) {
	for _, e := range m.Entries() {
		out = append(out, e)
	}
	return out
}

func sameEntry(a, b Entry) bool {
	pieces := slices.Equal(a.Pieces, b.Pieces)
	a.Pieces, b.Pieces = nil, nil
	return pieces && fmt.Sprint(a) == fmt.Sprint(b)
}

func TestNewManifestLeavesItsArgumentAlone(t *testing.T) {
	entries := []Entry{{Path: "b", Kind: Dir}, hashFile("a", pattern(5), minPieceExp).entry}
	entries[1].PieceExp = 0
	entries[1].Pieces = []Hash{entries[1].Root}
	m, err := NewManifest("n", entries)
	if err != nil {
		t.Fatal(err)
	}
	if entries[0].Path != "b" || entries[1].PieceExp != 0 || entries[1].Pieces == nil {
		t.Errorf("it changed %v", entries)
	}
	if e := m.Entry(0); e.Path != "a" || e.PieceExp != minPieceExp || e.Pieces != nil {
		t.Errorf("it made %v", e)
	}
}

func TestCountIsByKind(t *testing.T) {
	if files, dirs, links := example(t).Count(); files != 3 || dirs != 1 || links != 1 {
		t.Errorf("%d files, %d directories, %d links", files, dirs, links)
	}
}

func TestFileAndFolderOfTheSameNameAreDifferentShares(t *testing.T) {
	entries := []Entry{hashFile("a", pattern(5), minPieceExp).entry}
	file, err := NewManifest("a", entries)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := NewManifest("a/", entries)
	if err != nil {
		t.Fatal(err)
	}
	if !file.Single() || folder.Single() || file.ID() == folder.ID() {
		t.Errorf("file: single %v; folder: single %v; the same ID: %v", file.Single(), folder.Single(), file.ID() == folder.ID())
	}
	for _, m := range []*Manifest{file, folder} {
		if got, err := DecodeManifest(m.Bytes()); err != nil || got.Single() != m.Single() || got.Name != "a" {
			t.Errorf("%v, %v", got, err)
		}
	}
	other, err := NewManifest("b", entries)
	if err != nil || other.Single() {
		t.Errorf("a folder of another name: %v", err)
	}
}

func TestEmptyFolderIsAShare(t *testing.T) {
	m, err := NewManifest("empty", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeManifest(m.Bytes()); err != nil || got.Layout().Pieces() != 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// cbor writes by hand what no honest encoder writes.
type cbor []byte

func (b cbor) head(major byte, n uint64) cbor { return appendHead(b, major, n) }
func (b cbor) text(s string) cbor             { return appendText(b, s) }
func (b cbor) num(key string, n uint64) cbor  { return b.text(key).head(cborUint, n) }
func (b cbor) str(key, s string) cbor         { return b.text(key).text(s) }
func (b cbor) bin(key string, s []byte) cbor {
	return append(b.text(key).head(cborBytes, uint64(len(s))), s...)
}
func (b cbor) raw(key string, x ...byte) cbor { return append(b.text(key), x...) }
func (b cbor) list(key string, n uint64) cbor { return b.text(key).head(cborList, n) }
func object(keys uint64) cbor                 { return cbor{}.head(cborMap, keys) }
func top(entries ...cbor) cbor {
	b := object(4).num("v", 1).str("name", "n").raw("single", cborFalse).list("entries", uint64(len(entries)))
	for _, e := range entries {
		b = append(b, e...)
	}
	return b
}

func TestWrongManifestsAreRefused(t *testing.T) {
	var (
		r31, r32 = make([]byte, 31), EmptyRoot[:]
		dir      = object(2).num("k", 1).str("p", "d")
		empty    = object(5).num("e", 20).num("k", 0).str("p", "f").bin("r", r32).num("s", 0)
		two      = hashFile("f", pattern(MinPiece+1), minPieceExp).entry
		h        = append(two.Pieces[0][:], two.Pieces[1][:]...)
	)
	for name, good := range map[string]cbor{"nothing": top(), "a directory": top(dir), "a file": top(empty)} {
		if _, err := DecodeManifest(good); err != nil {
			t.Fatalf("the test is wrong about %s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		b    cbor
		want error
		says string
	}{
		"nothing at all":         {nil, ErrManifest, "it ends too soon"},
		"a number":               {cbor{1}, ErrManifest, "a map is missing"},
		"a list":                 {cbor{0x80}, ErrManifest, "a map is missing"},
		"null":                   {cbor{0xf6}, ErrManifest, "a map is missing"},
		"cut":                    {top(dir)[:len(top(dir))-1], ErrManifest, "it ends too soon"},
		"more behind":            {append(top(), 0), ErrManifest, "1 bytes after the last entry"},
		"a later version":        {object(1).num("v", 2), ErrManifest, "please update"},
		"a later, odd version":   {object(2).num("v", 2).raw("whatever", 0xf6), ErrManifest, "please update"},
		"version 0":              {object(1).num("v", 0), ErrManifest, "no version 0"},
		"a text for a version":   {object(1).str("v", "1"), ErrManifest, "a number is missing"},
		"no version":             {object(1).str("name", "n"), ErrManifest, `the key "v" is missing`},
		"no entries":             {object(3).num("v", 1).str("name", "n").raw("single", cborFalse), ErrManifest, `the key "entries" is missing`},
		"no name":                {object(1).num("v", 1), ErrManifest, `the key "name" is missing`},
		"an unknown key":         {object(5).num("v", 1).num("zz", 1), ErrManifest, `the key "name" is missing`},
		"keys out of order":      {object(4).str("name", "n").num("v", 1).raw("single", cborFalse).list("entries", 0), ErrManifest, `the key "v" is missing`},
		"a key twice":            {object(5).num("v", 1).num("v", 1), ErrManifest, `the key "name" is missing`},
		"a long number":          {object(4).raw("v", 0x18, 1).str("name", "n").raw("single", cborFalse).list("entries", 0), ErrManifest, "canonical"},
		"an endless map":         {cbor{0xbf}.num("v", 1), ErrManifest, "has no length"},
		"a float for a version":  {object(1).raw("v", 0xfb, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0), ErrManifest, "a number is missing"},
		"a link for a name":      {object(2).num("v", 1).raw("name", 0xd8, 42), ErrManifest, ""},
		"a flag for a name":      {object(2).num("v", 1).raw("name", cborTrue), ErrManifest, "a text string is missing"},
		"a map for a name":       {object(2).num("v", 1).raw("name", 0xa0), ErrManifest, "a text string is missing"},
		"bytes for a name":       {object(2).num("v", 1).bin("name", r32), ErrManifest, "a text string is missing"},
		"a number for an entry":  {top(cbor{1}), ErrManifest, "a map is missing"},
		"a list for an entry":    {top(cbor{0x80}), ErrManifest, "a map is missing"},
		"an empty entry":         {top(cbor{0xa0}), ErrManifest, "not the piece size"},
		"an unknown kind":        {top(object(2).num("k", 3).str("p", "d")), ErrManifest, "unknown kind"},
		"a kind of 257":          {top(object(2).num("k", 257).str("p", "d")), ErrManifest, "unknown kind"},
		"a kind of -1":           {top(object(2).raw("k", 0x20).str("p", "d")), ErrManifest, ""},
		"a size of -1":           {top(object(5).num("e", 20).num("k", 0).str("p", "f").bin("r", r32).raw("s", 0x20)), ErrManifest, "a number is missing"},
		"a size of 2^63":         {top(object(5).num("e", 20).num("k", 0).str("p", "f").bin("r", r32).num("s", 1<<63)), ErrManifest, ""},
		"3 TiB":                  {top(object(5).num("e", 24).num("k", 0).str("p", "f").bin("r", r32).num("s", 3<<40)), ErrLimit, "has 3298534883328 bytes, and a file may have at most 2199023255552 (2.2 TB)"},
		"a short root":           {top(object(5).num("e", 20).num("k", 0).str("p", "f").bin("r", r31).num("s", 0)), ErrManifest, "a root of 31 bytes"},
		"no root":                {top(object(4).num("e", 20).num("k", 0).str("p", "f").num("s", 0)), ErrManifest, "entry 0 is not in canonical form"},
		"x false":                {top(object(6).num("e", 20).num("k", 0).str("p", "f").bin("r", r32).num("s", 0).raw("x", cborFalse)), ErrManifest, "canonical"},
		"x in a directory":       {top(object(3).num("k", 1).str("p", "d").raw("x", cborTrue)), ErrManifest, "has content, and is not a file"},
		"a target in a file":     {top(object(6).num("e", 20).num("k", 0).str("p", "f").bin("r", r32).num("s", 0).str("t", "f")), ErrManifest, "is not a link"},
		"a root in a link":       {top(object(4).num("k", 2).str("p", "l").bin("r", r32).str("t", "f")), ErrManifest, "has content, and is not a file"},
		"another piece size":     {top(object(5).num("e", 21).num("k", 0).str("p", "f").bin("r", r32).num("s", 0)), ErrManifest, "piece size"},
		"a piece size of 276":    {top(object(5).num("e", 276).num("k", 0).str("p", "f").bin("r", r32).num("s", 0)), ErrManifest, "piece size"},
		"pieces of a short file": {top(object(6).num("e", 20).bin("h", r32).num("k", 0).str("p", "f").bin("r", r32).num("s", 5)), ErrManifest, "piece values: 1, where 0"},
		"half a piece value":     {top(object(6).num("e", 20).bin("h", r31).num("k", 0).str("p", "f").bin("r", r32).num("s", 5)), ErrManifest, "31 bytes of piece values"},
		"a missing piece":        {top(object(6).num("e", 20).bin("h", h[:32]).num("k", 0).str("p", "f").bin("r", two.Root[:]).num("s", MinPiece+1)), ErrManifest, "piece values: 1, where 2"},
		"no pieces":              {top(object(5).num("e", 20).num("k", 0).str("p", "f").bin("r", two.Root[:]).num("s", MinPiece+1)), ErrManifest, "piece values: 0, where 2"},
		"pieces of another root": {top(object(6).num("e", 20).bin("h", h).num("k", 0).str("p", "f").bin("r", r32).num("s", MinPiece+1)), ErrManifest, "do not give the hash of the file"},
		"entries out of order":   {top(object(2).num("k", 1).str("p", "e"), dir), ErrManifest, "out of order"},
		"an entry twice":         {top(dir, dir), ErrPath, "listed twice"},
		"a hostile path":         {top(object(2).num("k", 1).str("p", "../d")), ErrPath, `"../d" has a ".." component`},
		"a single directory":     {object(4).num("v", 1).str("name", "d").raw("single", cborTrue).list("entries", 1).with(dir), ErrManifest, "said to be a single file"},
		"a single file renamed":  {object(4).num("v", 1).str("name", "n").raw("single", cborTrue).list("entries", 1).with(empty), ErrManifest, "said to be a single file"},
		"a single nothing":       {object(4).num("v", 1).str("name", "n").raw("single", cborTrue).list("entries", 0), ErrManifest, "said to be a single file"},
		"text that is no UTF-8":  {top(object(2).num("k", 1).str("p", "\xff")), ErrPath, "not UTF-8"},
		"a deep nest":            {bytes.Repeat([]byte{0x81}, 10_000), ErrManifest, "a map is missing"},
		"a list of 2^60 entries": {object(4).num("v", 1).str("name", "n").raw("single", cborFalse).list("entries", 1<<60), ErrLimit, "2,000,000"},
		"a name of 2^60 bytes":   {object(4).num("v", 1).text("name").head(cborText, 1<<60), ErrManifest, ""},
		"a map of 2^60 keys":     {object(1 << 60), ErrManifest, ""},
		"2^60 piece values":      {top(object(1).text("h").head(cborBytes, 1<<60)), ErrManifest, ""},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := DecodeManifest(c.b)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.want) || m != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %v and %q", name, err, c.want, c.says)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%s: %d bytes allocated for %d", name, got, len(c.b))
		}
	}
}

func (b cbor) with(entry cbor) cbor { return append(b, entry...) }

func TestLimitsHaveTheirOwnSentences(t *testing.T) {
	rig.Slow(t)
	const deep = MaxPath / 2
	long := make([]Entry, 17_000) // of the longest paths: more than 64 MiB
	dirs := make([]Entry, 1000)   // more than 2,000,000 directories
	for i := range long {
		long[i] = Entry{Path: fmt.Sprintf("%06d", i) + strings.Repeat("a", MaxPath-6), Root: EmptyRoot}
	}
	for i := range dirs {
		dirs[i] = Entry{Path: fmt.Sprintf("%06d", i) + strings.Repeat("/a", deep-3), Root: EmptyRoot}
	}
	pieces := make([]Hash, MaxFilePieces)
	most := Entry{Size: MaxFileSize, Pieces: pieces, Root: FileRoot(pieces)}
	many := make([]Entry, MaxPieces/MaxFilePieces+1)
	for i := range many {
		many[i] = most
		many[i].Path = fmt.Sprint(i)
	}
	last := &many[len(many)-1] // a piece too many, and still less than 64 MiB
	last.Pieces = pieces[:MaxPieces%MaxFilePieces+1]
	last.Size, last.Root = int64(len(last.Pieces))*MinPiece, FileRoot(last.Pieces)
	for _, c := range []struct {
		name    string
		entries []Entry
		says    string
	}{
		{"a file of 2 TiB and a byte", []Entry{{Path: "f", Size: MaxFileSize + 1}}, "2.2 TB"},
		{"too many pieces", many, "2,000,000 pieces"},
		{"too many directories", dirs, "2,000,000 files and folders"},
		{"a manifest of 65 MiB", long, "64 MiB"},
	} {
		m, err := NewManifest("n", c.entries)
		if !errors.Is(err, ErrLimit) || m != nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := DecodeManifest(make([]byte, MaxManifest+1)); err != errManifestSize {
		t.Errorf("64 MiB and a byte to decode: %v", err)
	}
	if m, err := NewManifest("n", []Entry{{Path: most.Path + "f", Size: most.Size, Pieces: pieces, Root: most.Root}}); err != nil || m.Layout().PieceLen(0) != MaxPiece {
		t.Errorf("the largest file of all: %v", err)
	}
}

func FuzzDecodeManifest(f *testing.F) {
	f.Add(example(f).Bytes())
	f.Add([]byte(top()))
	f.Add([]byte(top(object(2).num("k", 1).str("p", "d"))))
	f.Add([]byte(top(object(3).num("k", 2).str("p", "l").str("t", "../l"))))
	f.Add([]byte(object(1).num("v", 2)))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeManifest(b)
		if err != nil {
			if !errors.Is(err, ErrManifest) && !errors.Is(err, ErrPath) && !errors.Is(err, ErrLimit) {
				t.Fatalf("an error of no class: %v", err)
			}
			return
		}
		name := m.Name
		if !m.Single() {
			name += "/"
		}
		again, err := NewManifest(name, entriesIn(m))
		if err != nil || !bytes.Equal(again.Bytes(), b) {
			t.Fatalf("%v: made again, it is %x", err, again.Bytes())
		}
		l := m.Layout()
		for p := range Piece(min(l.Pieces(), 100)) {
			if s := l.PieceSpan(p); s.Len < 1 || s.Offset+int64(s.Len) > m.Entry(s.Entry).Size {
				t.Fatalf("piece %d lies at %v", p, s)
			}
			m.PieceValue(p)
		}
		PortabilityProblems(m, "", nil)
	})
}

func TestEntriesOutOfOrderAreNoManifest(t *testing.T) {
	entries := []Entry{{Path: "b", Root: EmptyRoot}, {Path: "a", Root: EmptyRoot}}
	if _, err := ManifestOf("n/", 2, slices.Values(entries)); !errors.Is(err, ErrManifest) {
		t.Error(err)
	}
	slices.Reverse(entries)
	m, err := ManifestOf("n/", 2, slices.Values(entries))
	if err != nil {
		t.Fatal(err)
	}
	if same, err := NewManifest("n/", entries); err != nil || same.ID() != m.ID() {
		t.Error(err)
	}
}
