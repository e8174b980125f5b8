package store_test

import (
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
)

// Where another program is behind a file system (FUSE), a change through a mapping shows in the file's times only when it is written out.
func TestAnEditThroughAMappingOfAFileOfFUSEIsNoticed(t *testing.T) {
	src := testrig.NTFS(t)
	editsAreNoticed(t, src, src)
}
