package memory_test

import (
	"testing"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
)

func TestACreationThatComesLateDoesNotBringBackWhatWasDeleted(t *testing.T) {
	store := memory.NewStore()
	plan := faulty.NewPlan(faulty.NthWrite(2, faulty.LateCalls(nil, 20))) // the first is of the head
	keeper := plan.Store(store)
	c := mustKeep(t, keeper)
	create := applying("slipway/one", config("a", map[string]any{"k": "v"}))
	if err := create(c); err == nil {
		t.Fatal("the write did not fail")
	}
	for _, step := range []keptStep{create, deleting("ConfigMap", "default", "a")} {
		if err := step(c); err != nil {
			t.Fatal(err)
		}
	}
	for plan.Calls() < 40 {
		if _, err := keeper.Get(t.Context(), "member/a/head"); err != nil {
			t.Fatal(err)
		}
	}
	if n := mustKeep(t, store).Len(); n != 2 {
		t.Errorf("%d objects, want 2", n)
	}
}
