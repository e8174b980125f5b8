// Package rig has what tests of several packages need: files, buffers, a log that keeps errors, and
// network namespaces, for real processes on the kernel's TCP and UDP over a line that is
// not like loopback. Only tests import it.
package rig
