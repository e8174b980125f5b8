// Package words puts numbers into sentences for people. It promises nothing to
// outsiders.
package words

import (
	"fmt"
	"time"
)

// Count is n things: "1 piece", "3 pieces".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Duration is a duration: "250 ms", "3 s", "75 s", "3 min", "24 h". One that is
// negative is "0 s".
func Duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}
