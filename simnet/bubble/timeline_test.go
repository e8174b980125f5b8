package bubble

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

func TestAFailingTestPrintsItsTimeline(t *testing.T) {
	if os.Getenv("BUBBLE_FAILS") != "" {
		Test(t, 7, func(t *testing.T, net *Net) {
			a, b := net.Add(NodeConfig{Name: "a"}), net.Add(NodeConfig{Name: "b"})
			_, err := a.Open()
			ok(t, err)
			heal := net.Cut([]*Node{a}, []*Node{b})
			time.Sleep(3 * time.Second)
			heal()
			b.Become(simnet.Liar(1))
			a.Kill()
			t.Error("as it should")
		})
		return
	}
	c := exec.Command(os.Args[0], "-test.run=^TestAFailingTestPrintsItsTimeline$")
	c.Env = append(os.Environ(), "BUBBLE_FAILS=1")
	out, err := c.CombinedOutput()
	if err == nil {
		t.Fatalf("it did not fail:\n%s", out)
	}
	for _, want := range []string{"seed 7, timeline:", "0.000  a         starts", "0.000            cut: a | b", "3.000            heal: a | b",
		"3.000  b         from now on lies in blocks", "3.000  a         is killed"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestATimelineIsBounded(t *testing.T) {
	tl := timeline{began: time.Now()}
	for range maxLines + 1 {
		tl.add("x", "tick")
	}
	if s := tl.String(); !strings.HasPrefix(s, "  ... 100 earlier lines\n") || strings.Count(s, "tick") != maxLines-100+1 {
		t.Error(s)
	}
}
