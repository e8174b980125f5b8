package main

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// Exit codes. They are a promise: scripts branch on them.
const (
	exitOK          = 0
	exitOther       = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitStalled     = 4
	exitLied        = 5
	exitNetwork     = 6
	exitNotAllowed  = 7
	exitDiskFull    = 9
	exitHeld        = 11
	exitExists      = 13
	exitPath        = 14
	exitNoNode      = 15
	exitInterrupted = 130
	exitPipe        = 141
)

var errInterrupted = errors.New("interrupted")

// outcomes maps errors to codes; the first that matches counts.
var outcomes = []struct {
	code int
	name string
	err  error
}{
	{exitUsage, "usage", api.ErrRequest},
	{exitUsage, "usage", api.ErrNoEntry},
	{exitUsage, "usage", share.ErrTicket},
	{exitUsage, "usage", fetcher.ErrNoSource},
	{exitUsage, "usage", fetcher.ErrNotListed},
	{exitUsage, "usage", fetcher.ErrAddress},
	{exitUsage, "usage", fetcher.ErrNothingSelected},
	{exitUsage, "usage", path.ErrBadPattern},
	{exitPath, "path", share.ErrPath},
	{exitExists, "exists", share.ErrExists},
	{exitHeld, "held", share.ErrHeld},
	{exitHeld, "held", api.ErrHave},
	{exitDiskFull, "disk_full", share.ErrDiskFull},
	{exitNetwork, "network", share.ErrNetwork},
	{exitNetwork, "network", rounds.ErrAway},
	{exitNetwork, "network", rounds.ErrUnfit},
	{exitNotFound, "not_found", share.ErrNotFound},
	{exitNotFound, "not_found", rounds.ErrNever},
	{exitNotAllowed, "not_allowed", share.ErrNotAllowed},
	{exitLied, "lied", share.ErrLied},
	{exitStalled, "stalled", share.ErrStalled},
	{exitNoNode, "no_node", api.ErrNoNode},
	{exitInterrupted, "interrupted", errInterrupted},
	{exitInterrupted, "interrupted", fetcher.ErrStopped},
	{exitPipe, "pipe", errPipe},
	{exitUsage, "usage", daemon.ErrDepot},
	{exitUsage, "usage", daemon.ErrSettings},
	{exitUsage, "usage", daemon.ErrMembership},
	{exitUsage, "usage", kvurl.ErrURL},
	{exitOther, "faults", errFaults},
}

// outcome is the exit code of an error and its stable name.
func outcome(err error) (code int, name string) {
	if err == nil {
		return exitOK, "ok"
	}
	if errors.As(err, new(usageError)) || errors.As(err, new(*store.ProblemsError)) {
		return exitUsage, "usage"
	}
	for _, o := range outcomes {
		if errors.Is(vfs.Full(err), o.err) {
			return o.code, o.name
		}
	}
	return exitOther, "other"
}

func exitCode(err error) int {
	code, _ := outcome(err)
	return code
}

// sentence is an error for a person: the lines after the first are indented.
func sentence(err error) string {
	lines := strings.Split(strings.TrimRight(words.Plain(err), "\n "), "\n")
	for i, s := range lines[1:] {
		if !strings.HasPrefix(s, " ") {
			lines[i+1] = "  " + s
		}
	}
	return strings.Join(lines, "\n")
}

// advices say what a person can do about an error; the first that matches counts.
var advices = []struct {
	err  error
	what string
}{
	{api.ErrNoNode, "Start a node with fetcher node run; or, if one runs with another state directory, name that with --dir."},
	{errCut, ""},
	{share.ErrDiskFull, "Make room and run the same command again."}, // another state directory is another node
	{daemon.ErrIssuer, ""},
	{fetcher.ErrStateDir, "Name another folder with --dir, or FETCHER_DIR in the environment."},
	{errCat, "What is there was not touched. To repair it, use fetcher fetch --repair; or name another folder with -o."},
	{store.ErrRepairable, "What is there was not touched. With --repair, what is missing or wrong is fetched, and only that is replaced; or put the share elsewhere with -o."},
	{share.ErrExists, "What is there was not touched. Move it away, or put the share elsewhere with -o."},
	{share.ErrHeld, "Wait until the other process has ended, or end it."},
	{store.ErrMoved, ""},
	{share.ErrChanged, "When the files are as they should be, and nothing writes to them, run the same command again."},
	{errListen, "Name another address with --listen."},
	{errHTTP, "Name another address with --http, or as http in node.toml; if another program has this one, it can be ended instead."},
	{errBeacon, "Check that --beacon-at names a beacon, the same on both machines (if it is given twice, the first counts), that the beacon runs, and that this machine can reach it."},
	{fetcher.ErrWrongCode, "The code is used up, and whoever shares the files has been told so: ask them for a new one."},
	{fetcher.ErrCodeGone, "A code is good for one try within two minutes, at the beacon where it was made (the first --beacon-at): ask for a new one."},
	{errLeased, "Check that the coordinator runs, that this machine can reach it, and that the share is still being shared; or go on without the coordinator with --alone-after TIME."},
	{errLinks, "To list the rest, leave links out with --links skip."},
	{errWhole, "ls reads all of a PATH: let this user read what is listed above, or move or rename it; share and add can leave it out with --exclude PATTERN."},
	{errNoTable, "Check that this machine can reach the table: with --dht public, that needs access to the Internet; otherwise, --dht must name a node that takes part in the table and that this machine can reach. Or ask whoever shares the files for a ticket."},
	{errUncalled, "Run the same command again. While it waits, run on the other machine the command that it prints, and see that the other machine can reach this one at an address in the ticket of that command."},
	{peers.ErrNoTCP, "Ask whoever shares it for a ticket with a TCP address, or leave out --proxy if this machine may dial others itself."},
	{peers.ErrProxyUser, "Put USER:PASSWORD@, as the proxy knows them, before the host in --proxy. " + sharedText},
	{peers.ErrNoProxy, "Check that --proxy names a proxy that runs. " + sharedText},
	{peers.ErrProxyRule, "Check that the proxy lets this machine connect to that address. " + sharedText},
	{daemon.ErrNoSnapshot, "Check that a node is running on a machine of the fleet that has the snapshot, and that this machine can reach it; then run the same command again."},
	{share.ErrNetwork, sharedText},
	{rounds.ErrAway, "Check that it runs, that its URL is right (with TLS or without), and that this machine can reach it; then run the same command again."},
	{fetcher.ErrNotListed, "fetcher fleet status shows the list."},
	{share.ErrNotFound, "Nobody who was asked shares it now. Whoever gave you the ticket or ID has to share or resume it, or give you a new ticket."},
	{fetcher.ErrNotMember, `Where the coordinator runs, give this node's ID to --allow, or write it into the --allow-file; or join the fleet with the token that "fetcher fleet invite" prints now. Then run the same command again.`},
	{share.ErrNotAllowed, "Ask whoever shares it to allow the ID that fetcher id prints, and run the same command again (fetch, cat and ls then need --identity: without it, they use a new ID in each run, such as the one above); or, if the share has a secret, ask for the ticket that holds it."},
	{share.ErrLied, "Name another source with --peer."},
	{errUnfound, "Ask whoever shares it for the ticket, or name a peer that has it with --peer. By its ID alone " + announcedText},
	{errNobody, "Ask whoever shares it for a ticket of a node that listens, or name a peer that has it with --peer. Where nobody is named, " + announcedText},
	{fetcher.ErrNoSource, "Give a ticket of a node that listens, or name a peer with --peer ADDR."},
	{share.ErrStalled, sharedText},
	{daemon.ErrSettings, ""}, // it says itself which setting to change
	{syscall.EROFS, "Name another folder, on a disk that can be written to."},
	{fs.ErrPermission, "Let this user use that file or folder, or run the command as a user who may."},
	{fs.ErrNotExist, "Check its path."},
}

// announcedText ends the advice about a share that nobody was found to have.
const announcedText = "a share is found only where it is announced: on this network with --visible lan, or in the table of --dht with --visible public."

// sharedText is the advice about a source that does not answer, or no longer.
const sharedText = "Check that the share is still being served, that the address in the ticket or --peer is still right, and that this machine can reach it; then run the same command again."

// keptText is said before the advice about a fetch that has fetched something.
const keptText = "What is verified is kept. "

// errUnfound says that no node was found that has a share of which only the ID is known.
var errUnfound = words.Error(fetcher.ErrNoSource, "found nobody who has the share")

// errNobody says the same of a share whose ticket names nobody.
var errNobody = words.Error(fetcher.ErrNoSource, "found nobody who has the share; its ticket names no peer")

// errNoTable marks that a share was looked for in a hash table that could not be reached.
var errNoTable = words.Error(share.ErrNetwork, "no way into the hash table")

// errLeased marks that a member of a fleet got nothing.
var errLeased = errors.New("nothing was leased")

// errCat marks that what is at -o differs from the share, where cat repairs nothing.
var errCat = errors.New("cat repairs nothing")

// errLinks marks that some links cannot be listed.
var errLinks = errors.New("links cannot be listed")

// errWhole marks that some of a path cannot be listed.
var errWhole = errors.New("not all of it can be listed")

// errUncalled marks that a fetch waited for a source to connect to it, and got nothing.
var errUncalled = errors.New("no source came")

// advice says, in a line, what a person can do about an error; "" if the error says it itself.
func advice(err error) string {
	if errors.As(err, new(usageError)) {
		return ""
	}
	if in := (importError{}); errors.As(err, &in) {
		if s := leaveOut(err, in.dir); s != "" {
			return s
		}
	}
	if errors.As(err, new(*api.Problem)) {
		return "" // the node has said what to do
	}
	if errors.Is(err, fetcher.ErrStateDir) && errors.Is(err, fs.ErrPermission) { // it may be the right one, of another user
		return "Name another folder with --dir, or FETCHER_DIR in the environment; or, if that is the right one, run the command as the user who owns it."
	}
	for _, x := range advices {
		if errors.Is(vfs.Full(err), x.err) {
			return x.what
		}
	}
	return ""
}

// maxSuggested is the largest number of files for which a command that leaves them out is suggested.
const maxSuggested = 8

const leaveOutText = "To share the rest, leave these out with --exclude PATTERN; it may be repeated."

// leaveOut says how to share the rest, if some files or folders, in dir, cannot be shared.
func leaveOut(err error, dir string) string {
	var bad *store.ProblemsError
	var names *share.PathError
	switch {
	case errors.As(err, &names):
		return "To share the rest, leave " + either(len(names.Problems) == 1, "it", "these") + " out with --exclude PATTERN" + either(ofLinks(names), ", or all links with --links skip.", ".")
	case !errors.As(err, &bad) || bad.Problems[0].Path == ".":
		return ""
	case bad.Count > maxSuggested:
		return leaveOutText
	}
	it := either(bad.Count == 1, "it", "them")
	s := "To share the rest, leave " + it + " out with\n"
	for _, p := range bad.Problems {
		pattern, exact := literal(p.Path)
		if !exact && !onlyBad(bad, matching(dir, "", strings.Split(pattern, "/"))) {
			return "To share the rest, rename " + either(bad.Count == 1, "this one", "these") + ": a PATTERN for --exclude that leaves " + it + " out could match other files too."
		}
		s += "\n" + verbatim + "--exclude " + quote("/"+pattern)
	}
	return s + "\n"
}

// inPart has an error of the node, about some of the files at the paths, say as one of share does how to share the rest.
func inPart(err error, paths []string) error {
	var p *api.Problem
	if !errors.As(err, &p) || len(p.Unshared) == 0 {
		return err
	}
	dir := ""
	if len(paths) == 1 {
		dir = paths[0]
		if info, at := os.Stat(dir); at != nil || !info.IsDir() {
			return err // no file can be left out of itself
		}
	}
	names, bad := &share.PathError{Count: len(p.Unshared)}, &store.ProblemsError{Count: len(p.Unshared)}
	for _, x := range p.Unshared {
		names.Problems = append(names.Problems, share.PathProblem{Path: x.Path, Why: x.Why})
		bad.Problems = append(bad.Problems, store.Problem{Path: x.Path, Err: errors.New(x.Why)})
	}
	if errors.Is(err, share.ErrPath) {
		return importError{marked{err, names}, dir}
	}
	return importError{marked{err, bad}, dir}
}

// restFirst has an error of the node, about some of the files in a folder, say how a command that leaves none out
// takes the rest.
func restFirst(err error, at, then string) error {
	if _, ok := errors.AsType[importError](inPart(err, []string{at})); ok {
		var p *api.Problem
		one := errors.As(err, &p) && len(p.Unshared) == 1
		return words.Error(err, "%s\nTo leave %s out, first run fetcher add with --exclude PATTERN, then %s", words.Plain(err), either(one, "it", "these"), then)
	}
	return err
}

// onlyBad says whether there are paths, and each is one of those that cannot be shared.
func onlyBad(bad *store.ProblemsError, paths []string) bool {
	return len(paths) > 0 && !slices.ContainsFunc(paths, func(p string) bool {
		return !slices.ContainsFunc(bad.Problems, func(x store.Problem) bool { return x.Path == p })
	})
}

// matching returns the paths in a folder, below at, that a pattern matches, which is given by its parts.
func matching(dir, at string, parts []string) (out []string) {
	in, _ := os.ReadDir(filepath.Join(dir, at)) // what cannot be listed has no match
	for _, e := range in {
		ok, _ := path.Match(parts[0], e.Name())
		switch p := path.Join(at, e.Name()); {
		case ok && len(parts) == 1:
			out = append(out, p)
		case ok:
			out = append(out, matching(dir, p, parts[1:])...)
		}
	}
	return out
}

// ofLinks says whether all of the problems are links.
func ofLinks(err *share.PathError) bool {
	return !slices.ContainsFunc(err.Problems, func(p share.PathProblem) bool { return !strings.Contains(p.Why, "link") })
}

// literal is a pattern that matches a path, which may not be UTF-8, and exact says that it matches no other.
func literal(p string) (pattern string, exact bool) {
	var b strings.Builder
	exact = true
	for i, c := range p {
		switch _, n := utf8.DecodeRuneInString(p[i:]); {
		case c == utf8.RuneError && n == 1, printable(string(c)) != string(c):
			b.WriteByte('?')
			exact = false
		case strings.ContainsRune(`*?[\`, c):
			b.WriteString(`\` + string(c))
		default:
			b.WriteRune(c)
		}
	}
	return b.String(), exact
}
