package peers

import (
	"testing"
	"time"
)

// served makes children ask for as much as they may, for some seconds, and counts what each is
// sent of each share; a request takes no time.
func served(u *Uploads, asks []Ask, d time.Duration) map[Ask]int {
	got, of := map[Ask]int{}, map[Job]Ask{}
	job, now := Job(0), epoch
	var ask func(a Ask)
	var serve func(next []Job)
	serve = func(next []Job) {
		for _, j := range next {
			a := of[j]
			got[a] += a.Bytes
			serve(u.Done(j, now))
			ask(a)
		}
	}
	ask = func(a Ask) {
		job++
		of[job] = a
		a.Job, a.Piece = job, uint32(job)
		if u.Ask(a, now).Go {
			serve([]Job{job})
		}
	}
	for _, a := range asks {
		for range 4 {
			ask(a)
		}
	}
	for end := epoch.Add(d); now.Before(end); now = now.Add(5 * time.Millisecond) {
		next, busy := u.Tick(now)
		serve(next)
		for _, j := range busy {
			ask(of[j])
		}
	}
	return got
}

func about(got int, want float64) bool { return float64(got) > 0.9*want && float64(got) < 1.1*want }

// What is sent of a share keeps to its own limit and to the overall one, its children get
// equal parts, and other shares get the rest.
func TestAShareHasALimitOfItsOwn(t *testing.T) {
	u := NewUploads(UploadConfig{Rate: 2e6, Burst: 64 << 10})
	u.SetShareRate("slow", 3e5, epoch)
	one, two, free := Ask{Child: "one", Key: "slow", Bytes: 16 << 10}, Ask{Child: "two", Key: "slow", Bytes: 48 << 10}, Ask{Child: "three", Key: "fast", Bytes: 64 << 10}
	got := served(u, []Ask{one, two, free}, 10*time.Second)
	if !about(got[one]+got[two], 3e6) || !about(got[one]+got[two]+got[free], 2e7) {
		t.Errorf("sent: %v", got)
	}
	if !about(got[two], 1.5e6) {
		t.Errorf("of the share with a limit the two were sent %d and %d", got[one], got[two])
	}
}

func TestTheLimitOfAShareChanges(t *testing.T) {
	u := NewUploads(UploadConfig{Burst: 64 << 10})
	a := Ask{Job: 1, Child: "a", Key: "s", Bytes: 64 << 10}
	u.SetShareRate("s", 1<<10, epoch)
	if !u.Ask(a, epoch).Go {
		t.Error("the burst is not served")
	}
	for a.Job++; a.Job < 4; a.Job++ {
		if !u.Ask(a, epoch).Queued {
			t.Error("the limit does not hold")
		}
	}
	if at := u.Wake(); !at.Equal(epoch.Add(u.cfg.QueueFor)) {
		t.Errorf("it looks again at %v", at)
	}
	u.SetShareRate("s", 1<<30, epoch)
	if next, _ := u.Tick(epoch.Add(time.Millisecond)); len(next) == 0 || u.Wake().After(epoch.Add(2*time.Millisecond)) {
		t.Errorf("with a limit of more, %d are served, and it looks again at %v", len(next), u.Wake())
	}
	u.SetShareRate("s", 1<<10, epoch)
	for ; a.Job < 8; a.Job++ {
		u.Ask(a, epoch)
	}
	if next := u.SetShareRate("s", 0, epoch); len(next) == 0 || u.Waiting() > 0 {
		t.Errorf("without a limit, %d are served and %d wait", len(next), u.Waiting())
	}
}

// A request given up before its turn costs nothing.
func TestTheLimitOfAShareIsNotSpentOnWhatIsNotSent(t *testing.T) {
	u := NewUploads(UploadConfig{Slots: 1, Burst: 64 << 10})
	u.SetShareRate("s", 1<<10, epoch)
	u.Ask(Ask{Job: 1, Child: "b", Key: "other", Bytes: 1}, epoch)
	u.Ask(Ask{Job: 2, Child: "a", Key: "s", Bytes: 64 << 10}, epoch) // waits for the slot
	u.Done(2, epoch)
	u.Done(1, epoch)
	if !u.Ask(Ask{Job: 3, Child: "a", Key: "s", Bytes: 64 << 10}, epoch).Go {
		t.Error("what was given up was paid for")
	}
	u.Park(3, 64<<10, epoch)
	if !u.Ask(Ask{Job: 4, Child: "a", Key: "s", Bytes: 64 << 10}, epoch).Go {
		t.Error("what was not taken was paid for")
	}
	u.Ask(Ask{Job: 5, Child: "a", Key: "s", Bytes: 1 << 10}, epoch)
	if u.Forget("a", epoch); u.Waiting() > 0 {
		t.Error("a child that is gone waits")
	}
}

func TestAShareThatIsWithdrawnIsForgotten(t *testing.T) {
	u := NewUploads(UploadConfig{})
	for i, key := range []string{"s", "t"} {
		u.Ask(Ask{Job: Job(i), Child: "a", Key: key, Bytes: 1}, epoch)
	}
	u.Withdraw("s")
	if len(u.sent) != 1 {
		t.Errorf("of %d shares it is known what was sent", len(u.sent))
	}
}
