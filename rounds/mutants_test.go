package rounds_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A mutant breaks one rule of rounds by an edit of the source, which a test must notice.
var mutants = []struct{ rule, file, old, new, test string }{
	// at most one holder of a term
	{"a round that is held is not taken", "round.go", "if !was.finding.free() {", "if false {", "TestInvariant54"},
	{"of one record one guard is made", "round.go", "is.rec.Term > r.mine && is.rec.by(&r.c)", "is.rec.by(&r.c)", "TestInvariant54"},
	{"a record is of one run of its holder", "record.go", "return r.Holder == c.Holder && r.Run == c.Run", "return r.Holder == c.Holder", "TestRunsOfOneHolderAreToldApart"},
	{"a write without an answer is read back", "round.go", "case r.unclaimed(is):", "case false:", "TestEveryCallMayFail"},
	{"what was won counts from its first attempt", "round.go", "return r.guard(is.rec, is.Rev, r.tried.at), nil", "return r.guard(is.rec, is.Rev, r.c.Clock().Mono), nil", "TestTheTimeOfALostWriteCounts"},
	{"also if it is found later", "round.go", "return r.guard(was.rec, was.Rev, r.tried.at), nil", "return r.guard(was.rec, was.Rev, r.c.Clock().Mono), nil", "TestTheTimeOfALostWriteCounts"},
	{"a late write of a term that is over is no guard", "round.go", "if r.unclaimed(was) && was.finding != expired {", "if r.unclaimed(was) {", "TestALateWriteThatIsOver"},
	// an office
	{"an office is over when it was seen for its ttl", "decide.go", "s.since = at\n", "s.since = at - rec.TTL\n", "TestAnOfficeIsOver"},
	{"by no wall clock", "decide.go", "if c.Office {\n\t\treturn max(left", "if c.Office && now.Wall.Before(rec.Expires()) {\n\t\treturn max(left", "TestAnOfficeIsOver"},
	{"only the time between answers counts", "decide.go", "if !same || office && at-s.last > Heartbeat(rec.TTL) {", "if !same {", "TestAnOutageOfTheStoreUnseatsNobody"},
	{"an office of our own is taken at once", "decide.go", "case c.Office && earlier:", "case false:", "TestAnOfficeOfOurOwnIsTakenAtOnce"},
	{"two processes of one name do not fight", "round.go", "rec.Run == r.c.Run || rec.Term <= r.mine || r.mine == 0", "true", "TestTwoProcessesOfOneName"},
	// a job
	{"a job is over by the wall clock", "decide.go", "left = max(min(left, wall), 0)", "left = max(left, 0)", "TestAJobIsHeldForItsTTL"},
	{"a record of the far future is free", "decide.go", "if wall > c.MaxTTL+aheadBy {", "if false {", "TestInvariant58"},
	{"a ttl has a bound", "round.go", "rec.TTL = min(rec.TTL, r.c.MaxTTL)", "", "TestATTLAboveTheLongest"},
	{"an abandoned round is free", "decide.go", "case rec.State == Abandoned:", "case false:", "TestAnAbandonedRound"},
	{"completing a job leaves its time", "decide.go", "same = s.rev != 0 && s.term == rec.Term", "", "TestARecordOfTheFuture"},
	{"a job is resumed with its term alone", "round.go", "is.rec.Term != term ||", "", "TestInvariant59"},
	// terms grow
	{"a term is above the record's", "round.go", "return high + 1, nil", "return max(high, 1), nil", "TestInvariant54"},
	{"and above the revision of garbage", "round.go", "high = max(high, was.Rev)", "", "TestInvariant55"},
	{"and of a tombstone", "round.go", "\tif e.Rev == 0 {\n\t\treturn reading{Entry: e, finding: never}, nil", "\tif e.Rev == 0 || len(e.Value) == 0 {\n\t\treturn reading{Entry: e, finding: never}, nil", "TestInvariant55"},
	{"and above the pointer's", "round.go", "high = max(high, at.Term)", "_ = at", "TestATermIsAboveAllSigns"},
	{"and above the revision of a damaged pointer", "round.go", "high = max(high, p.Rev)", "", "TestATermIsAboveAllSigns"},
	{"and above what members report", "round.go", "high = max(high, term)", "", "TestATermIsAboveAllSigns"},
	{"unless that is too far ahead", "decide.go", "reported-highest <= maxAhead", "true", "TestATermIsAboveAllSigns"},
	{"a round remembers what it read", "round.go", "r.high = max(r.high, rec.Term)\n\tr.seen", "r.seen", "TestATermIsAboveAllSigns"},
	// the pointer
	{"the pointer never goes back", "pointer.go", "case !t.after(is):", "case false:", "TestInvariant57"},
	{"in one term it goes by sequence", "pointer.go", "t.Term == o.Term && t.Seq > o.Seq", "t.Term == o.Term", "TestInvariant57"},
	{"it is moved by compare-and-set", "pointer.go", "value, rev, callTimeout); wrote == nil {", "value, rev, callTimeout); errors.Is(wrote, ErrConflict) {\n\t\t\trev, _, _ = p.read(ctx)\n\t\t\t_, wrote = put(ctx, p.kv, pointerKey(p.name), value, rev, callTimeout)\n\t\t}\n\t\tif wrote == nil {", "TestPublishIsRetriedAndBounded"},
	{"a damaged one is not replaced by a late holder", "pointer.go", "case rec.Term > t.Term:", "case rec.Term > MaxTerm:", "TestALateHoldersPublishIsRefused"},
	{"nor while the record cannot be read", "pointer.go", "case err != nil:\n\t\t\t\treturn", "case false:\n\t\t\t\treturn", "TestADamagedPointerIsNotReplacedWhile"},
	// a late holder
	{"an overtaken guard changes nothing", "guard.go", "e.Rev > g.rev && is.Term == g.rec.Term && is.by(&r.c)", "true", "TestInvariant56"},
	{"nor one that was ended", "guard.go", "func (g *Guard) over() {\n\tg.ended = true", "func (g *Guard) over() {", "TestInvariant56"},
	{"it knows how much is left by the wall clock", "guard.go", "left = min(left, g.rec.Expires().Sub(now.Wall))", "", "TestAGuardKnowsHowMuchIsLeft"},
}

// TestMutants breaks each rule, and expects its test to fail: with ROUNDS_MUTANTS=1, as each is a build. Without, it
// only looks whether the edits still fit.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(strings.ReplaceAll(m.rule, " ", "-"), func(t *testing.T) {
			b, err := os.ReadFile(m.file)
			if n := strings.Count(string(b), m.old); err != nil || n != 1 {
				t.Fatalf("%s has %q %d times, %v", m.file, m.old, n, err)
			}
			if os.Getenv("ROUNDS_MUTANTS") == "" {
				return
			}
			dir := t.TempDir()
			real, err := filepath.Abs(m.file)
			if err != nil {
				t.Fatal(err)
			}
			broken, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
			list, _ := json.Marshal(map[string]any{"Replace": map[string]string{real: broken}})
			for path, b := range map[string][]byte{broken: []byte(strings.Replace(string(b), m.old, m.new, 1)), overlay: list} {
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, _ := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-timeout=5m", "-overlay", overlay, "-run", "^"+m.test, ".").CombinedOutput()
			if !bytes.Contains(out, []byte("--- FAIL: "+m.test)) {
				t.Errorf("%s does not notice:\n%s", m.test, out)
			}
		})
	}
}
