// Package rig is what tests of several packages need: a log that keeps errors, and
// network namespaces: real processes on real kernels' TCP and UDP, over a line that is
// not like loopback. Nothing but tests imports it.
package rig
