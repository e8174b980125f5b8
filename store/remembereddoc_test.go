package store

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// docs/formats.md says how many imported paths are remembered.
func TestAsManyPathsAreRememberedAsTheFormatsSay(t *testing.T) {
	b, err := os.ReadFile("../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	said := regexp.MustCompile(`At most ([0-9,]+) paths are remembered`).FindSubmatch(b)
	if said == nil {
		t.Fatal("it does not say how many")
	}
	if n, err := strconv.Atoi(strings.ReplaceAll(string(said[1]), ",", "")); err != nil || n != maxImports {
		t.Errorf("it says %s, and %d are", said[1], maxImports)
	}
}
