package storetest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/store/vfs"
)

// TestCommonPagesAreNotNoticed makes the same changes to two disks, one of which has pages in
// common with a third, through syncs and power cuts.
func TestCommonPagesAreNotNoticed(t *testing.T) {
	const size = 20 * PageSize
	r := rand.New(rand.NewPCG(1, 1))
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(r.Uint32())
	}
	origin := New(1 << 30)
	file := fileOf(t, origin, content)
	if err := origin.FS().SyncAll(); err != nil {
		t.Fatal(err)
	}
	alone, sharing := New(1<<30), New(1<<30)
	sharing.Share(origin.Durable())
	a, b := fileOf(t, alone, nil), fileOf(t, sharing, nil)
	common, steps := 0, rig.Most(4000, 1000)
	for step := range steps {
		switch r.IntN(12) {
		case 0:
			a.Sync()
			b.Sync()
		case 1:
			seed := r.Uint64()
			for _, d := range []*Disk{alone, sharing} {
				d.CutPower()
				d.Restart(seed)
			}
			a, b = edit(t, alone), edit(t, sharing)
		default:
			at := r.IntN(size)
			part := content[at:min(size, at+r.IntN(5*PageSize))]
			if r.IntN(2) == 0 { // whole pages
				at -= at % PageSize
				part = content[at:min(size, at+r.IntN(5)*PageSize)]
			}
			if r.IntN(4) == 0 {
				part = bytes.Clone(part)
				for i := range part {
					part[i] ^= byte(r.IntN(2))
				}
			}
			a.WriteAt(part, int64(at))
			b.WriteAt(part, int64(at))
		}
		if x, y := read(a, size), read(b, size); !bytes.Equal(x, y) {
			t.Fatalf("step %d: the disks differ", step)
		}
		if same, err := Same(b, file); err != nil || same != bytes.Equal(read(b, size+1), content) {
			t.Fatalf("step %d: same %v, %v", step, same, err)
		}
		for _, c := range sharing.root.names["f"].chunks {
			if c.common != 0 {
				common++
				break
			}
		}
		if alone.free != sharing.free {
			t.Fatalf("step %d: %d and %d bytes are free", step, alone.free, sharing.free)
		}
	}
	if !bytes.Equal(read(file, size), content) {
		t.Error("the pages in common were written to")
	}
	if common < steps/4 {
		t.Errorf("pages were in common after %d of the steps", common)
	}
}

func TestSameTellsFilesApart(t *testing.T) {
	content := make([]byte, 3*PageSize+5)
	content[PageSize] = 1
	origin := New(1 << 30)
	f := fileOf(t, origin, content)
	for name, other := range map[string][]byte{
		"shorter": content[:len(content)-1],
		"longer":  append(bytes.Clone(content), 0),
		"changed": append(content[:len(content)-1:len(content)-1], 9),
		"empty":   nil,
	} {
		if same, err := Same(fileOf(t, New(1<<30), other), f); same || err != nil {
			t.Errorf("%s: %v, %v", name, same, err)
		}
	}
	d := New(1 << 30)
	holed := fileOf(t, d, nil)
	holed.WriteAt([]byte{1}, PageSize)
	holed.WriteAt([]byte{0}, int64(len(content)-1))
	if same, err := Same(holed, f); !same || err != nil {
		t.Errorf("a hole is not zeros: %v, %v", same, err)
	}
	d.CutPower()
	if _, err := Same(holed, f); err == nil {
		t.Error("it reads without power")
	}
}

func fileOf(t *testing.T, d *Disk, content []byte) vfs.File {
	t.Helper()
	f, err := d.FS().Create("f", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.FS().SyncDir("."); err != nil {
		t.Fatal(err)
	}
	return f
}

func edit(t *testing.T, d *Disk) vfs.File {
	t.Helper()
	f, err := d.FS().Edit("f")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func read(f vfs.File, size int) []byte {
	b := make([]byte, size)
	n, _ := f.ReadAt(b, 0)
	return b[:n]
}
