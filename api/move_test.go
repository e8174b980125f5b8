package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

func (f *fake) Export(_ context.Context, after string) (func(io.Writer) error, error) {
	if after == "none" {
		return nil, Refuse(ErrRequest, "no such share")
	}
	return func(w io.Writer) error {
		f.exported.Store(true)
		w.Write(bytes.Repeat([]byte("x"), 3<<20))
		if after == "cut" {
			return io.ErrShortWrite
		}
		return nil
	}, nil
}

func (f *fake) Import(_ context.Context, from io.Reader) (Imported, error) {
	b, err := io.ReadAll(from)
	if bytes.HasPrefix(b, []byte("full")) {
		err = Refuse(share.ErrDiskFull, "the disk is full")
	}
	return Imported{Bytes: int64(len(b)), Refused: []string{"a: why"}}, err
}

// An export and an import are as long as they are; one that is cut is not taken for whole.
func TestMovesAreOfAnyLength(t *testing.T) {
	_, at, _ := served(t, nil)
	c, err := Dial(t.Context(), at)
	must(t, err)
	defer c.Close()
	for after, cut := range map[string]bool{"": false, "cut": true} {
		r, err := c.Export(t.Context(), after)
		must(t, err)
		b, err := io.ReadAll(r)
		if r.Close(); (err != nil) != cut || !cut && len(b) != 3<<20 {
			t.Errorf("%q: %d bytes, %v", after, len(b), err)
		}
	}
	if _, err := c.Export(t.Context(), "none"); !errors.Is(err, ErrRequest) {
		t.Error(err)
	}
	long := strings.Repeat("y", 3*maxBody)
	if got, err := c.Import(t.Context(), strings.NewReader(long)); err != nil || got.Bytes != int64(len(long)) || len(got.Refused) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.Import(t.Context(), strings.NewReader("full"+long)); !errors.Is(err, share.ErrDiskFull) {
		t.Error(err)
	}
}

// Whoever asks for the header alone has no depot read for it.
func TestTheHeaderOfAnExportReadsNoDepot(t *testing.T) {
	f, at, c := served(t, &Access{Token: "all"})
	if res, body := request(t, c, "HEAD", "http://"+at+exportPath, "", "Authorization", "Bearer all"); res.StatusCode != 200 || f.exported.Load() {
		t.Errorf("%d %v, read: %v", res.StatusCode, body, f.exported.Load())
	}
}

// Whoever may only look imports nothing.
func TestAReaderImportsNothing(t *testing.T) {
	_, at, c := served(t, &Access{Token: "all", Read: "read"})
	res, body := request(t, c, "POST", "http://"+at+importPath, "x", "Authorization", "Bearer read")
	if res.StatusCode != 403 {
		t.Errorf("%d %v", res.StatusCode, body)
	}
}

// Whoever may only look does not get the data of all shares that a depot keeps for others, with their accounts, and has the node ask no other.
func TestAReaderExportsNoDepotAndAsksNone(t *testing.T) {
	a := &Access{Token: "all", Read: "read"}
	_, at, c := served(t, a)
	for _, method := range []string{"GET", "HEAD"} {
		for _, path := range []string{exportPath, exportPath + "?after=x", "/v1/depot/%65xport", a.link(exportPath, time.Now()), holdingsPath + "?depot=x"} {
			if res, body := request(t, c, method, "http://"+at+path, "", "Authorization", "Bearer read"); res.StatusCode != 403 {
				t.Errorf("%s %s: %d, %+v", method, path, res.StatusCode, body)
			}
		}
	}
	if res, _ := request(t, c, "HEAD", "http://"+at+exportPath, "", "Authorization", "Bearer all"); res.StatusCode != 200 {
		t.Error(res.StatusCode)
	}
}
