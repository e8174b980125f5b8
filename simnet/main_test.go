package simnet

import (
	"os"
	"testing"

	"github.com/piecelease/fetcher/actors/system"
)

func TestMain(m *testing.M) {
	system.Lean()
	os.Exit(m.Run())
}
