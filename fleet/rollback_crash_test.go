package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// The budget is exceeded in the third stage, on clusters with different previous revisions and one
// with none. The rollback run asks for approval, is stopped, and resumes.
var rollbackStory = crashScenario{
	placement: ep,
	runs:      []string{"forth", "forth-rollback"},
	build: func(t *testing.T) *engineEnv {
		w := fourStages(t)
		w.failsAt("s3a", "v2")
		return w
	},
	tell: func(h *host) {
		h.declare(tutorialPlacement())
		h.create(fleet.RunSpec{Name: "zero", Placement: ep, Strategy: inStages(nil, 1, 2, 3, 4)})
		h.feed.end("zero")
		h.put("v1")
		h.create(fleet.RunSpec{Name: "one", Placement: ep, Strategy: inStages(nil, 1)})
		h.feed.end("one")
		h.addTo(3, "new")
		h.put("v2")
		b := &stages.RollbackPolicy{Approval: &approval.Policy{}}
		h.create(fleet.RunSpec{Name: "forth", Placement: ep, Strategy: inStages(b, 1, 2, 3, 4)})
		request := h.feed.of("forth-rollback", stages.ApprovalRequested).Request
		h.command("forth-rollback", stages.Command{ID: "stop-it", Verb: stages.Stop})
		h.feed.of("forth-rollback", stages.RunStopped)
		h.command("forth-rollback", stages.Command{ID: "go-on", Verb: stages.Start})
		h.feed.of("forth-rollback", stages.RunResumed)
		h.approve("forth-rollback", request)
		h.feed.end("forth-rollback")
	},
	// The rollback takes over the open work of the failed attempt.
	touches: func(c change) bool { return c.Cluster == "s3a" },
	partial: true,
	sparse:  true,
}

// A rollback with a crash before and after every write, with every write ambiguous, and with every
// write reported as failed and landing late. It is one run, no cluster is changed twice, and all
// clusters get their earlier content.
func TestCrashAtEveryWriteOfARollback(t *testing.T) {
	t.Parallel()
	want := rollbackStory.undisturbed(t)
	t.Logf("%d writes", want.writes)
	for cluster, value := range map[string]string{"s1a": "v1", "s2b": "v0", "s3a": "v0", "s4a": "v0"} {
		if got := fmt.Sprint(want.members[cluster]); !strings.Contains(got, fmt.Sprintf(`"key":%q`, value)) {
			t.Errorf("%s has %s, want %s", cluster, got, value)
		}
	}
	rollbackStory.checkAll(t, want, upTo(want.writes))
}
