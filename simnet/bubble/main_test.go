package bubble

import (
	"testing"

	"github.com/piecelease/fetcher/actors/system"
)

func TestMain(m *testing.M) {
	system.Lean()
	m.Run()
}
