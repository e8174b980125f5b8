package kvtest_test

import (
	"testing"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvtest"
)

func TestMemory(t *testing.T) {
	m := kvtest.NewMemory()
	kvtest.Run(t, kvtest.Engine{Open: func(testing.TB, string) rounds.KV { return m }})
}
