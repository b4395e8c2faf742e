package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// RunState is how far a run has come, by its conditions.
type RunState string

// The states of a run.
const (
	// RunNew: nothing was done for it, and whichever hub runs next begins it.
	RunNew RunState = "New"
	// RunInitialized: it is planned and was not started. The other hub does not start it.
	RunInitialized RunState = "Initialized"
	// RunActive: it was started and has not ended, be it stopped.
	RunActive RunState = "Active"
	// RunEnded: it has succeeded or failed, or could not be initialized.
	RunEnded RunState = "Ended"
)

// Run is a staged update run.
type Run struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Placement string   `json:"placement"`
	State     RunState `json:"state"`
	// Reason is that of the condition which says so.
	Reason string `json:"reason,omitempty"`
}

func (r Run) String() string {
	return fmt.Sprintf("%s %s", r.Kind, keyName(api.Key{Namespace: r.Namespace, Name: r.Name}))
}

// readRun reads the state of a run. KubeFleet and package hub have the same conditions for it.
func readRun(obj *unstructured.Unstructured) Run {
	r := Run{
		Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(), State: RunNew,
		Placement: api.SpecString(obj, "placementName"),
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
