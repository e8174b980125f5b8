package vfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func FuzzDecodeRecord(f *testing.F) {
	f.Add(EncodeRecord(BitsRecord, nil))
	f.Add(EncodeRecord(BitsRecord, []byte("payload")))
	f.Add(EncodeRecord(KeyRecord, make([]byte, 32)))
	f.Add([]byte(RecordMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		payload, err := DecodeRecord(BitsRecord, b)
		if err == nil && !bytes.Equal(EncodeRecord(BitsRecord, payload), b) {
			t.Error("not canonical")
		}
	})
}

// Any flipped bit, cut or addition is noticed.
func TestADamagedRecordIsNoticed(t *testing.T) {
	good := EncodeRecord(BitsRecord, []byte("some payload"))
	if got, err := DecodeRecord(BitsRecord, good); err != nil || string(got) != "some payload" {
		t.Fatal(got, err)
	}
	if _, err := DecodeRecord(KeyRecord, good); err == nil {
		t.Error("another kind is taken")
	}
	for i := range good {
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if _, err := DecodeRecord(BitsRecord, bad); err == nil {
				t.Errorf("byte %d, bit %d", i, bit)
			}
		}
		if _, err := DecodeRecord(BitsRecord, good[:i]); err == nil {
			t.Errorf("cut to %d", i)
		}
	}
	if _, err := DecodeRecord(BitsRecord, append(bytes.Clone(good), 0)); err == nil {
		t.Error("one byte more")
	}
}

func TestOpenThingsAreBoundedAndClosedOnce(t *testing.T) {
	opened, closed := map[int]int{}, map[int]int{}
	c := Cache[int, closer]{max: 3}
	get := func(k int) *Held[int, closer] {
		h, err := c.Get(k, func() (closer, error) {
			opened[k]++
			return closer(func() error { closed[k]++; return nil }), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for k := range 10 {
		c.Put(get(k))
	}
	if len(c.all) != 3 || closed[6] != 1 || closed[7] != 0 {
		t.Errorf("%d open, closed %v", len(c.all), closed)
	}
	c.Put(get(7)) // now 8 has been unused for longest
	c.Put(get(10))
	if closed[8] != 1 || closed[7] != 0 || opened[7] != 1 {
		t.Error("not the longest unused was closed", closed)
	}
	a, b := get(7), get(7)
	c.Drop(7)
	if closed[7] != 0 {
		t.Error("closed while used")
	}
	c.Put(a)
	again := get(7)
	c.Put(b)
	if closed[7] != 1 || opened[7] != 2 {
		t.Error("dropped and not closed, or not opened again", closed[7], opened[7])
	}
	c.Put(again)
	c.Clear()
	for k := range opened {
		if opened[k] != closed[k] {
			t.Errorf("%d: opened %d times, closed %d times", k, opened[k], closed[k])
		}
	}
}

type closer func() error

func (c closer) Close() error { return c() }

// A file that is longer than its record may be is damaged too.
func TestARecordThatIsTooLongIsDamaged(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), make([]byte, 200), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := ReadRecord(d, "key", KeyRecord, 32); !errors.Is(err, ErrRecord) {
		t.Error(err)
	}
}
