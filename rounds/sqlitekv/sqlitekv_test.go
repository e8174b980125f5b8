package sqlitekv_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvtest"
	"github.com/piecelease/fetcher/rounds/sqlitekv"
)

func open(t testing.TB, path string) *sqlitekv.KV {
	t.Helper()
	kv, err := sqlitekv.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kv.Close() })
	return kv
}

func TestSQLite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rounds.db")
	kvtest.Run(t, kvtest.Engine{Open: func(t testing.TB, _ string) rounds.KV { return open(t, path) }})
}

func TestADamagedStoreIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rounds.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("no database", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlitekv.Open(t.Context(), path); err == nil || !strings.HasPrefix(err.Error(), "the store cannot be used: "+path+" is not a store") || !strings.Contains(err.Error(), "move it away together with the files") {
		t.Errorf("got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("there is now %q", left)
	}
	if err := os.Rename(path, path+"-wal"); err != nil { // its log is there, and it is not
		t.Fatal(err)
	}
	if _, err := sqlitekv.Open(t.Context(), path); err == nil || !strings.HasPrefix(err.Error(), "the store cannot be used: "+path+" is damaged; to begin anew, end the processes") {
		t.Errorf("got %v", err)
	}
}

// Each rule of the suite, broken on this engine, is caught.
func TestMutants(t *testing.T) { kvtest.Mutants(t, "TestSQLite", false) }
