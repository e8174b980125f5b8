// Package kvtest has the tests that every [rounds.KV] must pass, and a store in
// memory that passes them.
package kvtest
