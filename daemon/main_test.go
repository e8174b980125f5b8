package daemon

import (
	"testing"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
)

func TestMain(m *testing.M) {
	system.Lean()
	rig.Together(8)
	m.Run()
}
