package main

import (
	"bytes"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/boombuler/barcode/qr"

	"github.com/piecelease/fetcher/internal/rig"
)

// modules are those of a QR code that was drawn: true is dark.
func modules(t *testing.T, rows []string) (out [][]bool) {
	t.Helper()
	for _, row := range rows {
		row, ok := strings.CutPrefix(row, "\x1b[30;107m")
		row, end := strings.CutSuffix(row, "\x1b[0m")
		if !ok || !end {
			t.Fatalf("a row without its colours: %q", row)
		}
		var top, bottom []bool
		for _, c := range row {
			if !strings.ContainsRune("█▀▄ ", c) {
				t.Fatalf("%q in a row", c)
			}
			top, bottom = append(top, strings.ContainsRune("█▀", c)), append(bottom, strings.ContainsRune("█▄", c))
		}
		out = append(out, top, bottom)
	}
	return out
}

func TestAQRCodeIsDrawnAsItIs(t *testing.T) {
	text := strings.ToUpper("share" + strings.Repeat("abcdefgh234567", 14))
	rows, err := qrCode(text)
	if err != nil {
		t.Fatal(err)
	}
	code, err := qr.Encode(text, qr.L, qr.AlphaNumeric)
	if err != nil {
		t.Fatal(err)
	}
	got, n := modules(t, rows), code.Bounds().Dx()
	if n != 45 || len(got) != n+2*4+1 || len(got[0]) != n+2*4 {
		t.Fatalf("%d modules, drawn on %d by %d", n, len(got[0]), len(got))
	}
	for y := range got {
		for x := range got[y] {
			in := x >= 4 && x < n+4 && y >= 4 && y < n+4
			if want := in && code.At(x-4, y-4) == color.Black; got[y][x] != want {
				t.Fatalf("module %d, %d is dark: %v, want %v", x-4, y-4, got[y][x], want)
			}
		}
	}
	if _, err := qrCode(strings.Repeat("A", 5000)); err == nil {
		t.Error("5,000 characters fit into a QR code")
	}
}

func TestShareShowsTheTicketAsAQRCode(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.bin")
	rig.WriteRandom(t, path, 1000, 1)
	for _, flag := range []string{"--qr", "--qr=false"} {
		r := runShare(t, nil, path, flag)
		rows, err := qrCode(strings.ToUpper(r.next(t, "share").Ticket))
		must(t, err)
		must(t, r.cmd.Process.Signal(os.Interrupt))
		r.end()
		if got, want := strings.Contains(r.stderr.String(), verbatim+strings.Join(rows, "\n"+verbatim)+"\n"), flag == "--qr"; got != want {
			t.Errorf("%s: it is there: %v\n%s", flag, got, &r.stderr)
		}
	}
}

func TestAQRCodeThatIsWiderThanTheTerminalIsNotDrawn(t *testing.T) {
	for _, width := range []int{52, 53} { // 41 modules, 8 around them, and 4 before
		var b bytes.Buffer
		s := &sharer{app: &app{stderr: &terminal{w: &b, columns: func() int { return width }}}}
		must(t, s.showQR("share"+strings.Repeat("a", 190)))
		said := strings.Join(strings.Fields(b.String()), " ")
		if drawn := strings.Contains(said, "▀"); drawn != (width == 53) || !drawn && !strings.Contains(said, "needs a terminal of 53 columns, and this one has 52") {
			t.Errorf("%d columns: %s", width, &b)
		}
	}
}
