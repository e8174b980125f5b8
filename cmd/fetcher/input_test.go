package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// A ticket is read however it was copied: in upper case, wrapped over lines, and from
// a pipe that does not end.
func TestTicketsAreReadAsTheyAreCopied(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	rig.WriteRandom(t, src, 1000, 7)
	s := startShare(t, src)
	wrapped := " " + s.ticket[:70] + "\r\n  " + s.ticket[70:140] + "\n\t" + s.ticket[140:] + "\n"
	for name, c := range map[string]struct{ arg, stdin string }{
		"in capitals":       {strings.ToUpper(s.ticket), ""},
		"wrapped":           {wrapped, ""},
		"wrapped, on stdin": {"-", "\n" + wrapped},
		"quoted":            {"> Look here: ‹" + s.ticket[:80] + "\n> " + s.ticket[80:] + "›.\n> Bye", ""},
		"an ID in two":      {s.id[:20] + " " + s.id[20:], ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(built(t), "ls", c.arg, "--peer", s.addrs[0], "--json", "--dir", t.TempDir())
			in, err := cmd.StdinPipe()
			must(t, err)
			io.WriteString(in, c.stdin) // and the pipe stays open
			if r := finish(t, cmd, nil); r.code != 0 || len(r.lines) != 3 || r.lines[1].Path != "one.bin" {
				t.Errorf("exit %d: %+v %s", r.code, r.lines, r.stderr)
			}
		})
	}
	for name, c := range map[string]struct{ arg, says string }{
		"another CID": {"QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPBdG", "is a CID, but not that of a share"},
		"a word":      {"photos", "neither a ticket"},
	} {
		if r := command(t, "fetch", c.arg); r.code != exitUsage || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s: exit %d: %s", name, r.code, r.stderr)
		}
	}
}

// Paths are accepted as ls prints them.
func TestOnlyTakesWhatLsPrints(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "movie")
	for _, name := range []string{"cd1/a", "cd2/b", "cd2/c"} {
		rig.WriteRandom(t, filepath.Join(src, filepath.FromSlash(name)), 100, 1)
	}
	s := startShare(t, src)
	for args, want := range map[string]string{
		"--only movie/cd2": "cd2/b cd2/c", "--only cd2": "cd2/b cd2/c", "--only movie/cd2/ --skip movie/cd2/c": "cd2/b", "--only movie": "cd1/a cd2/b cd2/c",
	} {
		dir := t.TempDir()
		if r := command(t, append([]string{"fetch", s.ticket, "-o", dir, "--listen", "none"}, strings.Fields(args)...)...); r.code != 0 {
			t.Errorf("%s: exit %d: %s", args, r.code, r.stderr)
		}
		var got []string
		for l := range strings.Lines(rig.Fingerprint(t, filepath.Join(dir, "movie"))) {
			if name, _, file := strings.Cut(strings.TrimSpace(l), " "); file {
				got = append(got, filepath.ToSlash(name))
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s fetched %q, want %q", args, s, want)
		}
	}
}

func TestListenTakesAPort(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := filepath.Join(t.TempDir(), "one.bin")
	rig.WriteRandom(t, src, 1000, 7)
	for _, format := range []string{"%d", ":%d", "127.0.0.1:%d"} {
		port := rig.FreePort(t)
		s := startShare(t, src, "--listen", fmt.Sprintf(format, port))
		if got := strings.Join(s.addrs, " "); !strings.Contains(got, fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/", port)) || !strings.Contains(got, fmt.Sprintf("/udp/%d/quic-v1/", port)) {
			t.Errorf("%s: listens on %s", format, got)
		}
		s.stop(t)
	}
	r := command(t, "share", src, "--listen", "here:80")
	if r.code != exitUsage || !strings.Contains(r.stderr, `"here:80"`) || !strings.Contains(r.stderr, "give a port, or an IP address") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	for _, port := range []string{"70000", "127.0.0.1:70000"} {
		if r := command(t, "share", src, "--listen", port); r.code != exitUsage || !strings.Contains(r.stderr, "a port is at most 65535") {
			t.Errorf("%s: exit %d: %s", port, r.code, r.stderr)
		}
	}
}

func TestALogLevelThatIsNoneIsRefusedEverywhere(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"list", "version", "node status"} {
		if r := command(t, append(strings.Fields(args), "--log-level", "foo")...); r.code != exitUsage || !strings.Contains(r.stderr, `not "foo"`) {
			t.Errorf("%s: exit %d: %s", args, r.code, r.stderr)
		}
	}
}

// What a command is given, and cannot take, is said to belong to the command that takes it.
func TestWhatIsMeantForAnotherCommandIsSaid(t *testing.T) {
	const id = "bafyr4ibxrg7vul2qwzzo3jvdxkcg22ggqjjze65jz72yktaxgogxt4y7hi"
	t.Chdir(t.TempDir())
	rig.WriteRandom(t, "photos/a.jpg", 10, 1)
	must(t, os.WriteFile("ticket.txt", []byte("Here it is:\n"+id+"\n"), 0o600))
	must(t, os.WriteFile("2024", []byte("x"), 0o600))
	for args, says := range map[string]string{
		"fetch photos":            `"photos" is a folder on this machine, not a ticket; fetcher share photos serves it`,
		"fetch 2024":              `"2024" is a file on this machine, not a ticket`,
		"cat ticket.txt":          `"ticket.txt" is a file with a ticket in it; give what it holds with fetcher cat - < ticket.txt`,
		"fetch " + id + " out":    "to fetch into the folder out, put -o before it: -o out",
		"fetch 2025":              "this is not a code: a code has three parts, a number and two words, such as 7-marble-fossil, and this has 1",
		"fetch marble fossil":     `"marble fossil" lacks the number with which a code begins, as in 7-marble-fossil`,
		"ls 7-marble-fossil":      "7-marble-fossil is a code, and only fetch takes one: fetcher fetch 7-marble-fossil --beacon-at ADDR",
		"cat 7 marble fossil":     "7-marble-fossil is a code",
		"cat 7-marble-fossil x":   "7-marble-fossil is a code",
		"add 7-marble-fossil":     "7-marble-fossil is a code",
		"fleet add marble-fossil": `"marble-fossil" lacks the number`,
		"share 7-marble-fossil":   "7-marble-fossil is a code",
		"share " + id:             "that is a share ID, not a path, and fetch takes it: fetcher fetch " + id,
		"ls photos/2026/a-long-name-of-a-folder-that-is-not-there": `"photos/2026/a-long-name-of-a-folder-that-is-not-there" is neither a file or folder`,
		"ls shareufqxmazda52by": "unreadable ticket: made by a later version of this program: the ticket has version 3, and",
		"ls photo":              `"photo" is neither a file or folder on this machine nor a ticket or an ID`,
		"ls " + id[:58]:         `"` + id[:58] + `" is not a whole share ID`,
		"fetch " + id + "," + id[:58] + "," + strings.Replace(id, "hi", "ha", 1): "unreadable ticket: the text has 2 different tickets or share IDs",
	} {
		stdout, stderr, code := inside(strings.Fields(args)...)
		if code != exitUsage || !strings.HasPrefix(stderr, "fetcher: "+says) || strings.Count(stderr, "\n") != 1 || stdout != "" {
			t.Errorf("fetcher %s: exit %d: %s%s", args, code, stdout, stderr)
		}
	}
}

// A peer that accepts connections and sends nothing is named, and given up after
// --stall: by fetch, and by cat, which asks for the list of files first.
func TestASilentSourceIsGivenUpInTime(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	at := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", l.Addr().(*net.TCPAddr).Port)
	from := []string{"bafyr4ibxrg7vul2qwzzo3jvdxkcg22ggqjjze65jz72yktaxgogxt4y7hi", "--peer", at + "/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN", "--stall", "2s"}
	for what, args := range map[string][]string{"fetch": append(from, "-o", t.TempDir()), "cat": from} {
		began := time.Now()
		cmd := exec.Command(built(t), append([]string{what, "--dir", t.TempDir(), "--listen", "none"}, args...)...)
		out, _ := cmd.CombinedOutput()
		if took := time.Since(began); cmd.ProcessState.ExitCode() != exitNetwork || !strings.Contains(string(out), "no answer yet from "+at) || took > 30*time.Second {
			t.Errorf("%s: %v after %v: %s", what, cmd.ProcessState, took, out)
		}
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	t.Parallel()
	a, b := output(t, built(t), "version"), output(t, built(t), "--version")
	if a != b || !strings.HasPrefix(a, "fetcher ") || !strings.HasSuffix(a, "\nbuilt by "+runtime.Version()+" for "+runtime.GOOS+"/"+runtime.GOARCH+"\n") {
		t.Errorf("%q and %q", a, b)
	}
	a = versionText("v1.2.3", &debug.BuildInfo{GoVersion: "go9", Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "NOON"}, {Key: "vcs.modified", Value: "true"}}})
	if !strings.HasPrefix(a, "fetcher v1.2.3\ncommit abc of NOON, modified\nbuilt by go9 for ") {
		t.Errorf("with a commit: %q", a)
	}
	if r := command(t, "--version"); r.code != 0 || len(r.lines) != 3 || r.lines[1].Type != "version" {
		t.Errorf("exit %d: %+v", r.code, r.lines)
	}
}

// A topic that there is no help on is a mistake, as is a value in the environment that its flag does not take.
func TestHelpAndTheEnvironmentAreChecked(t *testing.T) {
	t.Setenv("FETCHER_STALL", "x")
	for args, says := range map[string]string{
		"help nosuch": `there is no command "nosuch"`, "help fleet nosuch": `there is no command "nosuch"`,
		"stauts": "depot status, or fetcher --dir ", "node stauts": `there is no command "stauts"; did you mean fetcher --dir `,
		"passes redem": " passes redeem?", "depot gc nosuch": `there is no command "nosuch"; see fetcher depot gc --help`, "help depot crwl": `"crwl"; did you mean fetcher --dir `,
		"fetch T": `FETCHER_STALL: --stall: give a time such as 30s, 36h or 7d, not "x"`, "hold": "hold needs an ENTRY or PATH",
	} {
		if r := command(t, strings.Fields(args)...); r.code != exitUsage || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: exit %d: %s", args, r.code, r.stderr)
		}
	}
	t.Setenv("FETCHER_LOG_LEVEL", "foo")
	if r := command(t, "id"); r.code != exitUsage || !strings.Contains(r.stderr, `FETCHER_LOG_LEVEL: --log-level is debug, info, warn or error, not "foo"`) {
		t.Errorf("a level in the environment: exit %d: %s", r.code, r.stderr)
	}
	t.Setenv("FETCHER_LOG_LEVEL", "")
	if out := output(t, built(t), "help", "fleet", "join"); !strings.Contains(out, "fetcher fleet join TOKEN") {
		t.Errorf("help fleet join: %s", out)
	}
}

// A mistake in a flag is reported in our own words, not in those of the libraries.
func TestMistakesInFlagsAreExplained(t *testing.T) {
	for says, args := range map[string]string{
		`--stall: give a time such as 30s, 36h or 7d, not "x"`:                                                                         "fetch T --stall x",
		"--new-secret makes the secret itself; leave out --fleet-secret":                                                               "fleet invite --new-secret --fleet-secret x",
		"--visible public needs a table to be found in: give --dht too":                                                                "share x --visible public",
		"--visible lan announces what is shared on the local network, and --lan=false turns that off: leave out --lan=false, or unset": "share x --visible lan --lan=false",
		`--dht: "ipfs" is neither "own" nor "public"`:                                                                                  "share x --dht ipfs",
		`--visible: "moon" is not private, lan or public`:                                                                              "share x --visible moon",
		"--copies is from 1 to 64, not 0":                                                                                              "hold x --on /ip4/127.0.0.1/tcp/1/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN --copies 0",
		`"x" is not an address of a relay, such as /ip4/192.0.2.1/tcp/4001/p2p/12D3...`:                                                "share . --via x",
		`"x" is not an address to announce, such as /dns4/example.org/tcp/4001`:                                                        "share . --announce x",
		`"/ip4/1.2.3.4" is not an address to announce: it must end in /tcp/PORT or /udp/PORT/quic-v1`:                                  "share . --announce /ip4/1.2.3.4",
		`"none" cannot be combined with addresses to listen on: give either "none" or the addresses`:                                   "share . --listen none --listen 4001",
		"--every: it must be from 1 s to 32 d, not 0s":                                                                                 "round run --kv sqlite:x --name x --every 0s -- true",
		`"192.0.2.1" is not an address to listen on: give a port such as 4001`:                                                         "share . --listen 192.0.2.1",
		`--budget takes a whole number, not "x"`:                                                                                       "hold x --budget x",
		`--price: a price is "free" or "passes", not "gold"`:                                                                           "depot account set me --price gold",
		"depot account set needs a flag that says what to change":                                                                      "depot account set me",
		"--nearby looks at the local network: leave out --lan=false":                                                                   "ls --nearby --lan=false",
		"depot voucher needs --passes NUMBER":                                                                                          "depot voucher",
		"ls --nearby takes no TICKET, ID or PATH":                                                                                      "ls --nearby .",
		"completion bash takes no arguments":                                                                                           "completion bash x",
		`there is no command "why"; see fetcher --help`:                                                                                "why --help",
		`there is no command "move"; see fetcher depot account`:                                                                        "depot account move --help",
		`--name "." cannot be the name of a share`:                                                                                     "share . --name .",
		`--name "a/b" holds a / and cannot be the name of a share`:                                                                     "add . --name a/b",
		`"/ip4/127.0.0.1/udp/0" is not an address to listen on: it must end in /tcp/PORT or /udp/`:                                     "share . --listen /ip4/127.0.0.1/udp/0",
		`"localhost:80" is not an address to listen on: give a port, or an IP`:                                                         "share . --listen localhost:80",
		`--seeds takes a whole number, not "many"`:                                                                                     "sim run x --seeds many",
		`--seed takes a whole number from 0 on, not "-5"`:                                                                              "sim run x --seed -5",
		`--budget takes a smaller number, not "99999999999999999999"`:                                                                  "hold x --budget 99999999999999999999",
		`--budget takes a larger number, not "-99999999999999999999"`:                                                                  "hold x --budget -99999999999999999999",
		`--seed: a time is at most 36600d, not "40000d"`:                                                                               "fetch T --seed=40000d",
		`--json takes true or false, not "x"`:                                                                                          "ls x --json=x",
		"--only needs a value; see fetcher fetch --help":                                                                               "fetch T --only",
		"unknown flag: --frob; see fetcher cat --help":                                                                                 "cat T --frob",
		"fetch needs a TICKET, ID or CODE;":                                                                                            "fetch",
		"fleet add takes one TICKET or PATH, not 2;":                                                                                   "fleet add a b",
		"fetch takes one TICKET, ID or CODE, not 2;":                                                                                   "fetch a b",
		`peer "x" is not a multiaddr such as /ip4/192.0.2.1/tcp/4001/p2p/12D3... (must begin with /)`:                                  "fetch bafyr4ia7sfg2elagmztpbrylvubxq73ujgvbk4s4fhbifood3yr6mrrxsy --peer x",
		`"." is the same as "../fetcher": give each PATH once`:                                                                         "share ../fetcher . --listen none",
		`"." was given twice: give each PATH once`:                                                                                     "share . . --name x --listen none",
		"--into: no share can be put into /proc/x, as nothing can be made in /proc: ":                                                  "node run --into /proc/x",
		"--into: /dev/null is not a folder":                                                                                            "node run --into /dev/null/x",
		`there is no command "fish2"; did you mean fetcher completion fish?`:                                                           "completion fish2",
		`there is no command "serve"; did you mean fetcher`:                                                                            "serve",
		`there is no command "get"; did you mean fetcher fetch?`:                                                                       "get",
		"--into is empty: give it a value":                                                                                             "node run --into=",
		"--to is empty: give it a value":                                                                                               "share . --to=",
		"--proxy is empty: give it a value":                                                                                            "share . --proxy=",
		"--holder is empty: give it a value":                                                                                           "round run --holder= -- true",
		"--dir is empty: give it a value":                                                                                              "--dir= id",
		`there is no program "./nosuch"`:                                                                                               "round run --kv sqlite:x --name x --every 1h -- ./nosuch",
		`"./input_test.go" may not be run by this user; chmod +x`:                                                                      "round run --kv sqlite:x --name x --every 1h -- ./input_test.go",
		`"../fetcher" is a folder, not a program`:                                                                                      "round run --kv sqlite:x --name x --every 1h -- ../fetcher",
		"give --fleet-secret FILE too":                                                                                                 "fleet status --fleet sqlite:x",
		"man needs a DIR; see fetcher man --help":                                                                                      "man",
		"--http-host: it is for --http: set --http too":                                                                                "node run --http-host foo --listen none",
		"--name: it must have at most 64 bytes":                                                                                        "node run --name " + strings.Repeat("x", 65),
		"unknown flag: -x; see fetcher cat --help":                                                                                     "cat T -x",
		"unknown flag: --jsno; did you mean --json?":                                                                                   "list --jsno",
		"unknown flag: --onl; did you mean --only?":                                                                                    "fetch T --onl x",
		"--name is empty: give it a value":                                                                                             "share . --name=",
		"--out is empty":                                                                                                               "fetch T --out=",
		`there is no command "main.go"; did you mean fetcher share main.go?`:                                                           "main.go",
		"a command is missing; did you mean fetcher fetch TICKET?":                                                                     "bafyr4ia7sfg2elagmztpbrylvubxq73ujgvbk4s4fhbifood3yr6mrrxsy",
		"a command is missing; did you mean fetcher fetch CODE?":                                                                       "7-marble-fossil",
		`"[" is not a pattern for paths: each [ needs its ]`:                                                                           "fetch bafyr4ia7sfg2elagmztpbrylvubxq73ujgvbk4s4fhbifood3yr6mrrxsy --only [ --listen none --peer /ip4/127.0.0.1/tcp/1/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN",
		"--every must be given: a time from 1s to 768h (32 days), such as 1h":                                                          "round run --kv sqlite:x --name x -- true",
		"completion writes a script to stdout, and takes no --json":                                                                    "completion bash --json",
		"-o: /dev/null is not a folder":                                                                                                "cat bafyr4ia7sfg2elagmztpbrylvubxq73ujgvbk4s4fhbifood3yr6mrrxsy -o /dev/null",
		"input_test.go is not a folder":                                                                                                "man input_test.go",
		`"never" cannot be given together with another value of --seed-until`:                                                          "add T --seed-until never --seed-until 2",
		"-o: input_test.go is not a folder":                                                                                            "fetch bafyr4ia7sfg2elagmztpbrylvubxq73ujgvbk4s4fhbifood3yr6mrrxsy -o input_test.go",
		"-o: /dev/null is not a folder\n":                                                                                              "fetch bafyr4ia7sfg2elagmztpbrylvubxq73ujgvbk4s4fhbifood3yr6mrrxsy -o /dev/null/x --listen none --peer /ip4/127.0.0.1/tcp/1/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN",
		"nowhere: there is no such file or folder":                                                                                     "share nowhere --listen none",
	} {
		var stdout, stderr bytes.Buffer
		code := run(append([]string{"--dir", t.TempDir()}, strings.Fields(args)...), strings.NewReader(""), &stdout, &stderr, context.Background())
		if code != exitUsage || !strings.HasPrefix(stderr.String(), "fetcher: "+says) {
			t.Errorf("fetcher %s: exit %d: %s", args, code, &stderr)
		}
	}
	if _, stderr, code := inside("depot", "export", ""); code != exitUsage || !strings.Contains(stderr, "depot export needs a FILE") {
		t.Errorf("an empty argument: exit %d: %s", code, stderr)
	}
}

// A file to write whose folder is not there, is a file, or would be below one, is a mistake in the call.
func TestAFileIsWrittenIntoAFolder(t *testing.T) {
	at := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(at, nil, 0o600))
	for name, want := range map[string]string{filepath.Join(at, "y"): at + " is not a folder", filepath.Join(at, "x", "y"): "there is no folder " + filepath.Join(at, "x"),
		filepath.Join(at+"no", "y"): "there is no folder " + at + "no"} {
		if err := inFolder(name); !errors.As(err, new(usageError)) || err.Error() != want {
			t.Errorf("%s: %T %v, want %s", name, err, err, want)
		}
	}
}

// An ID is looked for without a bound of its own if whoever has the share is named, or is asked for in a table or a fleet.
func TestAnIDIsAloneIfNothingElseIsGiven(t *testing.T) {
	const id = "bafyr4ibxrg7vul2qwzzo3jvdxkcg22ggqjjze65jz72yktaxgogxt4y7hi"
	c := (&app{}).fetchCommand()
	for name, x := range map[string]struct {
		fl   fetchFlags
		is   bool
		look time.Duration
	}{
		"alone":     {fetchFlags{reach: reachFlags{lan: true}}, true, lookTime},
		"nowhere":   {fetchFlags{}, true, slowAfter / 2},
		"a table":   {fetchFlags{reach: reachFlags{dht: []string{"public"}}}, true, 0},
		"a peer":    {fetchFlags{peers: []string{"/ip4/192.0.2.1/tcp/1"}}, false, 0},
		"called":    {fetchFlags{called: true}, false, 0},
		"a fleet":   {fetchFlags{fleet: fleetFlags{store: storeFlags{url: "x"}}}, false, 0},
		"its chief": {fetchFlags{fleet: fleetFlags{from: "x"}}, false, 0},
	} {
		if got := x.fl.alone(c, id); got.is != x.is || got.look != x.look {
			t.Errorf("%s: %+v", name, got)
		}
	}
	must(t, c.Flags().Set("stall", "5m"))
	if got := (fetchFlags{reach: reachFlags{lan: true}}).alone(c, id); !got.is || got.look != 0 {
		t.Errorf("with --stall: %+v", got)
	}
}

// A ticket that names nobody is not an ID, and whoever has it is not sent to ask for a ticket.
func TestATicketThatNamesNobodyIsNoLoneID(t *testing.T) {
	at := share.IDOf([]byte("x"))
	for what, want := range map[string][2]string{at.String(): {"only an ID was given, and ", "for the ticket"}, share.Ticket{ID: at}.String(): {"the ticket names no peer, and ", "of a node that listens"}} {
		id := (fetchFlags{reach: reachFlags{lan: true}}).alone((&app{}).fetchCommand(), what)
		if err := id.unfound(fetcher.ErrUnfound); !id.is || !strings.HasPrefix(id.says(), want[0]) || !errors.Is(err, fetcher.ErrNoSource) || !strings.Contains(advice(err), want[1]) {
			t.Errorf("%s: %+v; %s; %v", what, id, id.says(), err)
		}
	}
}

// That a hash table cannot be reached is not said to mean that nobody there has the share.
func TestATableThatCannotBeReachedIsNamed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	id := share.IDOf([]byte("x")).String()
	dead := "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWMoMcABCBb2XGPeqif4B5js5S5jJvPGsg6zme8Ui5o6Ap"
	for table, why := range map[string]string{dead: "8Ui5o6Ap (refused: ", "own": "no node in it is known"} {
		for _, with := range [][]string{{"fetch", "-o", t.TempDir()}, {"cat"}} {
			r := finish(t, exec.Command(built(t), append(with, id, "--dir", t.TempDir(), "--lan=false", "--listen", "127.0.0.1:0", "--stall", "3s", "--dht", table)...), nil)
			if r.code != exitNetwork || strings.Contains(r.stderr, "nobody in the hash table") || !strings.Contains(r.stderr, "cannot be reached yet; still trying") ||
				!strings.Contains(r.stderr, "could not be reached: "+why) || !strings.Contains(r.stderr, "Check that this machine can reach the table") {
				t.Errorf("%s with %s: exit %d, %s", with[0], table, r.code, r.stderr)
			}
		}
	}
}

// An ID alone ends alike whether or not its list of files is known here.
func TestAnIDWhoseListIsKnownEndsAsAnyOther(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file, dir := filepath.Join(t.TempDir(), "file"), t.TempDir()
	rig.WriteRandom(t, file, 10, 1)
	s := startShare(t, file)
	if r := inDir(t, dir, "ls", s.ticket); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	dead := "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWMoMcABCBb2XGPeqif4B5js5S5jJvPGsg6zme8Ui5o6Ap"
	for name, x := range map[string]struct {
		with []string
		code int
		says string
	}{
		"nowhere": {nil, exitUsage, "fetcher: found nobody who has the share"},
		"a table": {[]string{"--dht", dead, "--stall", "3s"}, exitNetwork, "found nobody who has the share: the hash table could not be reached: 8Ui5o6Ap (refused: "},
	} {
		for _, cmd := range [][]string{{"fetch", "-o", t.TempDir()}, {"cat"}, {"cat", "-o", t.TempDir()}} {
			r := finish(t, exec.Command(built(t), append(append(cmd, s.id, "--dir", dir, "--lan=false", "--listen", "127.0.0.1:0"), x.with...)...), nil)
			if r.code != x.code || !strings.Contains(r.stderr, x.says) {
				t.Errorf("%s, %s: exit %d, %s", name, cmd, r.code, r.stderr)
			}
		}
	}
}

// No name in an error, or in what it says to run, sends control codes to a terminal.
func TestErrorsAreSafeForATerminal(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("names have no control characters here")
	}
	top := filepath.Join(t.TempDir(), "a\x1b[31mb")
	rig.WriteRandom(t, filepath.Join(top, "sub", "c\x1b"), 10, 1)
	for says, at := range map[string]string{`"a\x1b[31mb" holds a control character; give the share another name with --name`: top, `"c\x1b" holds a control character`: filepath.Join(top, "sub")} {
		if r := command(t, "share", at, "--listen", "none"); r.code == 0 || strings.Contains(r.stderr, "\x1b") || !strings.Contains(r.stderr, says) || strings.Contains(r.stderr, "--links") {
			t.Errorf("exit %d: %q", r.code, r.stderr)
		}
	}
	if p, exact := literal("a\x1bb*"); p != `a?b\*` || exact {
		t.Errorf("%q", p)
	}
	if p, exact := literal("a?b*"); p != `a\?b\*` || !exact {
		t.Errorf("%q", p)
	}
}

// Ctrl-C ends a command that waits for a ticket on a terminal, or for the rest of one.
func TestAWaitForATicketOnStdinCanBeEnded(t *testing.T) {
	for _, args := range []string{"fetch -", "ls -", "cat -", "fleet join -"} {
		in, to := io.Pipe() // nothing comes
		defer to.Close()
		ctx, stop := context.WithCancelCause(t.Context())
		stop(signalled{os.Interrupt})
		var stdout, stderr bytes.Buffer
		if code := run(append([]string{"--dir", t.TempDir()}, strings.Fields(args)...), in, &stdout, &stderr, ctx); code != exitInterrupted {
			t.Errorf("fetcher %s: exit %d: %s", args, code, &stderr)
		}
	}
}

// What a shell shows beside a flag has no quotes around the name of its value.
func TestCompletionsHaveNoQuotes(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run([]string{"__complete", "fetch", "--"}, strings.NewReader(""), &stdout, &stderr, t.Context())
	if code != 0 || strings.Contains(stdout.String(), "`") || !strings.Contains(stdout.String(), "this folder, DIR") {
		t.Errorf("exit %d: %s %s", code, &stdout, &stderr)
	}
}

// The values that the help names are offered.
func TestCompletionsOfferTheValuesOfFlags(t *testing.T) {
	for typed, want := range map[string]string{"share --visible": "private lan public", "add --visible": "private lan public", "set --visible": "private lan public",
		"node run --depot-price": "free passes", "depot account add --price": "free passes", "depot account set --price": "free passes", "fetch --dht": "own public"} {
		out, _, code := inside(append(append([]string{"__complete"}, strings.Fields(typed)...), "")...)
		if code != 0 || !strings.HasPrefix(out, strings.ReplaceAll(want, " ", "\n")+"\n:") {
			t.Errorf("%s: exit %d, %q", typed, code, out)
		}
	}
}

// What is wrong in node.toml is said with its name, and what a flag makes wrong with that of the flag.
func TestWhatIsWrongInTheSettingsSaysWhere(t *testing.T) {
	for _, x := range []struct{ file, args, wants string }{
		{`via = ["x"]`, "", `node.toml: via: "x" is not an address of a relay`},
		{`announce = ["x"]`, "", `node.toml: announce: "x" is not an address to announce`},
		{`listen = ["x"]`, "", `node.toml: listen: "x" is not an address to listen on`},
		{`http = "x"`, "", "node.toml: http: give an address to answer at, such as 127.0.0.1:4820"},
		{`relay-carries = "1G"`, "", "node.toml: relay-carries: it is for a relay"},
		{`depot-open = "1G"`, "", "node.toml: depot-open: it is for a depot: set depot too"},
		{"", "--depot-grace 7d", "--depot-grace: it is for a depot: set --depot too"},
		{"", "--depot-reserve 1G", "--depot-reserve: it is for a depot"},
		{"", "--depot-price passes", "--depot-price: it is for a depot"},
		{`depot-grace = "7d"`, "--depot /d", ""},
		{`http-cert = "/c"`, "", "node.toml: http-cert: it is for http: set http too"},
		{`fleet = "sqlite:/x"`, "", "node.toml: fleet, the URL"},
		{"", "--http-host foo", "--http-host: it is for --http: set --http too"},
		{"", "--http-key k", "--http-key: it is for --http: set --http too"},
		{"", "--http-insecure", "--http-insecure: it is for --http: set --http too"},
		{"", "--http 127.0.0.1:99999", `--http: "127.0.0.1:99999" is not an address to answer at: a port is a number, at most 65535`},
		{"", "--http 127.0.0.1:abc", "a port is a number"},
		{"", "--http foo", "--http: give an address to answer at, such as"},
		{"", "--http 1.2.3.4:80", "give --http-cert and --http-key, or --http-insecure"},
		{"", "--http 127.0.0.1:0 --http-cert c", "--http: TLS needs both --http-cert and --http-key"},
		{"", "--relay-carries 1G", "--relay-carries: it is for a relay: set --relay too"},
		{"", "--relay --relay-carries 200K", "--relay-carries: it must be from 1048576 bytes (1.05 MB) to 1126 TB, not 200 kB; without it, no content is carried"},
		{"", "--socket x", "--socket: it must be a path from the root"},
		{"", "--name " + strings.Repeat("x", 999), "--name: it must have at most"},
		{"", "--via x", `--via: "x" is not an address of a relay`},
		{"", "--announce x", `--announce: "x" is not an address to announce`},
		{"", "--listen x", `--listen: "x" is not an address to listen on`},
		{"", "--fleet sqlite:/x", "--fleet, the URL of the fleet's store, and --fleet-secret,"},
		{`http = "127.0.0.1:0"`, "--http x", "--http: give an address"},
		{`http-key = "/k"`, "--http 127.0.0.1:0 --http-cert c", ""},
		{`relay-carries = "1G"`, "--relay", ""},
	} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "node.toml"), []byte(x.file), 0o600))
		fl, flags := nodeFlags{}, pflag.NewFlagSet("", pflag.ContinueOnError)
		fl.add(flags)
		must(t, flags.Parse(strings.Fields(x.args)))
		_, err := asker{&app{flags: globals{dir: dir}}}.settings(fl)
		if x.wants == "" && err != nil || x.wants != "" && (!errors.As(err, new(usageError)) || !strings.Contains(err.Error(), x.wants)) {
			t.Errorf("%s, %s: %v", x.file, x.args, err)
		}
	}
}

// A state directory that is a file, or below one, or may not be made, is said so by every command, with what to do.
func TestAFileInTheWayOfTheStateDirectoryIsNamed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	rig.WriteRandom(t, file, 10, 1)
	token := daemon.Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}.Token()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(link+"ed", link); err != nil {
		t.Skip(err)
	}
	for dir, says := range map[string]string{file: file + " cannot be a folder: a file is in its way", filepath.Join(file, "below"): file + " cannot be a folder: a file is in its way", filepath.Join(link, "below"): link + " is a link that leads nowhere"} {
		for _, args := range []string{"share " + file, "ls " + file, "id", "list", "add " + file, "node run", "node status", "node open", "holds", "depot status", "round list",
			"fleet status", "fleet run", "fleet leave", "fleet join " + token, "fleet invite --fleet sqlite:" + filepath.Join(t.TempDir(), "kv")} {
			_, said, code := inside(append(strings.Fields(args), "--dir", dir)...)
			if code != exitOther || !strings.Contains(said, "the state directory cannot be used: "+says) || !strings.Contains(said, "Name another folder with --dir") {
				t.Errorf("%s: exit %d, %s", args, code, said)
			}
		}
		out, _, code := inside("doctor", "--dir", dir)
		if code != exitOther || !strings.Contains(out, says) || strings.Contains(out, "node run starts one") {
			t.Errorf("doctor: exit %d, %s", code, out)
		}
	}
}

// What a fleet or a node keeps in a state directory that cannot be used is said to be that.
func TestAStateDirectoryThatMayNotBeUsedIsNamed(t *testing.T) {
	t.Parallel()
	taken, closed, shut := t.TempDir(), t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(taken, "fleet.json"), 0o700))
	must(t, os.Mkdir(filepath.Join(taken, "node.toml"), 0o700))
	must(t, os.Chmod(closed, 0o500))
	must(t, os.Chmod(shut, 0))
	dirs := map[string]string{taken: "fleet.json cannot be"}
	if runtime.GOOS != "windows" && os.Getuid() != 0 { // root may use all
		dirs[closed], dirs[shut] = "fleet.json cannot be made: permission denied", "fleet.json cannot be opened: permission denied"
	}
	token := daemon.Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}.Token()
	for dir, says := range dirs {
		for args, says := range map[string]string{"fleet join " + token: says, "node run": "cannot be"} {
			_, said, code := inside(append(strings.Fields(args), "--dir", dir)...)
			if code != exitOther || !strings.Contains(said, "the state directory cannot be used: ") || !strings.Contains(said, says) || !strings.Contains(said, "Name another folder with --dir") {
				t.Errorf("%s: exit %d, %s", args, code, said)
			}
		}
	}
}
