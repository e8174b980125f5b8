package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the versions of the program and of Go, and the commit", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *app) printVersion() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{GoVersion: runtime.Version()}
	}
	if a.flags.json {
		vcs := settings(info)
		a.out.write("version", map[string]any{"version": fetcher.Version(), "commit": vcs["vcs.revision"], "time": vcs["vcs.time"],
			"modified": vcs["vcs.modified"] == "true", "go": info.GoVersion, "system": runtime.GOOS, "arch": runtime.GOARCH})
		return nil
	}
	_, err := fmt.Fprint(sink{a.stdout}, versionText(fetcher.Version(), info))
	return err
}

// versionText has a line for the commit if the build knew it.
func versionText(version string, info *debug.BuildInfo) string {
	vcs, commit := settings(info), ""
	if vcs["vcs.revision"] != "" {
		commit = fmt.Sprintf("commit %s of %s", vcs["vcs.revision"], vcs["vcs.time"])
		if vcs["vcs.modified"] == "true" {
			commit += ", modified"
		}
		commit += "\n"
	}
	return fmt.Sprintf("fetcher %s\n%sbuilt by %s for %s/%s\n", version, commit, info.GoVersion, runtime.GOOS, runtime.GOARCH)
}

func settings(info *debug.BuildInfo) map[string]string {
	out := map[string]string{}
	for _, s := range info.Settings {
		out[s.Key] = s.Value
	}
	return out
}
