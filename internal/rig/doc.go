// Package rig joins network namespaces for tests: real processes on real kernels'
// TCP and UDP, over a line that is not like loopback. Nothing but tests imports it.
package rig
