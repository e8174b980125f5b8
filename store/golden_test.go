package store

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// The bytes on disk are a promise: a new version gets new files here, and the old
// ones stay.
func TestRecordsAreAsPromised(t *testing.T) {
	m, err := share.NewManifest("stuff", []share.Entry{
		{Path: "d", Kind: share.Dir},
		{Path: "f", Size: 5, Root: share.Hash{1, 2, 3}},
	})
	if err != nil {
		t.Fatal(err)
	}
	set := share.NewSet(11)
	set.Add(0)
	set.Add(10)
	for name, got := range map[string][]byte{
		"bits":    encodeBits(m.ID(), 3, set),
		"recent":  vfs.EncodeRecord(vfs.RecentRecord, append(recentHead("boot/7", m.ID(), 11), set.Bytes()...)),
		"placed":  encodePlaced(m.ID(), map[int]vfs.Stamp{1: {Size: 5, MTime: 1234567890123456789, CTime: 1234567890123456790, Inode: 42}}),
		"hashes":  vfs.EncodeRecord(vfs.SlotsRecord, m.ID().Bytes()),
		"imports": encodeImport("/home/me/stuff", 0, m, []vfs.Stamp{{Size: 1, MTime: 2, CTime: 3, Inode: 4}, {Size: 5, MTime: 1234567890123456789, CTime: 1234567890123456790, Inode: 42}}),
		"ranking": vfs.EncodeRecord(vfs.RankingRecord, []byte("anything")),
		"key":     vfs.EncodeRecord(vfs.KeyRecord, bytes.Repeat([]byte{7}, 32)),
		"marks":   append(vfs.EncodeRecord(vfs.MarksRecord, headOfMarks(m.ID(), "boot/7")), appendMark(nil, mark{vfs.Stamp{Size: 5, MTime: 1234567890123456789, CTime: 1234567890123456790, Inode: 42}, true})...),
		"fleet":   vfs.EncodeRecord(vfs.FleetRecord, appendFleet(nil, m.ID(), 3, []peers.ID{"12D3KooW", "other"})),
		"port":    vfs.EncodeRecord(vfs.PortRecord, []byte{0xa1, 0x0f}),
	} {
		at := filepath.Join("testdata", fmt.Sprintf("%s.v%d.golden", name, got[4]))
		text := hex.Dump(got)
		if *rewrite {
			if err := os.WriteFile(at, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(at)
		if err != nil || string(want) != text {
			t.Errorf("%s: got\n%s\nwant\n%s(%v)", name, text, want, err)
		}
	}
}
