// Package kvtest has the tests that every [rounds.KV] must pass.
package kvtest
