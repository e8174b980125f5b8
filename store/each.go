package store

import (
	"sync"
	"sync/atomic"
)

// eachOf calls do for 0 to n-1, on several cores if there are many, and returns the error of the
// first that failed.
func eachOf(n, workers int, do func(i int) error) (err error) {
	const atOnce = 256
	var next atomic.Int64
	var mu sync.Mutex // guards first and err
	first := n
	work := func() {
		for from := int(next.Add(atOnce)) - atOnce; from < n; from = int(next.Add(atOnce)) - atOnce {
			for i := from; i < min(from+atOnce, n); i++ {
				if e := do(i); e != nil {
					mu.Lock()
					if i < first {
						first, err = i, e
					}
					mu.Unlock()
				}
			}
		}
	}
	onCores(min(workers, n/atOnce), work)
	return err
}

// onCores runs work in so many goroutines, or with one in this, and waits for all.
func onCores(workers int, work func()) {
	if workers <= 1 {
		work()
		return
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(work)
	}
	wg.Wait()
}
