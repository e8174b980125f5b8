package share

import (
	"fmt"
	"strings"
)

// linkProblems is what is wrong with the symlinks among entries: targets that no
// system can hold, and links that lead out of the share.
//
// A link is resolved as a kernel would, step by step through the entries
// themselves, so x -> . with l -> x/x/../.. is seen to leave. What is not there,
// or is a file, is passed as if it was a directory, because it may become one. A
// circle leads nowhere, and so not out. Each link is resolved once and the walk
// keeps its own stack, so the work is linear in the manifest's size, whatever it says.
func linkProblems(entries []Entry) []PathProblem {
	var out []PathProblem
	var t *tree
	for i := range entries {
		e := &entries[i]
		if e.Kind != Symlink {
			continue
		}
		if why := badTarget(e.Target); why != "" {
			out = append(out, PathProblem{e.Path, why})
			continue
		}
		if t == nil {
			t = newTree(entries)
		}
		if t.resolve(t.of[i]) == outside {
			out = append(out, PathProblem{e.Path, fmt.Sprintf("is a link to %q, which leaves the share", e.Target)})
		}
	}
	return out
}

// badTarget says what is wrong with a link's target in itself; "" if nothing.
func badTarget(target string) string {
	switch {
	case target == "":
		return "is a link to nothing"
	case target[0] == '/':
		return fmt.Sprintf("is a link to %q, which is absolute", target)
	}
	if why := badText(target); why != "" {
		return "is a link whose target " + why
	}
	return ""
}

// spot is a file, link or directory of a tree.
type spot int32

const (
	root    spot = 0
	outside spot = -1 // beyond the root
	nowhere spot = -2 // a circle of links
	unknown spot = -3 // a link nobody has resolved yet
	walking spot = -4 // a link being resolved
)

// tree is a share as a file system would hold it, directories included.
type tree struct {
	children map[edge]spot
	nodes    []treeNode // by spot
	of       []spot     // by entry
}

type edge struct {
	above spot
	name  string
}

type treeNode struct {
	above spot
	link  string // the target, of a link that has a possible one
	leads spot   // where the link leads
	below int    // ... and how many steps below that, among what is not there
}

func newTree(entries []Entry) *tree {
	t := &tree{
		children: make(map[edge]spot, len(entries)),
		nodes:    make([]treeNode, 1, len(entries)+1),
		of:       make([]spot, len(entries)),
	}
	dir, at := "", root // the directory of the entry before
	for i := range entries {
		e := &entries[i]
		slash := strings.LastIndexByte(e.Path, '/')
		if d := e.Path[:slash+1]; d != dir {
			dir, at = d, root
			for name := range strings.SplitSeq(d[:len(d)-min(len(d), 1)], "/") {
				if name != "" {
					at = t.add(at, name)
				}
			}
		}
		s := t.add(at, e.Path[slash+1:])
		t.of[i] = s
		if e.Kind == Symlink && badTarget(e.Target) == "" {
			t.nodes[s].link, t.nodes[s].leads = e.Target, unknown
		}
	}
	return t
}

func (t *tree) add(above spot, name string) spot {
	s, ok := t.children[edge{above, name}]
	if !ok {
		s = spot(len(t.nodes))
		t.nodes = append(t.nodes, treeNode{above: above})
		t.children[edge{above, name}] = s
	}
	return s
}

// walk is a link on its way.
type walk struct {
	link  spot
	at    spot   // what is reached
	below int    // how many steps below at, among what is not there
	rest  string // what is left of the target
}

// resolve is where a link leads: the last place on its way that is there, or
// outside, or nowhere.
func (t *tree) resolve(link spot) spot {
	if t.nodes[link].leads != unknown {
		return t.nodes[link].leads
	}
	stack := []walk{t.start(link)}
	for {
		w := &stack[len(stack)-1]
		end, via := t.step(w)
		switch {
		case via != root:
			stack = append(stack, t.start(via))
			continue
		case end == unknown:
			continue
		}
		// w is done, and so is every walk it breaks.
		for {
			w = &stack[len(stack)-1]
			n := &t.nodes[w.link]
			n.leads, n.below = end, w.below
			stack = stack[:len(stack)-1]
			if len(stack) == 0 {
				return end
			}
			if end >= root {
				next := &stack[len(stack)-1]
				next.at, next.below = end, n.below
				break
			}
		}
	}
}

func (t *tree) start(link spot) walk {
	n := &t.nodes[link]
	n.leads = walking
	return walk{link: link, at: n.above, rest: n.link}
}

// step takes w one name further. end is where the walk ends, unknown while it
// goes on; via is a link that must be resolved first, root if there is none.
func (t *tree) step(w *walk) (end, via spot) {
	if w.rest == "" {
		return w.at, root
	}
	var name string
	name, w.rest, _ = strings.Cut(w.rest, "/")
	switch {
	case name == "" || name == ".":
		return unknown, root
	case name == ".." && w.below > 0:
		w.below--
		return unknown, root
	case name == ".." && w.at == root:
		return outside, root
	case name == "..":
		w.at = t.nodes[w.at].above
		return unknown, root
	}
	next, ok := t.children[edge{w.at, name}]
	if w.below > 0 || !ok {
		w.below++
		return unknown, root
	}
	n := &t.nodes[next]
	if n.link == "" {
		w.at = next
		return unknown, root
	}
	switch n.leads {
	case unknown:
		return unknown, next
	case walking:
		return nowhere, root
	case outside, nowhere:
		return n.leads, root
	}
	w.at, w.below = n.leads, n.below
	return unknown, root
}
