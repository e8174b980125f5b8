package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"testing"
)

// What is logged from warnings on is said to a person in one line.
func TestWarningsAreMessages(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(warnings{to: &b}).With("dir", "/x")
	log.Info("nothing of interest")
	log.WithGroup("libp2p").Warn("it was not saved", "free_bytes", 7, "error", &fs.PathError{Op: "open", Path: "/x\x1b", Err: errors.New("why\n  and more")})
	log.Error("it has ended", "reason", "it was told to")
	if got, want := b.String(), "warning: it was not saved (dir /x, free bytes 7): /x? cannot be opened: why and more\nerror: it has ended (dir /x): it was told to\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// Flags of one name that mean several things have a variable each.
func TestEachMeaningOfAFlagHasAVariable(t *testing.T) {
	for args, want := range map[string]string{
		"hold fleet": "FETCHER_HOLD_FLEET", "share name": "FETCHER_SHARE_NAME", "add name": "FETCHER_ADD_NAME", "depot account add name": "FETCHER_ACCOUNT_NAME",
		"node run name": "FETCHER_NAME", "fleet run fleet": "FETCHER_FLEET", "fetch fleet": "FETCHER_FLEET", "share json": "FETCHER_JSON", "round run name": "FETCHER_ROUND_NAME",
	} {
		words := strings.Fields(args)
		last := len(words) - 1
		cmd, _, err := (&app{}).root().Find(words[:last])
		must(t, err)
		cmd.InheritedFlags() // adds them to its own
		if got := envName(cmd, words[last]); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// Commands of the node that sentences name are for the state directory that was given; those between quotation marks, or on
// lines of their own, may be for another machine.
func TestNamedCommandsHaveTheStateDirectory(t *testing.T) {
	for message, want := range map[string]string{
		"x; fetcher list 1 shows why":                                              "x; fetcher --dir '/a b' list 1 shows why",
		"fetcher holds, and fetcher depot gc on\n":                                 "fetcher --dir '/a b' holds, and fetcher --dir '/a b' depot gc on\n",
		"set needs an ENTRY; see fetcher set --help":                               "set needs an ENTRY; see fetcher set --help",
		"there\n\n    fetcher fleet join TOKEN\n":                                  "there\n\n    fetcher fleet join TOKEN\n",
		"WRONG\n                fetcher node status":                               "WRONG\n                fetcher --dir '/a b' node status",
		`its owner adds, with "fetcher depot account add", what fetcher id prints`: `its owner adds, with "fetcher depot account add", what fetcher --dir '/a b' id prints`,
		"start one with fetcher fleet invite --fleet URL":                          "start one with fetcher --dir '/a b' fleet invite --fleet URL",
		`did you mean fetcher list?`:                                               `did you mean fetcher --dir '/a b' list?`,
		"fetcher fetch TICKET, fetcher listing":                                    "fetcher fetch TICKET, fetcher listing",
	} {
		if got := (globals{dir: "/a b"}).named(message); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if got := (globals{}).named(message); got != message {
			t.Errorf("without one: %q", got)
		}
	}
}

// So are those in the sentences of --json, whichever field they are in, and nothing else there is touched.
func TestNamedCommandsHaveTheStateDirectoryInJSON(t *testing.T) {
	dir := t.TempDir()
	for _, x := range []struct{ args, typ, field, want string }{
		{"doctor", "check", "text", "; fetcher --dir " + quote(dir) + " node run starts one"},
		{"fleet status", "error", "message", "fetcher --dir " + quote(dir) + " fleet join TOKEN"},
	} {
		stdout, _, _ := inside(append(strings.Fields(x.args), "--json", "--dir", dir)...)
		found := false
		for l := range strings.Lines(stdout) {
			var fields map[string]any
			must(t, json.Unmarshal([]byte(l), &fields))
			text, _ := fields[x.field].(string)
			found = found || fields["type"] == x.typ && strings.Contains(text, x.want)
		}
		if !found {
			t.Errorf("%s: no %s with a %s like %q in\n%s", x.args, x.typ, x.field, x.want, stdout)
		}
	}
	var out bytes.Buffer
	r := newReporter(&out, true)
	r.edit = globals{dir: "/d"}.named
	r.write("node", map[string]any{"warnings": []string{"see fetcher list"}, "name": "fetcher list", "why": nil, "text": 1})
	var l map[string]any
	must(t, json.Unmarshal([]byte(strings.Split(out.String(), "\n")[1]), &l))
	if got := fmt.Sprint(l["warnings"], l["name"], l["why"], l["text"]); got != "[see fetcher --dir /d list]fetcher list<nil> 1" {
		t.Error(got)
	}
}
