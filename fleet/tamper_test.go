package fleet_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// newTamperedEnv returns an environment with a run with overrides that is about to begin.
func newTamperedEnv(t *testing.T) *engineEnv {
	w, e := declared(t, func(p *fleet.Placement) { p.Overrides = []placement.Override{replaceFor("canary", "x")} })
	w.capture(e, "approved")
	w.create(e, fleet.RunSpec{Name: "r", Placement: ep, Index: new(0), Strategy: allAtOnce(9)})
	return w
}

// drivenFor drives runs for a while.
func (w *engineEnv) drivenFor(d time.Duration) {
	stop := running(w.t, w.newEngine(fleet.Config{Name: "two"}))
	time.Sleep(d)
	stop()
}

// objects returns the objects of members, without the ledgers.
func (w *engineEnv) objects() map[string][]string {
	out := w.members()
	for cluster, has := range out {
		out[cluster] = slices.DeleteFunc(has, func(obj string) bool { return strings.HasPrefix(obj, `{"run":`) })
	}
	return out
}

// Threat T5: any bit of any part of the stored content is flipped after the approval. Every object
// on a member still has the approved content. After the store has its original data again, the run
// ends.
func TestT5TamperedContentReachesNoMember(t *testing.T) {
	t.Parallel()
	n, r := sampled(50), rand.New(rand.NewPCG(5, 2))
	if soak() {
		n = 1000
	}
	var want map[string][]string
	synctest.Test(t, func(t *testing.T) {
		w := newTamperedEnv(t)
		w.drivenFor(time.Minute)
		w.within(time.Second, "r", stages.Completed)
		want = w.objects()
	})
	held := 0
	for range n {
		synctest.Test(t, func(t *testing.T) {
			w := newTamperedEnv(t)
			keys := w.keys("content/")
			key, bit := keys[r.IntN(len(keys))], -1
			defer func() { logCase(t, "bit %d of %s", bit, key) }()
			flip := func(v string) string {
				if bit < 0 {
					bit = r.IntN(8 * len(v))
				}
				b := []byte(v)
				b[bit/8] ^= 1 << (bit % 8)
				return string(b)
			}
			edit(t, w.store, key, flip)
			w.drivenFor(10 * time.Minute)
			for cluster, has := range w.objects() {
				for _, obj := range has {
					if !slices.Contains(want[cluster], obj) {
						t.Errorf("%s has %s, and was to have %s", cluster, obj, want[cluster])
					}
				}
			}
			held += count(w.outcome("r")["state"] == stages.Running)
			edit(t, w.store, key, flip)
			w.drivenFor(10 * time.Minute)
			w.within(time.Second, "r", stages.Completed)
			if d := cmp.Diff(want, w.objects()); d != "" {
				t.Errorf("afterwards members have\n%s", d)
			}
		})
	}
	if held < n/4 {
		t.Errorf("only %d of %d runs were held up", held, n)
	}
}
