package leasedb

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// In a container that has nothing but the program and the state directory, as that of deploy/Containerfile, many leases are
// moved past a step of the clock all the same.
func TestAStepOfManyLeasesNeedsNoFolderForTemporaryFiles(t *testing.T) {
	t.Parallel()
	if os.Getenv("NOTHING_ELSE") == "" { // the process that makes the container
		if os.Geteuid() != 0 {
			t.Skip("NOT TESTED: a root folder of its own needs root")
		}
		alone(t, t.TempDir())
		return
	}
	d, _, err := Open(t.Context(), "/state/leases.db", &disk{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ends := start.Add(10 * day)
	err = d.db.Write(t.Context(), func(c *sqlite.Conn) error {
		for i := range 5000 {
			for _, q := range []string{`INSERT INTO shares(id, share, state, bytes, measured, since) VALUES (?1, ?2, 2, 1, 1, ?3)`,
				`INSERT INTO leases(share, account, bytes, granted, renewed, expires, own) SELECT ?1, 1, length(?2), ?3, ?3, ` + fmt.Sprint(ends.Unix()) + `, 1`} {
				if err := sqlitex.Execute(c, q, &sqlitex.ExecOptions{Args: []any{i + 1, nth(i).Bytes(), start.Unix()}}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Step(t.Context(), start, start.Add(90*day), []byte("clock")); err != nil {
		t.Error("the leases are not moved:", err)
	}
}

// alone runs this test in a root folder with nothing but this program and the folder state.
func alone(t *testing.T, root string) {
	t.Helper()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(root, "state"), 65532, 65532); err != nil {
		t.Fatal(err)
	}
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(root, "test"), os.O_WRONLY|os.O_CREATE, 0o755)
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/test", "-test.run=^"+t.Name()+"$")
	c.Dir, c.Env = "/", []string{"NOTHING_ELSE=1"}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	if out, err := c.CombinedOutput(); errors.Is(err, fs.ErrNotExist) {
		t.Skip("NOT TESTED: this program needs shared libraries:", err)
	} else if err != nil {
		t.Errorf("%s%v", out, err)
	}
}
