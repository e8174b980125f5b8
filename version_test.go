package fetcher

import (
	"runtime/debug"
	"testing"
)

func TestVersion(t *testing.T) {
	ours := func(version string) debug.Module {
		return debug.Module{Path: "github.com/piecelease/fetcher", Version: version}
	}
	dep, other := ours("v1.2.3"), debug.Module{Path: "example.org/app", Version: "v7.0.0"}
	for name, x := range map[string]struct {
		info debug.BuildInfo
		want string
	}{
		"the command":    {debug.BuildInfo{Main: ours("v1.2.4")}, "v1.2.4"},
		"a test":         {debug.BuildInfo{Main: ours("")}, "(devel)"},
		"an embedder":    {debug.BuildInfo{Main: other, Deps: []*debug.Module{{Path: "example.org/lib", Version: "v2.0.0"}, &dep}}, "v1.2.3"},
		"one without it": {debug.BuildInfo{Main: other}, "(devel)"},
	} {
		if got := versionOf(&x.info); got != x.want {
			t.Errorf("%s: %q, want %q", name, got, x.want)
		}
	}
	if Version() == "" {
		t.Error("this test has no version")
	}
}
