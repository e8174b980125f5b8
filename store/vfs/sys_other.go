//go:build !linux && !darwin && !windows

package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func ctimeOf(fs.FileInfo) int64 { return 0 }

func freeOn(*os.File) (int64, error) { return -1, nil }

func (d dirFS) moveNoReplace(from, to string) error { return errors.ErrUnsupported }

func flush(f *os.File) error { return unix.Fsync(int(f.Fd())) }
