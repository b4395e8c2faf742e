package fleet_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// A run is created once, whatever its state at the next request, by a host that was restarted or
// that saw an error of the store.
func TestEnsureRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		spec := specOf("web-v0", 0)
		spec.Strategy.Stages[0].MaxConcurrency = percent("50%")
		first := must(e.EnsureRun(t.Context(), spec))(t)
		again := must(w.engine(w.store, "restarted").EnsureRun(t.Context(), spec))(t)
		if again.Run.UID != first.Run.UID || again.Plan.Digest != first.Plan.Digest {
			t.Errorf("ensured twice: %s and %s", first.Run.UID, again.Run.UID)
		}
		defer running(t, e)()
		time.Sleep(time.Hour)
		unnamed := spec
		unnamed.Index = nil
		w.holds("v1")
		for _, spec := range []fleet.RunSpec{spec, unnamed} {
			if s := must(e.EnsureRun(t.Context(), spec))(t); s.Run.UID != first.Run.UID || s.Run.State != stages.Completed {
				t.Errorf("a run that has ended is ensured: %s, %s", s.Run.UID, s.Run.State)
			}
		}
		if runs := must(e.Placement(ep).RunNames(t.Context()))(t); len(runs) != 1 {
			t.Errorf("runs: %v", runs)
		}
	})
	// Another host creates the run between the two reads of this one.
	w, e := declared(t, nil)
	w.capture(e, "v0")
	spec := specOf("r", 0)
	hooked := &hookedStore{w.store, inTurn(turn{"get run/r", func() {}}, turn{"get placement/", func() { create(t, e, spec) }})}
	s := must(w.engine(hooked, "late").EnsureRun(t.Context(), spec))(t)
	if n := len(must(e.Placement(ep).RunNames(t.Context()))(t)); n != 1 {
		t.Errorf("%d runs", n)
	}
	if now := must(e.Run("r").Status(t.Context()))(t); now.Run.UID != s.Run.UID {
		t.Errorf("ensured %s, and there is %s", s.Run.UID, now.Run.UID)
	}
}

// A different run of the same name is left alone, and the error lists all differences at once.
func TestEnsureRunOfADifferentRun(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	w.capture(e, "v1")
	create(t, e, specOf("r", 0))
	other := specOf("r", 1)
	other.Placement, other.Owner, other.Plan = "another", "host", "abc"
	two := intstr.FromInt32(2)
	other.Strategy.Stages[0].MaxConcurrency = &two
	other.Strategy.Stages[0].SortKey = "order"
	err := refused(t, w.store, "another run of the name", func() error { _, err := e.EnsureRun(t.Context(), other); return err },
		`another run r exists`, `placement is "example-placement", and "another" was asked for`, `owner is "", and "host" was asked for`,
		`index is 0, and 1 was asked for`, `and abc was asked for`,
		`strategy.stages[0].maxConcurrency is not set, and 2 was asked for`, `strategy.stages[0].sortingLabelKey is not set, and "order" was asked for`)
	if !errors.Is(err, backend.ErrConflict) {
		t.Errorf("it does not match ErrConflict: %v", err)
	}
	if _, err := e.EnsureRun(t.Context(), fleet.RunSpec{Name: "No Name"}); err == nil || !strings.Contains(err.Error(), "placement") {
		t.Errorf("a spec that cannot be: %v", err)
	}
	missing := specOf("r2", 0)
	missing.Placement = "missing"
	if _, err := e.EnsureRun(t.Context(), missing); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("a placement that does not exist: %v", err)
	}
}
