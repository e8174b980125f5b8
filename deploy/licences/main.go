// Command licences writes the licences of everything that a build of fetcher contains, for the
// system and processor that GOOS and GOARCH name, to stdout. Its arguments are those of
// go build. It fails if a module has none.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	found, err := collect(os.Args[1:])
	if err == nil {
		err = found.write(os.Stdout)
	}
	if err != nil {
		log.Fatalln("licences:", err)
	}
}

// licences are texts, each with the names of what it covers.
type licences map[string][]string

// named are the files of a folder that a licence requires to be passed on.
var named = regexp.MustCompile(`(?i)^(licen[sc]e|copying|copyright|notice|patents|unlicense)`)

// read adds the licences in a folder, which covers names, and says whether there are any.
func (l licences) read(dir, covers string) (bool, error) {
	all, err := os.ReadDir(dir)
	any := false
	for _, f := range all {
		if f.IsDir() || !named.MatchString(f.Name()) || strings.HasSuffix(f.Name(), ".go") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return any, err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
		if any = true; !slices.Contains(l[text], covers) {
			l[text] = append(l[text], covers)
		}
	}
	return any, err
}

// pkg is a package, as go list reports it.
type pkg struct {
	Dir, ImportPath string
	Module          *struct {
		Path, Version, Dir string
		Main               bool
	}
}

// collect reads the licences of the packages of a build: those in the folder of a
// package, and in each above it in its module.
func collect(build []string) (licences, error) {
	l := licences{}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	if any, err := l.read(strings.TrimSpace(string(root)), "the Go programming language"); err != nil || !any {
		return nil, errors.Join(errors.New("no licence of Go itself in GOROOT"), err)
	}
	list := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,ImportPath,Module"}, build...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	has := map[string]bool{} // by module
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if p.Module == nil {
			continue // of the standard library
		}
		m := strings.TrimSpace(p.Module.Path + " " + p.Module.Version)
		for dir := p.Dir; strings.HasPrefix(dir, p.Module.Dir); dir = filepath.Dir(dir) {
			covers := m
			if dir != p.Module.Dir {
				covers += ", in " + filepath.ToSlash(strings.TrimPrefix(dir, p.Module.Dir+string(filepath.Separator)))
			}
			any, err := l.read(dir, covers)
			if err != nil {
				return nil, err
			}
			has[m] = has[m] || any
		}
	}
	for m, any := range has {
		if !any {
			return nil, fmt.Errorf("%s has no licence", m)
		}
	}
	return l, nil
}

// write writes each text once, below the names of what it covers.
func (l licences) write(to io.Writer) error {
	for _, covers := range l {
		slices.Sort(covers)
	}
	w := bufio.NewWriter(to)
	fmt.Fprintln(w, "The program fetcher contains the works listed here, each under the licence whose text follows its name.")
	texts := slices.SortedFunc(maps.Keys(l), func(a, b string) int { return cmp.Or(slices.Compare(l[a], l[b]), cmp.Compare(a, b)) })
	for _, text := range texts {
		fmt.Fprintf(w, "\n%s\n", strings.Repeat("=", 80))
		for _, covers := range l[text] {
			fmt.Fprintln(w, covers)
		}
		fmt.Fprintf(w, "%s\n\n%s\n", strings.Repeat("-", 80), text)
	}
	return w.Flush()
}
