package store

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lukechampine.com/blake3"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// What an imported path looked like is one record, named by the path's hash:
//
//	2   length of the path, little-endian
//	n   the path, absolute, symlinks resolved, slash-separated
//	36  the share's ID
//	24  for each entry of its manifest: time, change time and inode of the file,
//	    8 bytes each; zero for what is no file. The inode is XORed with the ID
//	    of the file system, where that has one
//
// Sizes and hashes are in the manifest, which is kept under the same ID. A file
// with the same path, size, times and inode on the same file system is assumed to
// have the same content.

const (
	importHead  = 2 + 36
	importEntry = 3 * 8
)

// known is a file of an earlier import.
type known struct {
	m     *share.Manifest
	at    int // entry of m
	slots *slotMap
}

// recalled is what is known of files, by their index; nil: nothing.
type recalled []known

func (r recalled) of(i int) known {
	if r == nil {
		return known{}
	}
	return r[i]
}

func (k known) entry() share.Entry { return k.m.Entry(k.at) }

// importName is where the record of a path lies.
func importName(p string) string {
	sum := blake3.Sum256([]byte(p))
	return "imports/" + hex.EncodeToString(sum[:16])
}

// remember keeps a share's manifest, and what its files at path looked like.
// stamps are by entry, and disk is the ID of their file system.
func (s *State) remember(at string, disk uint64, m *share.Manifest, stamps []vfs.Stamp) error {
	if err := s.SaveManifest(m); err != nil {
		return err
	}
	at = filepath.ToSlash(at)
	if len(at) > 0xffff || importHead+len(at)+importEntry*len(stamps) > maxImport {
		return nil
	}
	name := importName(at)
	old, had := s.peek(name)
	if err := s.save(name, encodeImport(at, disk, m, stamps), false); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.heads, name)
	s.mu.Unlock()
	if had && old.id != m.ID() {
		s.forgetShare(old.id)
	}
	if !had {
		s.prune(name)
	}
	return nil
}

func encodeImport(at string, disk uint64, m *share.Manifest, stamps []vfs.Stamp) []byte {
	b := vfs.BeginRecord(vfs.ImportsRecord, importHead+len(at)+importEntry*len(stamps))
	b = binary.LittleEndian.AppendUint16(b, uint16(len(at)))
	b = append(b, at...)
	b = append(b, m.ID().Bytes()...)
	for i, st := range stamps {
		st.Inode ^= disk
		if m.Entry(i).Kind != share.File {
			st = vfs.Stamp{}
		}
		b = binary.LittleEndian.AppendUint64(b, uint64(st.MTime))
		b = binary.LittleEndian.AppendUint64(b, uint64(st.CTime))
		b = binary.LittleEndian.AppendUint64(b, st.Inode)
	}
	return vfs.EndRecord(b)
}

// remembered is the head of one record.
type remembered struct {
	name string // of the record
	path string
	id   share.ID
}

// peek reads the head of a record, unchecked.
func (s *State) peek(name string) (remembered, bool) {
	f, err := s.fs.Open(name)
	if err != nil {
		return remembered{}, false
	}
	defer f.Close()
	b := make([]byte, vfs.RecordHead+importHead+4096)
	n, _ := f.ReadAt(b, 0)
	r, _, ok := parseImport(b[min(vfs.RecordHead, n):n])
	r.name = name
	return r, ok
}

// parseImport splits a record; stamps are what follows its head.
func parseImport(b []byte) (r remembered, stamps []byte, ok bool) {
	if len(b) < importHead {
		return r, nil, false
	}
	n := int(binary.LittleEndian.Uint16(b))
	if len(b) < importHead+n {
		return r, nil, false
	}
	id, err := share.IDFromBytes(b[2+n : importHead+n])
	if err != nil {
		return r, nil, false
	}
	return remembered{path: string(b[2 : 2+n]), id: id}, b[importHead+n:], true
}

// all lists the records. A record of a path never becomes one of another path, so its head is
// read once; the share may differ by now if another process has imported the path.
func (s *State) all() []remembered {
	list, err := s.fs.ReadDir("imports")
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[string]remembered, len(list))
	out := make([]remembered, 0, len(list))
	for _, e := range list {
		name := "imports/" + e.Name
		r, ok := s.heads[name]
		if !ok {
			r, ok = s.peek(name)
		}
		if ok {
			seen[name] = r
			out = append(out, r)
		}
	}
	s.heads = seen
	return out
}

// recall says of each file whether its content is known: from an import of the
// same path, of one above or of one below. A nil State knows nothing.
func (s *State) recall(at location, files []found) recalled {
	if s == nil {
		return nil
	}
	var out []known
	root := filepath.ToSlash(at.path)
	var wanted map[string]int // by path of the file
	var disk uint64
	for _, r := range s.all() {
		if !below(r.path, root) && !below(root, r.path) {
			continue
		}
		if wanted == nil {
			wanted, out = make(map[string]int, len(files)), make([]known, len(files))
			disk = diskOf(at.dir)
			for i, f := range files {
				if f.kind == share.File {
					wanted[whereIs(root, at.base != "", f.path)] = i
				}
			}
		}
		s.match(r, disk, wanted, files, out)
	}
	return out
}

// match fills in what one record says.
func (s *State) match(r remembered, disk uint64, wanted map[string]int, files []found, out []known) {
	b, err := vfs.ReadRecord(s.fs, r.name, vfs.ImportsRecord, maxImport)
	if err != nil {
		return
	}
	r, stamps, ok := parseImport(b)
	if !ok {
		return
	}
	m, err := s.Manifest(r.id)
	if err != nil || len(stamps) != importEntry*m.Len() {
		return
	}
	slots := newSlotMap(m)
	for i := range m.Entries() {
		e := m.Entry(i)
		if e.Kind != share.File {
			continue
		}
		at, ok := wanted[whereIs(r.path, m.Single(), e.Path)]
		if !ok {
			continue
		}
		if decodeStamp(e.Size, disk, stamps[importEntry*i:]).Is(files[at].stamp) {
			out[at] = known{m, i, slots}
		}
	}
}

func decodeStamp(size int64, disk uint64, b []byte) vfs.Stamp {
	return vfs.Stamp{
		Size:  size,
		MTime: int64(binary.LittleEndian.Uint64(b)),
		CTime: int64(binary.LittleEndian.Uint64(b[8:])),
		Inode: binary.LittleEndian.Uint64(b[16:]) ^ disk,
	}
}

// diskOf is the ID of the file system that a folder is on, or 0.
func diskOf(d vfs.FS) uint64 {
	if d, ok := d.(interface{ DiskID() uint64 }); ok {
		return d.DiskID()
	}
	return 0
}

// whereIs returns the whole path of an entry of what lies at root.
func whereIs(root string, single bool, entry string) string {
	if single {
		return root
	}
	return path.Join(root, entry)
}

// below says whether p is root or lies below it.
func below(p, root string) bool {
	return p == root || strings.HasPrefix(p, strings.TrimSuffix(root, "/")+"/")
}

// forgetShare drops the manifest and block hashes of a share that no record names.
func (s *State) forgetShare(id share.ID) {
	for _, r := range s.all() {
		if r.id == id {
			return
		}
	}
	s.fs.Remove("hashes/" + id.String())
	s.fs.Remove("manifests/" + id.String())
}

// prune forgets any of the paths but the one whose record name is, when there are too many. The one least recently imported would
// be the next to be looked at where a few more are looked at in turn, and each would be forgotten before its turn came.
func (s *State) prune(name string) {
	others := slices.DeleteFunc(s.all(), func(r remembered) bool { return r.name == name })
	for len(others) >= s.paths {
		i := rand.IntN(len(others))
		if err := s.fs.Remove(others[i].name); err != nil {
			return
		}
		s.forgetShare(others[i].id)
		others = slices.Delete(others, i, i+1)
	}
}
