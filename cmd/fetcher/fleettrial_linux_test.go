package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// trial is a fleet of processes, each in a network namespace of its own, on one bridge,
// with NATS there too; the share is behind a slow line.
type trial struct {
	t       *testing.T
	ns      string // begins the names of all namespaces
	members int
	size    int64
	mbit    int    // of the line
	listen  string // of each member, without its address
	away    time.Duration
	token   string
	nats    *exec.Cmd
	dir     string
	runs    []*exec.Cmd
	ahead   string // a fetcher whose clock is an hour ahead, which member0 runs; empty: none does
	source  *sharing
}

const overTCP = "/tcp/4001"

// TestFleetTrial is run by hand: make fleet-trial. TRIAL_STORY says what happens to the fleet; at the end it prints how
// much came over the line.
func TestFleetTrial(t *testing.T) {
	if os.Getenv("FLEET_TRIAL") == "" {
		t.Skip("make fleet-trial: a minute or more, and all of the machine")
	}
	rig.Need(t)
	number := func(name string, otherwise int) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil || n < 1 {
			return otherwise
		}
		return n
	}
	f := &trial{t: t, ns: fmt.Sprint("trial", os.Getpid()), members: number("FLEET_TRIAL", 20), size: int64(number("TRIAL_MIB", 256)) << 20,
		mbit: number("TRIAL_MBIT", 18), away: time.Duration(number("TRIAL_AWAY", 60)) * time.Second, dir: t.TempDir()}
	f.runs = make([]*exec.Cmd, f.members)
	if f.listen = overTCP; os.Getenv("TRIAL_QUIC") != "" {
		f.listen = "/udp/4001/quic-v1"
	}
	story := map[string]func(){"": f.story, "parts": f.parts, "paused": f.paused, "clock": f.clock}[os.Getenv("TRIAL_STORY")]
	if story == nil {
		t.Fatal("TRIAL_STORY is parts, paused or clock")
	}
	if os.Getenv("TRIAL_STORY") == "clock" {
		f.ahead = anHourAhead(t)
	}
	f.wires()
	f.begin()
	story()
}

// wires makes the namespaces; 0 is the source's, 1 the store's.
func (f *trial) wires() {
	lan := f.ns + "lan"
	rig.Sh(f.t, "ip netns add %s", lan)
	f.t.Cleanup(func() { exec.Command("ip", "netns", "del", lan).Run() })
	rig.Sh(f.t, "ip -n %s link add name bridge0 type bridge", lan)
	rig.Sh(f.t, "ip -n %s link set bridge0 up", lan)
	for i := range f.members + 2 {
		ns := f.place(i)
		rig.Sh(f.t, "ip netns add %s", ns)
		f.t.Cleanup(func() { exec.Command("ip", "netns", "del", ns).Run() })
		rig.Sh(f.t, "ip -n %s link add name e%d type veth peer name eth netns %s", lan, i, ns)
		rig.Sh(f.t, "ip -n %s link set e%d master bridge0 up", lan, i)
		rig.Sh(f.t, "ip -n %s addr add %s/16 dev eth", ns, f.addr(i))
		rig.Sh(f.t, "ip -n %s link set eth up", ns)
		rig.Sh(f.t, "ip -n %s link set lo up", ns)
	}
	rig.Sh(f.t, "tc -n %s qdisc add dev eth root tbf rate %dmbit burst 128kb latency 100ms", f.place(0), f.mbit)
}

func (f *trial) place(i int) string { return fmt.Sprint(f.ns, i) }
func (f *trial) addr(i int) string  { return fmt.Sprintf("10.78.%d.%d", i/200, i%200+1) }

// in is a command in a namespace.
func (f *trial) in(i int, args ...string) *exec.Cmd {
	cmd := exec.Command("ip", append([]string{"netns", "exec", f.place(i)}, args...)...)
	f.t.Cleanup(func() {
		if cmd.Process != nil {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return cmd
}

func (f *trial) startStore() {
	conf := filepath.Join(f.dir, "nats.conf")
	must(f.t, os.WriteFile(conf, fmt.Appendf(nil, "host: %s\njetstream { store_dir: %q, sync_interval: always }\n", f.addr(1), f.dir), 0o600))
	f.nats = f.in(1, filepath.Join(f.dir, "nats-server"), "--config", conf)
	must(f.t, f.nats.Start())
}

func (f *trial) begin() {
	out, err := exec.Command("go", "build", "-o", filepath.Join(f.dir, "nats-server"), "github.com/nats-io/nats-server/v2").CombinedOutput()
	if err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
	f.startStore()
	src := filepath.Join(f.dir, "big.bin")
	rig.WriteRandom(f.t, src, int(f.size), 7)
	f.source = startSharing(f.t, f.in(0, built(f.t), "share", src, "--json", "--dir", f.state("source"), "--listen", "/ip4/"+f.addr(0)+f.listen))
	store := "nats://" + f.addr(1) + ":4222/trial"
	token, err := f.in(1, built(f.t), "fleet", "invite", "--fleet", store, "--dir", f.state("0")).Output()
	must(f.t, err)
	f.token, _, _ = strings.Cut(string(token), "\n")
	for i := range f.runs {
		if r := inDir(f.t, f.state(fmt.Sprint(i)), "fleet", "join", f.token); r.code != 0 {
			f.t.Fatal(r.stderr)
		}
		f.start(i)
	}
	if out, err := f.in(1, built(f.t), "fleet", "add", f.source.ticket, "--dir", f.state("0")).CombinedOutput(); err != nil {
		f.t.Fatalf("%v: %s", err, out)
	}
}

func (f *trial) state(name string) string { return filepath.Join(f.dir, "state-"+name) }

// start begins a member.
func (f *trial) start(i int) {
	program := built(f.t)
	if i == 0 && f.ahead != "" {
		program = f.ahead
	}
	f.runs[i] = f.in(i+2, program, "fleet", "run", "-o", filepath.Join(f.dir, fmt.Sprint("out-", i)), "--dir", f.state(fmt.Sprint(i)),
		"--listen", "/ip4/"+f.addr(i+2)+f.listen, "--name", fmt.Sprint("member", i), "--log-level", "info")
	log, err := os.OpenFile(filepath.Join(f.dir, fmt.Sprint("log-", i)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(f.t, err)
	f.runs[i].Stderr = log
	must(f.t, f.runs[i].Start())
	log.Close()
}

func (f *trial) kill(i int) {
	must(f.t, f.runs[i].Process.Kill()) // ip netns exec is the member itself by now
	f.runs[i].Wait()
}

// rollout is what the fleet reports of itself.
func (f *trial) rollout() (share rolledOut, verified int64, each []rolledOut) {
	out, err := f.in(1, built(f.t), "fleet", "status", "--dir", f.state("0"), "--json").Output()
	must(f.t, err)
	sc := bufio.NewScanner(strings.NewReader(string(out)))
	for sc.Scan() {
		var l rolledOut
		must(f.t, json.Unmarshal(sc.Bytes(), &l))
		switch l.Type {
		case "rollout":
			share = l
		case "machine":
			each = append(each, l)
			verified += l.Verified
		}
	}
	return share, verified, each
}

// quicAdds is what the headers of packets add to what QUIC sends.
const quicAdds = 1.06

// entered is how many copies of the share the source has sent. The system does not count what a program sends over
// QUIC: that is what left by the line, without headers.
func (f *trial) entered() float64 {
	if f.listen == overTCP {
		return float64(written(f.source.cmd.Process.Pid)) / float64(f.size)
	}
	out, err := f.in(0, "cat", "/sys/class/net/eth/statistics/tx_bytes").Output()
	must(f.t, err)
	n, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	must(f.t, err)
	return n / quicAdds / float64(f.size)
}

// until waits until this much of the share has entered.
func (f *trial) until(part float64) {
	for f.entered() < part {
		time.Sleep(200 * time.Millisecond)
	}
}

// coordinator is which member coordinates.
func (f *trial) coordinator() (i int, term uint64) {
	share, _, each := f.rollout()
	for _, m := range each {
		if m.Peer == share.Coordinator {
			fmt.Sscanf(m.Name, "member%d", &i)
			return i, share.Term
		}
	}
	f.t.Fatalf("%q coordinates, which is none of %+v", share.Coordinator, each)
	return 0, 0
}

// elected waits until another coordinates than in a term.
func (f *trial) elected(term uint64) {
	began := time.Now()
	for {
		if share, _, _ := f.rollout(); share.Term > term {
			f.t.Logf("another than that of term %d was elected within %.1f s", term, time.Since(began).Seconds())
			return
		}
		if time.Since(began) > time.Minute {
			f.t.Fatal("nobody else is elected")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// killed kills the coordinator, which is back 5 s after another was elected.
func (f *trial) killed() {
	i, term := f.coordinator()
	f.t.Logf("at %2.0f %%: member%d, which coordinated in term %d, was killed", 100*f.entered(), i, term)
	f.kill(i)
	f.elected(term)
	time.AfterFunc(5*time.Second, func() { f.start(i) })
}

// story kills two coordinators and a member, and stops the store for a minute.
func (f *trial) story() {
	began := time.Now()
	for _, part := range []float64{0.1, 0.25} {
		f.until(part)
		f.killed()
	}
	time.Sleep(12 * time.Second) // the last coordinator has waited for the previous members
	i, term := f.coordinator()
	victim := (i + 1) % f.members
	f.kill(victim)
	f.t.Logf("at %2.0f %%: member%d was killed", 100*f.entered(), victim)
	time.Sleep(5 * time.Second)
	f.start(victim)

	before := f.entered()
	must(f.t, f.nats.Process.Kill())
	f.nats.Wait()
	time.Sleep(f.away)
	after := f.entered()
	f.startStore()
	time.Sleep(5 * time.Second)
	_, now := f.coordinator()
	f.t.Logf("the store was away for %v: %.1f %% entered meanwhile, term %d before and %d after", f.away, 100*(after-before), term, now)
	if line := f.away.Seconds() * float64(f.mbit) * 1e6 / 8 / float64(f.size); after < 0.99 && after-before < line/2 {
		f.t.Errorf("%.1f %% entered in a time in which the line carries %.1f %%", 100*(after-before), 100*line)
	}
	if now != term {
		f.t.Error("the office changed hands")
	}
	f.finish(began, 1.02)
}

// finish waits until all are done, and expects that no more copies than this entered.
func (f *trial) finish(began time.Time, most float64) {
	for {
		share, verified, _ := f.rollout()
		if share.Done == float64(f.members) {
			break
		}
		if time.Since(began) > 30*time.Minute {
			f.t.Fatalf("%v of %d done, %d bytes", share.Done, f.members, verified)
		}
		time.Sleep(500 * time.Millisecond)
	}
	f.t.Logf("%d members of %d MiB over %d Mbit/s: all done after %.0f s; the line needs %.0f s; %.4f copies entered", f.members, f.size>>20, f.mbit,
		time.Since(began).Seconds(), float64(f.size)*8/float64(f.mbit)/1e6, f.entered())
	if f.entered() > most {
		f.t.Errorf("%.4f copies entered", f.entered())
	}
	want := rig.Fingerprint(f.t, filepath.Join(f.dir, "big.bin"))
	for i := range f.runs {
		if rig.Fingerprint(f.t, filepath.Join(f.dir, fmt.Sprint("out-", i), "big.bin")) != want {
			f.t.Errorf("member%d has other bytes", i)
		}
	}
}
