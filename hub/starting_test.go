package hub_test

import (
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// A starting API server, of the hub or of a member, refuses every request, because it has not read
// the roles yet. A run that begins or continues during that time does not fail.
func TestAStartingServerRefusesEverything(t *testing.T) {
	t.Parallel()
	starts := func(f *kubeenv.Faults) {
		f.Add(kubeenv.Rule{Times: -1, Fault: kubeenv.LacksRight()})
		f.CutWatches()
		time.Sleep(2 * time.Second)
		f.Heal()
	}
	w := newHubEnv(t, 2)
	w.mayWarn()
	r := w.start("one")
	w.prologue()
	starts(&r.faults)
	w.asked(w.name)
	w.approve(w.name + "-canary")
	starts(w.members[1].faults)
	w.finale(r, w.name, "v1")
}
