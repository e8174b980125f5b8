package main

import (
	"strings"
	"testing"
	"time"
)

func TestTimesAreShownAsPeopleTypeThem(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 50 * time.Millisecond: "50ms", 10 * time.Second: "10s", time.Minute: "1m", 20 * time.Minute: "20m",
		90 * time.Minute: "1h30m", 900 * time.Hour: "900h", 10*time.Hour + time.Second: "10h0m1s", -time.Hour: "-1h"} {
		if got := typed(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"round", "run", "--kv", "sqlite:x", "--name", "n", "--every", "900h", "--", "true"}, "--every: it must be from 1 s to 32 d, not 900h\n"},
		{[]string{"round", "run", "--kv", "sqlite:x", "--name", "n", "--every", "800d", "--", "true"}, "from 1 s to 32 d, not 800d\n"},
		{[]string{"fleet", "run", "--heartbeat", "30ms"}, "from 50 ms to 60 s, not 30ms\n"},
		{[]string{"fleet", "run", "--heartbeat", "2d"}, "from 50 ms to 60 s, not 2d\n"},
		{[]string{"fetch", "x", "--stall", "soon"}, `--stall: give a time such as 30s, 36h or 7d, not "soon"`},
		{[]string{"fetch", "x", "--stall", "40000d"}, `--stall: a time is at most 36600d, not "40000d"`},
		{[]string{"fetch", "x", "--stall", "400d"}, "--stall: it must be from 1 ms to 366 d, not 400d\n"},
		{[]string{"cat", "x", "y", "--stall", "0"}, "--stall: it must be from 1 ms to 366 d, not 0\n"},
		{[]string{"fetch", "x", "--alone-after", "400d"}, "--alone-after: it must be from 0 s to 366 d, not 400d\n"},
		{[]string{"fleet", "run", "--alone-after=-1s"}, "--alone-after: it must be from 0 s to 366 d, not -1s\n"},
	} {
		if r := command(t, x.args...); r.code != exitUsage || !strings.Contains(r.stderr, x.want) {
			t.Errorf("%q: exit %d: %s", x.args, r.code, r.stderr)
		}
	}
	if seed, _, err := (fetchFlags{seed: "7d", stall: time.Minute}).check(); err != nil || seed != 7*24*time.Hour {
		t.Errorf("--seed=7d: %v, %v", seed, err)
	}
	if _, long, err := seedUntil([]string{"7d"}); err != nil || long != "168h" {
		t.Errorf("--seed-until 7d: %q, %v", long, err)
	}
	for _, v := range []string{"inf", "nan", "1000001", "40000d", "0", "soon"} {
		if _, _, err := seedUntil([]string{v}); err == nil || !strings.Contains(err.Error(), "(at most 36600d), a number such as 2 (at most 1000000), or") {
			t.Errorf("--seed-until %s: %v", v, err)
		}
	}
	help, _, _ := inside("fetch", "--help")
	for _, want := range []string{"(default 1m)", "--seed[=TIME]             go on serving"} {
		if !strings.Contains(help, want) {
			t.Errorf("the help of fetch lacks %q:\n%s", want, help)
		}
	}
	if strings.Contains(help, "(default 0") {
		t.Errorf("the help of fetch shows a time of 0:\n%s", help)
	}
}

// What --seed-until says that it takes at most is all that it takes.
func TestSeedUntilTakesAtMostWhatItSays(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"36601d", "878401h", "1000001"} {
		if _, _, err := seedUntil([]string{v}); err == nil || !strings.Contains(err.Error(), "36600d") {
			t.Errorf("%s: %v", v, err)
		}
	}
}
