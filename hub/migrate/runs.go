package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// RunState is the progress of a run, according to its conditions.
type RunState string

// The states of a run.
const (
	// RunNew: nothing was done for the run. The next hub that serves starts it.
	RunNew RunState = "New"
	// RunInitialized: the run was planned and not started. The other hub does not start it.
	RunInitialized RunState = "Initialized"
	// RunActive: the run was started and has not ended; it may be stopped.
	RunActive RunState = "Active"
	// RunEnded: the run succeeded, failed, or could not be initialized.
	RunEnded RunState = "Ended"
)

// Run is a staged update run.
type Run struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Placement string   `json:"placement"`
	State     RunState `json:"state"`
	// Reason is the reason of the condition that decided the state.
	Reason string `json:"reason,omitempty"`
}

func (r Run) String() string {
	return fmt.Sprintf("%s %s", r.Kind, keyName(api.Key{Namespace: r.Namespace, Name: r.Name}))
}

// readRun reads the state of a run. KubeFleet and package hub write the same conditions.
func readRun(obj *unstructured.Unstructured) Run {
	r := Run{
		Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), State: RunNew,
		Placement: api.PlacementOf(obj),
	}
	initialized := api.ConditionOf(obj, api.ConditionInitialized)
	progressing := api.ConditionOf(obj, api.ConditionProgressing)
	succeeded := api.ConditionOf(obj, api.ConditionSucceeded)
	switch {
	case succeeded.Status != "":
		r.State, r.Reason = RunEnded, succeeded.Reason
	case initialized.Status == "False":
		r.State, r.Reason = RunEnded, initialized.Reason
	case progressing.Status != "":
		r.State, r.Reason = RunActive, progressing.Reason
	case initialized.Status == "True":
		r.State, r.Reason = RunInitialized, initialized.Reason
	}
	return r
}
