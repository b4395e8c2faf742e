package requests

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// An answer is new to the engine until the engine has taken it in. After that it is not new, even
// while the gate waits for other answers; otherwise the status of the run would wait for them, too.
func TestProcessedAnswerIsNotNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members := memory.NewFleet()
		members.Add(placement.Cluster{Name: "member1"})
		e, err := fleet.New(fleet.Config{
			Store: memory.NewStore(), Inventory: members, Dialer: members,
			Source: memory.NewSource(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "example.com/v1", "kind": "Setting", "metadata": map[string]any{"name": "app"},
			}}),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.PutPlacement(t.Context(), fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Group: "example.com", Version: "v1", Kind: "Setting", Name: "app"}}}); err != nil {
			t.Fatal(err)
		}
		gate := stages.Task{Type: stages.Approval, Approval: &approval.Policy{Quorums: []approval.Quorum{{Count: 2}}}}
		all := stages.Stage{Name: "all", Selector: &metav1.LabelSelector{}, After: []stages.Task{gate}}
		if _, err := e.CreateRun(t.Context(), fleet.RunSpec{Name: "r", Placement: "web", Strategy: stages.Strategy{Stages: []stages.Stage{all}}}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Start(ctx) }()
		defer func() { stop(); <-ended }()

		r, obj := &Requests{Engine: e}, new(unstructured.Unstructured)
		obj.SetUID("uid")
		for i, want := range []bool{true, false} {
			time.Sleep(time.Minute)
			st, err := e.Run("r").Status(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			open := step.Requests(st.Plan, &st.Run)
			if len(open) != 1 || len(open[0].Decisions) != i {
				t.Fatalf("the open requests: %+v", open)
			}
			answer := status.Answer{Verdict: approval.Approve, By: approval.Identity{Name: "alice"}}
			refused, accepted, err := r.decide(t.Context(), obj, &open[0], answer)
			if refused != "" || err != nil || accepted != want {
				t.Errorf("answer %d: refused %q, new to the engine: %t, %v", i+1, refused, accepted, err)
			}
		}
	})
}
