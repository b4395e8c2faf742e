package state

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Those who ask at the same time share an answer, but not one that was looked for
// before they asked.
func TestAnAnswerIsNewerThanTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a asks
		var mu sync.Mutex
		began := []time.Time{}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				asked := time.Now()
				err := a.ask("q", func() error {
					mu.Lock()
					began = append(began, time.Now())
					mu.Unlock()
					time.Sleep(25 * time.Millisecond)
					return nil
				})
				mu.Lock()
				answered := began[len(began)-1]
				mu.Unlock()
				if err != nil || answered.Before(asked) {
					t.Errorf("asked at %v, answered at %v: %v", asked, answered, err)
				}
			})
		}
		all.Wait()
		if len(began) > 10 || len(a.all) > 0 {
			t.Errorf("%d answers, %d questions are left", len(began), len(a.all))
		}
	})
}
