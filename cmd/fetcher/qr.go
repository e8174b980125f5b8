package main

import (
	"fmt"
	"image"
	"image/color"
	"strings"

	"github.com/boombuler/barcode/qr"
)

// qrQuiet is the width of the light margin around a QR code, in modules.
const qrQuiet = 4

// qrCode is text as a QR code, a row of half blocks for each two rows of modules,
// black on white whatever the colours of the terminal.
func qrCode(text string) (rows []string, err error) {
	code, err := qr.Encode(text, qr.L, qr.Auto)
	if err != nil {
		return nil, fmt.Errorf("the ticket does not fit into a QR code: %w", err)
	}
	box := code.Bounds()
	dark := func(x, y int) bool {
		return image.Pt(x, y).In(box) && color.GrayModel.Convert(code.At(x, y)).(color.Gray).Y < 128
	}
	for y := -qrQuiet; y < box.Max.Y+qrQuiet; y += 2 {
		var row strings.Builder
		for x := -qrQuiet; x < box.Max.X+qrQuiet; x++ {
			switch top, bottom := dark(x, y), dark(x, y+1); {
			case top && bottom:
				row.WriteRune('█')
			case top:
				row.WriteRune('▀')
			case bottom:
				row.WriteRune('▄')
			default:
				row.WriteByte(' ')
			}
		}
		rows = append(rows, "\x1b[30;107m"+row.String()+"\x1b[0m")
	}
	return rows, nil
}

// showQR shows a ticket as a QR code. In upper case it takes the fewest modules.
func (s *sharer) showQR(ticket string) error {
	rows, err := qrCode(strings.ToUpper(ticket))
	if err != nil {
		return err
	}
	if n, wide := s.stderr.columns(), len(verbatim)+2*len(rows)-1; n > 0 && n < wide {
		fmt.Fprintf(s.stderr, "warning: the QR code needs a terminal of %d columns, and this one has %d\n", wide, n)
		return nil
	}
	fmt.Fprintf(s.stderr, "\n%s%s\n", verbatim, strings.Join(rows, "\n"+verbatim))
	return nil
}
