package share

// Kind is what a manifest's entry is.
type Kind uint8

const (
	File    Kind = iota
	Dir          // an empty directory; those that hold something are implied
	Symlink      // made last, and never leaving the share
)

// An Entry is one line of a manifest.
type Entry struct {
	Path     string // '/'-separated, relative to the root; the root's own name for a single-file share
	Kind     Kind
	Size     int64 // bytes; files only
	Exec     bool  // the owner's x; files only
	Root     Hash  // BLAKE3 of the file
	PieceExp uint8 // PieceExp(Size); files only
	Pieces   []Hash
	Target   string // symlinks only
}

// Manifest is the list of a share's files, the only thing a share ID commits to.
// It never changes after NewManifest or DecodeManifest made it, and is then safe
// for concurrent use.
type Manifest struct {
	Name    string // the root's name: what the fetched file or folder is called
	Entries []Entry
	layout  *Layout
	raw     []byte
	id      ID
}

// Layout is the geometry of the share.
func (m *Manifest) Layout() *Layout { return m.layout }

// ID names the share.
func (m *Manifest) ID() ID { return m.id }

// Bytes is the canonical encoding. The caller must not change it.
func (m *Manifest) Bytes() []byte { return m.raw }

// ID is a share ID: the BLAKE3-256 digest of a manifest's bytes. Its text is a
// CIDv1 of codec dag-cbor in base32. The zero ID names nothing.
type ID struct{ digest Hash }
