package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/api"
)

// entriesOf finds the entries that arguments name, each once: by number, share ID, or name, unless that is a number.
func entriesOf(ctx context.Context, c *api.Client, args []string) (ids []int64, err error) {
	all, err := c.Entries(ctx)
	if err != nil {
		return nil, err
	}
	for _, arg := range args {
		var found, called []int64
		for _, e := range all {
			switch {
			case fmt.Sprint(e.ID) == arg, e.Share != "" && (e.Share == arg || shortly(e.Share) == arg):
				found = append(found, e.ID)
			case nameOf(e) == arg:
				called = append(called, e.ID)
			}
		}
		if !isNumber(arg) {
			found, called = append(found, called...), nil
		}
		switch len(found) {
		case 0:
			more := ""
			switch {
			case len(called) > 0:
				more = fmt.Sprintf(". Entry %d has that name: give its number", called[0])
			case !isNumber(arg):
				more = nameless(all)
			}
			return nil, usageError{fmt.Errorf("the node has no entry %q; fetcher list shows what it has%s", arg, more)}
		case 1:
			if !slices.Contains(ids, found[0]) {
				ids = append(ids, found[0])
			}
		default:
			return nil, usageError{fmt.Errorf("%d entries are called %q: %s; give a number", len(found), arg, strings.ReplaceAll(strings.Trim(fmt.Sprint(found), "[]"), " ", ", "))}
		}
	}
	return ids, nil
}

// isNumber reports whether an argument is the number of an entry, and so no name: a command that is given twice must not find
// another entry the second time.
func isNumber(arg string) bool { return arg != "" && strings.Trim(arg, "0123456789") == "" }

// nameless says which entries have no known name yet.
func nameless(all []api.Entry) string {
	var ids []int64
	for _, e := range all {
		if e.Name == "" && e.Kind == "fetch" {
			ids = append(ids, e.ID)
		}
	}
	switch len(ids) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; entry %d has no name until its list of files is here: if you mean that one, give its number", ids[0])
	}
	return fmt.Sprintf("; %d entries have no name until their lists of files are here: if you mean one of those, give its number", len(ids))
}
