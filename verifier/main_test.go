package verifier

import (
	"os"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

func TestMain(m *testing.M) {
	rig.Checks(30)
	os.Exit(m.Run())
}
