package leasemgr

import (
	"os"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
)

func TestMain(m *testing.M) {
	testrig.Checks(40)
	os.Exit(m.Run())
}
