package share

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/internal/rig"
)

func TestLinksThatLeaveTheShareAreRefused(t *testing.T) {
	for _, c := range []struct {
		entries, leave []string
	}{
		{[]string{"f", "l -> f"}, nil},
		{[]string{"f", "d/l -> ../f"}, nil},
		{[]string{"l -> missing"}, nil},
		{[]string{"l -> .", "d/m -> ..", "d/n -> ./../d/./m"}, nil},
		{[]string{"l -> l"}, nil}, // a circle leads nowhere
		{[]string{"a -> b", "b -> a", "c -> a/../../.."}, nil},
		{[]string{"d/f", "l -> d//f", "m -> d/"}, nil},
		{[]string{"l -> ..."}, nil},

		{[]string{"l -> .."}, []string{"l"}},
		{[]string{"d/l -> ../.."}, []string{"d/l"}},
		{[]string{"d/l -> ../../d/l"}, []string{"d/l"}}, // it leaves and comes back
		{[]string{"x -> .", "l -> x/x/../.."}, []string{"l"}},
		{[]string{"a/b/c/f", "x -> a/b/c", "l -> x/../../.."}, nil},              // to the root; read as text it would leave
		{[]string{"a/b/c/f", "x -> a/b/c", "l -> x/../../../.."}, []string{"l"}}, // one more
		{[]string{"a/b/up -> ../..", "l -> a/b/up/.."}, []string{"l"}},           // read as text it would stay
		{[]string{"a/b/f", "a/b/l -> ../../..", "m -> a/b/l/x"}, []string{"a/b/l", "m"}},
		{[]string{"l -> missing/../.."}, []string{"l"}},
		{[]string{"l -> missing/x/../y/../.."}, nil},
		{[]string{"l -> m/..", "m -> missing/deep"}, nil},
		{[]string{"l -> m/../../..", "m -> missing/deep"}, []string{"l"}},
		{[]string{"f", "l -> f/../.."}, []string{"l"}}, // f may become a directory
		{[]string{"d/e//", "c1 -> c2", "c2 -> c3", "c3 -> d/e", "l -> c1/../../.."}, []string{"l"}},
		{[]string{"a -> a/..", "l -> .."}, []string{"l"}},
	} {
		var want []string
		for _, e := range entriesOf(c.entries...) {
			if slices.Contains(c.leave, e.Path) {
				want = append(want, fmt.Sprintf("%s is a link to %q, which leaves the share", e.Path, e.Target))
			}
		}
		got := problemsOf(t, "n", entriesOf(c.entries...))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", c.entries, got, want)
		}
	}
}

func TestImpossibleTargetsAreRefused(t *testing.T) {
	for _, c := range []struct{ target, why string }{
		{"", `is a link to "", which is empty`},
		{"/etc/passwd", `is a link to "/etc/passwd", which is absolute`},
		{"a\x00", `is a link to "a\x00", which holds a NUL`},
		{"a\n", `is a link to "a\n", which holds a control character`},
		{"a\xff", `is a link to "a\xff", which is not UTF-8`},
		{strings.Repeat("a", MaxPath+1), `is a link to "` + strings.Repeat("a", MaxPath+1) + `", which is longer than 4096 bytes`},
	} {
		got := problemsOf(t, "n", []Entry{{Path: "l", Kind: Symlink, Target: c.target}})
		if want := []string{"l " + c.why}; !slices.Equal(got, want) {
			t.Errorf("%.20q: %q, want %q", c.target, got, want)
		}
	}
}

// TestLinksAreFollowedAsTheKernelDoes makes trees of links on disk and asks the
// kernel where each leads. We must refuse a link that it can open and that lies outside,
// and must not refuse one that lies inside.
func TestLinksAreFollowedAsTheKernelDoes(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	trees := 0
	rapid.Check(t, func(t *rapid.T) {
		trees++
		top := filepath.Join(base, fmt.Sprint(trees))
		share := filepath.Join(top, "outer", "share") // some of the way up is still ours
		taken := map[string]bool{}
		var entries []Entry
		add := func(e Entry) {
			if !taken[e.Path] {
				taken[e.Path] = true
				entries = append(entries, e)
			}
		}
		dirs := []string{"", "a/", "a/b/", "c/"}
		for _, d := range dirs[1:] {
			add(Entry{Path: d + "file", Root: EmptyRoot})
		}
		step := rapid.SampledFrom([]string{"..", "..", ".", "a", "b", "c", "file", "l0", "l1", "l2", "l3", "none"})
		for i := range 4 {
			dir := rapid.SampledFrom(dirs).Draw(t, "dir")
			target := strings.Join(rapid.SliceOfN(step, 1, 6).Draw(t, "target"), "/")
			add(Entry{Path: fmt.Sprintf("%sl%d", dir, i), Kind: Symlink, Target: target})
		}
		refused := map[string]bool{}
		var bad PathError
		linkProblems(unchecked(t, entries), &bad)
		for _, p := range bad.Problems {
			refused[p.Path] = true
		}
		for _, e := range entries {
			path := filepath.Join(share, e.Path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if e.Kind == Symlink {
				err = os.Symlink(e.Target, path)
			} else {
				err = os.WriteFile(path, nil, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		defer os.RemoveAll(top)
		for _, e := range entries {
			if e.Kind != Symlink {
				continue
			}
			real, err := resolve(filepath.Join(share, e.Path))
			if err != nil {
				continue // it leads nowhere; we may be stricter than the kernel
			}
			out := real != share && !strings.HasPrefix(real, share+"/")
			if out && !refused[e.Path] {
				t.Fatalf("%s -> %s leads to %s and passes, among %v", e.Path, e.Target, real, entries)
			}
			if !out && refused[e.Path] && !leavesOnTheWay(share, e) {
				t.Fatalf("%s -> %s leads to %s and is refused, among %v", e.Path, e.Target, real, entries)
			}
		}
	})
}

// resolve asks the kernel where a link leads.
func resolve(link string) (string, error) {
	f, err := os.Open(link)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// leavesOnTheWay reports whether a link that ends inside the share was outside
// before. The share lies two levels down, so a walk may come back.
func leavesOnTheWay(share string, e Entry) bool {
	return !errors.Is(openInside(share, e), nil)
}

// openInside opens the link below the share with os.Root, which refuses a path
// that leaves, even if it comes back.
func openInside(share string, e Entry) error {
	r, err := os.OpenRoot(share)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := r.Open(e.Path)
	if err == nil {
		f.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func TestManyLinksAreResolvedInLinearTime(t *testing.T) {
	rig.Slow(t)
	const n = 50_000
	entries := make([]Entry, n) // each to the next, and the first is resolved first
	for i := range entries {
		entries[i] = Entry{Path: fmt.Sprintf("l%06d", i), Kind: Symlink, Target: fmt.Sprintf("l%06d/x/..", i+1)}
	}
	bad := func() int {
		var out PathError
		linkProblems(unchecked(t, entries), &out)
		return out.Count
	}
	if got := bad(); got != 0 {
		t.Errorf("%d problems", got)
	}
	entries[n-1].Target = ".."
	if got := bad(); got != n {
		t.Errorf("%d of %d links leave with the last", got, n)
	}
	entries[n-1].Target = "l000000"
	if got := bad(); got != 0 {
		t.Errorf("a circle of %d: %d problems", n, got)
	}
}

func FuzzLinks(f *testing.F) {
	f.Add("x", ".", "l", "x/x/../..")
	f.Add("a/b", "..", "l", "a/b/..")
	f.Add("l", "m", "m", "l")
	f.Fuzz(func(t *testing.T, path1, target1, path2, target2 string) {
		entries := []Entry{
			{Path: path1, Kind: Symlink, Target: target1},
			{Path: path2, Kind: Symlink, Target: target2},
			{Path: "d/e", Root: EmptyRoot},
		}
		m, err := NewManifest("n", entries)
		if err != nil {
			return
		}
		// A link that we allow lies inside when read as text too, or passes another link.
		for _, e := range m.Entries() {
			if e.Kind != Symlink || strings.Contains(e.Target, path1) || strings.Contains(e.Target, path2) {
				continue
			}
			if len(e.Path) == 0 || e.Target[0] == '/' {
				t.Fatalf("%q -> %q passed", e.Path, e.Target)
			}
			if windowsLink(e.Path, e.Target) != "" && !strings.ContainsAny(e.Target, windowsForbidden) {
				t.Fatalf("%q -> %q passed", e.Path, e.Target)
			}
		}
	})
}
