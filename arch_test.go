package fetcher_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

const module = "github.com/piecelease/fetcher"

// layers is the architecture: each package, and what it may import of ours.
// "." is the root. A package that is not listed fails; one that is listed and
// does not exist yet is fine. Tests may import what they like.
var layers = map[string]string{
	// pure
	"share":       "",
	"peers":       "internal/bounds",
	"leasemgr":    "share peers internal/bounds internal/words",
	"fetchpool":   "share peers internal/bounds internal/times internal/words",
	"verifier":    "share peers",
	"fleet":       "share peers leasemgr rounds wire internal/bounds internal/times internal/words",
	"transfer":    "share peers leasemgr fleet wire internal/bounds internal/few internal/times internal/words",
	"rounds":      "internal/words",
	"renewal":     "share peers internal/bounds internal/times internal/words",
	"passes":      "",
	"depot":       "share",
	"beacon":      "share peers internal/times",
	"spoken":      "",
	"wire":        "share peers",
	"wire/wirepb": "",

	// shells
	"internal/sqlitedb": "internal/words",
	"store/vfs":         "share",
	"store":             "share peers wire store/vfs internal/words",
	"store/storetest":   "share peers wire store store/vfs",
	"passes/issuer":     "passes share peers depot wire store/vfs internal/words",
	"passes/purse":      "passes share peers depot wire internal/turns internal/words",
	"leasedb":           "share peers depot renewal internal/sqlitedb",
	"depot/disk":        "share peers depot store store/vfs internal/words",
	"depot/archive":     "share internal/words",
	"catalog":           "share passes renewal internal/sqlitedb store/vfs",
	"discovery":         ". share peers",
	"discovery/dht":     ". p2p share peers",
	"p2p":               "share peers wire internal/bounds internal/few internal/words",
	"actors/system":     "peers wire internal/words",
	"actors":            "share peers beacon depot leasemgr fetchpool verifier fleet transfer rounds renewal spoken wire actors/system internal/times internal/turns internal/words",
	"depot/keep":        "actors depot depot/disk share store",
	"rounds/kvtest":     "rounds",
	"rounds/memkv":      "rounds",
	"rounds/sqlitekv":   "rounds internal/sqlitedb",
	"internal/trust":    "rounds internal/words",
	"rounds/natskv":     "rounds internal/trust internal/words",
	"rounds/etcdkv":     "rounds internal/trust",
	"rounds/kvurl":      "rounds rounds/sqlitekv rounds/natskv rounds/etcdkv",
	".":                 "share peers depot depot/disk depot/keep leasemgr fetchpool verifier fleet transfer rounds renewal spoken wire store p2p actors actors/system store/vfs internal/bounds internal/words",
	"api":               ". share store/vfs internal/words",
	"daemon":            ". share peers renewal discovery discovery/dht rounds rounds/kvurl leasedb depot/disk depot/archive depot passes passes/issuer passes/purse catalog api store store/vfs internal/bounds internal/turns internal/words",
	"web":               "",
	// simnet models links, in the types that actors declares them with, and runs
	// the real store over a modelled disk.
	"simnet/model":     "actors/system",
	"simnet":           ". actors fleet transfer rounds rounds/memkv p2p share peers wire store store/storetest actors/system store/vfs simnet/model internal/words",
	"simnet/depots":    "actors catalog depot depot/disk depot/keep leasedb peers renewal share simnet store store/storetest store/vfs wire",
	"simnet/scenarios": "actors depot fleet peers renewal rounds share simnet simnet/depots spoken store store/storetest wire",
	"simnet/bubble":    ". actors p2p share peers wire store store/storetest simnet store/vfs",
	"simnet/cores":     "share peers leasemgr fetchpool verifier",
	"simnet/report":    "simnet internal/words",
	"bench":            "",
	"internal/rig":     "", // for tests alone
	"internal/bounds":  "internal/words",
	"internal/few":     "",
	"internal/times":   "",
	"internal/turns":   "",
	"internal/words":   "",
	"cmd/fetcher":      ". actors/system api daemon discovery discovery/dht depot/archive share peers store web simnet simnet/report rounds rounds/kvurl store/vfs simnet/scenarios internal/few internal/words",
	// As others would write them, in modules of their own.
	"deploy/licences":     "", // what packages list
	"examples/downloader": ".",
	"examples/gateway":    ".",
	"examples/private":    ". share peers",
}

// only names who may import a dependency that is heavy, or that would let a
// second package have an idea that belongs to one. The keys are prefixes.
var only = map[string]string{
	"github.com/asynkron/protoactor-go":      "actors actors/system",
	"github.com/libp2p/zeroconf/":            "discovery",
	"github.com/libp2p/":                     "p2p discovery/dht simnet simnet/bubble",
	"github.com/quic-go/":                    "p2p simnet simnet/bubble",
	"github.com/multiformats/go-multiaddr":   "share p2p discovery discovery/dht simnet simnet/bubble . cmd/fetcher",
	"github.com/bits-and-blooms/bitset":      "share leasemgr fetchpool",
	"github.com/ipld/":                       "share",
	"github.com/ipfs/":                       "share discovery/dht",
	"github.com/multiformats/go-multihash":   "share discovery/dht",
	"github.com/multiformats/go-multistream": "p2p",
	"github.com/bwesterb/go-ristretto":       "spoken",
	"github.com/cloudflare/circl":            "passes",
	"github.com/gtank/ristretto255":          "passes",
	"lukechampine.com/blake3":                "share store store/vfs",
	"google.golang.org/protobuf/encoding":    "wire",
	"google.golang.org/protobuf":             "wire wire/wirepb",
	module + "/wire/wirepb":                  "",
	"github.com/coreos/go-systemd/":          "cmd/fetcher",
	"github.com/danielgtaylor/huma/":         "api",
	"github.com/pelletier/go-toml/":          "daemon",
	"github.com/fsnotify/":                   "daemon",
	"github.com/prometheus/":                 "daemon p2p", // p2p: a registry of its own for libp2p
	"github.com/spf13/":                      "cmd/fetcher",
	"github.com/boombuler/":                  "cmd/fetcher",
	"golang.org/x/term":                      "cmd/fetcher",
	"zombiezen.com/":                         "internal/sqlitedb leasedb catalog rounds/sqlitekv simnet/depots",
	"modernc.org/":                           "",
	"github.com/nats-io/":                    "rounds/natskv",
	"go.etcd.io/":                            "rounds/etcdkv",
	"google.golang.org/grpc":                 "rounds/etcdkv",
	"go.uber.org/zap":                        "rounds/etcdkv",
	"html/template":                          "", // see the page type in simnet/report
	"text/template":                          "",
	"testing":                                "store/storetest rounds/kvtest simnet/bubble internal/rig",
	"github.com/zeebo/blake3":                "share",
	"github.com/anishathalye/porcupine":      "rounds/kvtest",
	"pgregory.net/rapid":                     "internal/rig store/storetest rounds/kvtest simnet/bubble",
	"go.uber.org/goleak":                     "store/storetest rounds/kvtest simnet/bubble internal/rig",
	"github.com/stretchr/":                   "",
}

// pure packages get the time as an argument and start nothing.
var pure = []string{"internal/bounds", "internal/times", "internal/words", "share", "peers", "leasemgr", "fetchpool", "verifier", "fleet", "transfer", "rounds", "renewal", "passes", "depot", "beacon", "wire"}

// impure are the imports that a pure package has no use for, with everything below them.
var impure = []string{
	"net", "os", "io/fs", "io/ioutil", "path/filepath", "log", "sync", "context",
	"syscall", "runtime", "unsafe", "math/rand", "crypto/rand", "plugin", "database",
	"golang.org/x/sys", "golang.org/x/sync", "golang.org/x/time",
}

// pureImports are exceptions to impure: package, import, and the reason.
var pureImports = map[[2]string]string{
	{"peers", "golang.org/x/time/rate"}: "a token bucket that is told the time",
	{"rounds", "context"}:               "calls of its store are bounded",
	{"internal/words", "io/fs"}:         "the type of errors about files",
	{"internal/words", "syscall"}:       "the number of one of them",
	{"transfer", "io/fs"}:               "what readers are told of a file that is not there",
	{"share", "unsafe"}:                 "paths and piece values are parts of a manifest's bytes",
	{"share", "golang.org/x/sys/cpu"}:   "which instructions hashing may use; its values are the same with all",
}

// clock lists what reads the clock or waits for it.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick"}

// seeded lists what may be used of math/rand/v2 where chance comes from a seed;
// everything else in it draws from the global source.
var seeded = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "PCG", "ChaCha8", "Zipf", "Source"}

// A source is one Go file of ours.
type source struct {
	pkg, file string // the package's folder, and the path of the file
	*ast.File
}

var fset = token.NewFileSet()

// sources is every file of the module except tests and testdata, for all systems.
func sources(t *testing.T) []source {
	return files(t, func(name string) bool { return !strings.HasSuffix(name, "_test.go") })
}

func files(t *testing.T, want func(name string) bool) []source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	out := slices.DeleteFunc(slices.Clone(all), func(s source) bool { return !want(path.Base(s.file)) })
	if len(out) == 0 {
		t.Fatal("no Go files here")
	}
	return out
}

// parsed is every file of the module except testdata, which nobody changes.
var parsed = sync.OnceValues(func() (out []source, err error) {
	err = filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (name == "testdata" || name[0] == '.' || name[0] == '_'):
			return filepath.SkipDir
		case d.IsDir() && file != "." && isModule(file):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		f, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		file = filepath.ToSlash(file)
		out = append(out, source{path.Dir(file), file, f})
		return nil
	})
	return out, err
})

// isModule reports whether a folder is a module of its own.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// imports yields the paths that a file imports, each with its name in that file.
func (s source) imports() map[string]string {
	out := map[string]string{}
	for _, i := range s.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		name := path.Base(p)
		if name == "v2" {
			name = path.Base(path.Dir(p))
		}
		if i.Name != nil {
			name = i.Name.Name
		}
		out[p] = name
	}
	return out
}

// under reports whether an import is dep or lies below it.
func under(imp, dep string) bool {
	return imp == dep || strings.HasPrefix(imp, strings.TrimSuffix(dep, "/")+"/")
}

func has(list, pkg string) bool { return slices.Contains(strings.Fields(list), pkg) }

func TestImportsGoDown(t *testing.T) {
	rig.Slow(t)
	for _, s := range sources(t) {
		may, listed := layers[s.pkg]
		if !listed {
			t.Errorf("%s: package %s is not in layers", s.file, s.pkg)
		}
		for imp := range s.imports() {
			to, ours := strings.CutPrefix(imp, module+"/")
			if imp == module {
				to, ours = ".", true
			}
			if ours && !has(may, to) {
				t.Errorf("%s: %s must not import %s", s.file, s.pkg, to)
			}
		}
	}
}

func TestDependenciesHaveOneHome(t *testing.T) {
	for _, s := range sources(t) {
		for imp := range s.imports() {
			home := "" // the longest key wins
			for dep := range only {
				if under(imp, dep) && len(dep) > len(home) {
					home = dep
				}
			}
			if home != "" && !has(only[home], s.pkg) {
				t.Errorf("%s: only %q may import %s", s.file, only[home], imp)
			}
		}
	}
}

func TestTheRaceDetectorPassesOverPurePackagesAlone(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(makefile), "\nRACELESS = ")
	list, _, _ := strings.Cut(rest, "\n")
	for pkg := range strings.SplitSeq(list, "|") {
		if !slices.Contains(pure, pkg) || pureImports[[2]string{pkg, "unsafe"}] != "" {
			t.Errorf("make race leaves out %q, which is not pure or has unsafe code", pkg)
		}
	}
}

// Beside a bubble of testing/synctest the race detector reports races that are none, or crashes
// (golang/go issue 78156), so that no other test runs then.
func TestNoTestRunsBesideABubble(t *testing.T) {
	all := files(t, func(string) bool { return true })
	bubbles := map[[2]string]bool{} // functions that begin one, by their packages
	for found := -1; found < len(bubbles); {
		found = len(bubbles)
		for _, s := range all {
			for _, d := range s.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				calls := called(f)
				bubble := calls["synctest.Test"] || calls["bubble.Test"]
				for name := range calls {
					bubble = bubble || bubbles[[2]string{s.pkg, name}]
				}
				if key := [2]string{s.pkg, f.Name.Name}; bubble && f.Recv == nil && !bubbles[key] {
					bubbles[key] = true
					if calls["t.Parallel"] {
						t.Errorf("%s: %s has a bubble, and runs beside other tests", s.file, f.Name)
					}
				}
			}
		}
	}
}

// called is what a function calls, as x.name or name.
func called(f *ast.FuncDecl) map[string]bool {
	calls := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok {
			switch fun := c.Fun.(type) {
			case *ast.SelectorExpr:
				calls[fmt.Sprint(fun.X, ".", fun.Sel)] = true
			case *ast.Ident:
				calls[fun.Name] = true
			}
		}
		return true
	})
	return calls
}

func TestPurePackagesTouchNothing(t *testing.T) {
	for _, s := range sources(t) {
		if !slices.Contains(pure, s.pkg) {
			continue
		}
		for imp, name := range s.imports() {
			bad := slices.ContainsFunc(impure, func(dep string) bool { return under(imp, dep) })
			if (bad && imp != "math/rand/v2" && pureImports[[2]string{s.pkg, imp}] == "") || name == "." {
				t.Errorf("%s: imports %s", s.file, imp)
			}
		}
		s.noClock(t)
		s.uses("math/rand/v2", func(name string, at token.Pos) {
			if !slices.Contains(seeded, name) {
				t.Errorf("%s: rand.%s draws from the global source", fset.Position(at), name)
			}
		})
	}
}

func TestOneDoorForTimeAndGoroutinesInActors(t *testing.T) {
	for _, s := range sources(t) {
		if under(s.pkg, "actors") && s.file != "actors/system/runtime.go" {
			s.noClock(t)
		}
	}
}

// An actor's Receive says which method hears a message: each case is one call or assignment, and perhaps a return.
func TestReceiveIsASwitchOfCalls(t *testing.T) {
	for _, s := range sources(t) {
		if s.pkg != "actors" {
			continue
		}
		for _, d := range s.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Name.Name != "Receive" {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				c, ok := n.(*ast.CaseClause)
				if !ok || len(c.Body) == 0 {
					return true
				}
				rest := c.Body[1:]
				if len(rest) == 1 {
					if _, ok := rest[0].(*ast.ReturnStmt); ok {
						rest = nil
					}
				}
				switch c.Body[0].(type) {
				case *ast.ExprStmt, *ast.AssignStmt, *ast.ReturnStmt:
				default:
					rest = c.Body
				}
				if len(rest) > 0 {
					t.Errorf("%s: a case of more than a call", fset.Position(c.Pos()))
				}
				return true
			})
		}
	}
}

// A flag belongs to the command: a program that embeds a node has fields, and reads their names.
func TestFlagsAreNamedInTheCommandAlone(t *testing.T) {
	for _, s := range sources(t) {
		if under(s.pkg, "cmd") || s.pkg == "simnet/bubble" { // which says how to run a seed again
			continue
		}
		ast.Inspect(s.File, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING && flagged.MatchString(l.Value) {
				t.Errorf("%s: %s names a flag", fset.Position(l.Pos()), l.Value)
			}
			return true
		})
	}
}

var flagged = regexp.MustCompile(`(^|[^-\w])--[a-z]`)

// lifecycle is what package actors may use of protoactor: what an actor is, the messages of
// its life cycle, and addresses. Everything else of it is package system's.
var lifecycle = []string{"Actor", "Context", "PID", "Started", "Stopping", "Stopped", "Restarting", "Terminated",
	"SystemMessage", "AutoReceiveMessage", "DeadLetterResponse"}

func TestOneDoorToTheActorLibrary(t *testing.T) {
	for _, s := range sources(t) {
		if s.pkg != "actors" {
			continue
		}
		for imp := range s.imports() {
			if under(imp, "github.com/asynkron/protoactor-go") && imp != "github.com/asynkron/protoactor-go/actor" {
				t.Errorf("%s: imports %s", s.file, imp)
			}
		}
		s.uses("github.com/asynkron/protoactor-go/actor", func(name string, at token.Pos) {
			if !slices.Contains(lifecycle, name) {
				t.Errorf("%s: actor.%s", fset.Position(at), name)
			}
		})
	}
}

// noClock fails for go statements and for everything that asks the time.
func (s source) noClock(t *testing.T) {
	t.Helper()
	ast.Inspect(s.File, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			t.Errorf("%s: go statement", fset.Position(g.Pos()))
		}
		return true
	})
	s.uses("time", func(name string, at token.Pos) {
		if slices.Contains(clock, name) {
			t.Errorf("%s: time.%s", fset.Position(at), name)
		}
	})
}

// uses calls f for every name of package imp that the file mentions.
func (s source) uses(imp string, f func(name string, at token.Pos)) {
	as, ok := s.imports()[imp]
	if !ok {
		return
	}
	ast.Inspect(s.File, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == as {
				f(sel.Sel.Name, sel.Pos())
			}
		}
		return true
	})
}

// A program that embeds a node does not link the stores of rounds, or what they need, nor what finds peers on networks.
func TestEmbeddersLinkNoStore(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".", "./rounds").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.Lines(string(out)) {
		dep = strings.TrimSpace(dep)
		for _, store := range []string{"zombiezen.com", "modernc.org", "github.com/nats-io", "go.etcd.io", "google.golang.org/grpc",
			"github.com/danielgtaylor", "github.com/pelletier", "github.com/fsnotify", "github.com/coreos", "github.com/libp2p/zeroconf", "github.com/libp2p/go-libp2p-kad-dht", module + "/discovery", module + "/api", module + "/daemon", module + "/catalog", module + "/leasedb", module + "/web"} {
			if under(dep, store) {
				t.Errorf("an embedder links %s", dep)
			}
		}
	}
}

func TestEveryPackageHasOnePackageComment(t *testing.T) {
	comments := map[string][]string{} // package: files that have one
	for _, s := range sources(t) {
		if comments[s.pkg] == nil {
			comments[s.pkg] = []string{}
		}
		if s.Doc == nil || ast.IsGenerated(s.File) {
			continue
		}
		comments[s.pkg] = append(comments[s.pkg], s.file)
		want := "Package " + s.Name.Name + " "
		if s.Name.Name == "main" {
			want = "Command " + path.Base(s.pkg) + " "
		}
		if text := s.Doc.Text(); !strings.HasPrefix(text, want) {
			t.Errorf("%s: package comment begins %q, not %q", s.file, strings.SplitN(text, "\n", 2)[0], want)
		}
	}
	for pkg, files := range comments {
		if len(files) != 1 {
			t.Errorf("%s has %d package comments: %v", pkg, len(files), files)
		}
	}
}

func TestNoBinaryLinksTestingCode(t *testing.T) {
	rig.Slow(t)
	if _, err := os.Stat("cmd/fetcher"); err != nil {
		t.Skip("no command yet")
	}
	const library = "github.com/libp2p/go-libp2p-kad-dht" // has options that only its own tests can use
	out, err := exec.Command("go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./cmd/fetcher").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		deps := strings.Fields(line)
		for _, dep := range deps[1:] {
			switch dep {
			case "testing", "testing/synctest", "pgregory.net/rapid", "go.uber.org/goleak":
				if deps[0] != library {
					t.Errorf("%s links %s", deps[0], dep)
				}
			}
		}
	}
}
