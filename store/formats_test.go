package store

import (
	"os"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/internal/words"
)

func TestTheFormatsPageSaysHowManyImportsAreRemembered(t *testing.T) {
	page, err := os.ReadFile("../docs/formats.md")
	if err != nil {
		t.Fatal(err)
	}
	flat := strings.ReplaceAll(strings.Join(strings.Fields(string(page)), " "), ",", "")
	if want := "At most " + words.Count(maxImports, "path") + " are remembered"; !strings.Contains(flat, want) {
		t.Errorf("no %q", want)
	}
}
