package fleet_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// holding returns a step that needs an approval.
func holding(name string) stages.Stage {
	return stages.Stage{Name: name, Before: []stages.Task{{Type: stages.Approval}}, Flow: stages.Flow{Pause: true}}
}

// flowOf returns a workflow over fourStages: a pause, then three groups that depend on one another
// with a wait among them, then a step with a short timeout, then a step that runs always.
func flowOf(onFailure stages.OnFailure) stages.Strategy {
	own := func(name string, f stages.Flow, after []string, clusters ...string) stages.Group {
		return stages.Group{Name: name, Clusters: clusters, MaxConcurrency: percent("100%"), DependsOn: after, Flow: f}
	}
	wait := own("wait", stages.Flow{Pause: true}, []string{"left", "right"})
	wait.Before = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}}
	long := stages.Flow{Timeout: metav1.Duration{Duration: time.Hour}}
	return stages.Strategy{
		Profile: stages.Workflow, OnFailure: onFailure, Unassigned: stages.UnassignedExclude, Backoff: metav1.Duration{Duration: 4 * time.Minute},
		Stages: []stages.Stage{
			holding("hold"),
			{
				Name: "graph", Clusters: []string{"s1a", "s1b", "s2a"}, Flow: long,
				Groups: []stages.Group{own("left", long, nil, "s1a"), own("right", stages.Flow{}, nil, "s1b"), wait, own("last", long, []string{"wait"}, "s2a")},
			},
			{Name: "late", Clusters: []string{"s3a", "s3b"}, MaxConcurrency: percent("100%"), Flow: stages.Flow{Timeout: metav1.Duration{Duration: 5 * time.Minute}}},
			{Name: "never", Clusters: []string{"s2b"}},
			{Name: "always", Clusters: []string{"s4a"}, Flow: stages.Flow{Always: true}},
		},
	}
}

// Two workflows. In the first, a step times out, which suspends it, and it is resumed when the
// cluster is healthy. The second is stopped while it waits, is resumed, and ends when a step times
// out, except for the steps that run always.
var workflowStory = crashScenario{
	placement: ep,
	runs:      []string{"first", "second"},
	build:     fourStages,
	tell: func(h *host) {
		h.declare(tutorialPlacement())
		h.failsAt("s3a", "v0")
		h.create(fleet.RunSpec{Name: "first", Placement: ep, Strategy: flowOf(stages.SuspendRun)})
		h.approve("first", h.feed.of("first", stages.ApprovalRequested).Request)
		h.feed.of("first", stages.RunStopped)
		h.failsAt("s3a", "nothing")
		h.command("first", stages.Command{ID: "resume", Verb: stages.Start})
		h.feed.end("first")
		h.put("v1")
		h.failsAt("s3b", "v1")
		h.create(fleet.RunSpec{Name: "second", Placement: ep, Strategy: flowOf(stages.EndRun)})
		request := h.feed.of("second", stages.ApprovalRequested).Request
		h.approve("second", request)
		h.feed.of("second", stages.WaitStarted)
		h.command("second", stages.Command{ID: "stop-it", Verb: stages.Stop})
		h.feed.of("second", stages.RunStopped)
		h.command("second", stages.Command{ID: "go-on", Verb: stages.Start})
		h.feed.end("second")
	},
	// A client that tries again takes over the open work of the failed attempts.
	touches: func(c change) bool { return strings.HasPrefix(c.Cluster, "s3") },
	again:   map[string]bool{"s3a": true},
	partial: true,
	sparse:  true,
}

// Workflows with a crash before and after every write, with every write ambiguous, and with every
// write reported as failed and landing late. Each step runs once, pauses hold, late steps are late,
// and steps that run always do run.
func TestCrashAtEveryWriteOfAWorkflow(t *testing.T) {
	t.Parallel()
	want := workflowStory.undisturbed(t)
	t.Logf("%d writes", want.writes)
	for cluster, value := range map[string]string{"s1a": "v1", "s2a": "v1", "s3a": "v1", "s3b": "v0", "s2b": "v0", "s4a": "v1"} {
		if got := fmt.Sprint(want.members[cluster]); !strings.Contains(got, fmt.Sprintf(`"key":%q`, value)) {
			t.Errorf("%s has %s, want %s", cluster, got, value)
		}
	}
	workflowStory.checkAll(t, want, upTo(want.writes))
}
