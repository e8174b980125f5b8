package fetcher

import "runtime/debug"

// Version is the version of this module in the running program, as the module system
// knows it: "v1.2.3", or "(devel)" for a build from a folder. Nodes tell each other theirs.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return versionOf(info)
	}
	return devel
}

const devel = "(devel)"

func versionOf(info *debug.BuildInfo) string {
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Path == "github.com/piecelease/fetcher" && m.Version != "" {
			return m.Version
		}
	}
	return devel
}
