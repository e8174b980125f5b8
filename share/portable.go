package share

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// PortabilityProblems is everything about the paths of m that a system (as
// GOOS names it) cannot hold, or not apart from each other, though others can. With goos "" it is what any
// of Linux, macOS and Windows cannot.
func PortabilityProblems(m *Manifest, goos string) []PathProblem {
	return nil
}

var _ = fmt.Sprint
var _ = strings.Cut
var _ = unicode.ToUpper
var _ = utf8.RuneLen
var _ = cases.Fold
var _ = norm.NFC
