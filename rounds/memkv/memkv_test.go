package memkv_test

import (
	"testing"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvtest"
	"github.com/piecelease/fetcher/rounds/memkv"
)

func TestMemory(t *testing.T) {
	m := memkv.New()
	kvtest.Run(t, kvtest.Engine{Open: func(testing.TB, string) rounds.KV { return m }})
}
