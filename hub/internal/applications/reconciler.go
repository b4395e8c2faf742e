// Package applications reconciles Applications. It starts their workflows by package delivery,
// writes their progress as statuses and Events, and keeps a deleted Application until its
// delivered objects are gone.
package applications

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/queues"
)

// Reconciler reconciles applications. It owns the status of Applications and their finalizer, and
// only reads policies and workflows.
type Reconciler struct {
	*objects.Client
	Delivery *delivery.Applications
	Queues   *queues.Queues

	// known has the keys of applications. It is indexed by the names that the engine uses for the
	// placement and the last run of an application.
	known sync.Map
}

const (
	// statusPace is the shortest time between two writes of a status for reports of the engine.
	statusPace = 500 * time.Millisecond
	// problemAgain is the delay between two attempts to begin an application with a problem. No
	// watch reports the objects that it refers to.
	problemAgain = 2 * time.Second
	// removeAgain is the interval between looks at a deletion, because no record reports it.
	removeAgain = 5 * time.Second
)

// Reconcile starts the workflow of the application's version, and writes its progress, or the
// reason why it does not begin, into the status and Events.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	obj := r.Object(api.ApplicationGVR(), k)
	if obj == nil {
		r.Queues.Applications.Drop(k)
		return 0, nil
	}
	r.known.Store(delivery.PlacementOf(k.Namespace, k.Name), k)
	if obj.GetDeletionTimestamp() != nil {
		return r.remove(ctx, k, obj)
	}
	if err := r.EnsureFinalizer(ctx, api.ApplicationGVR(), obj, api.FinalizerApplication); err != nil {
		return 0, err
	}
	out, err := r.Delivery.Reconcile(ctx, obj, func(ctx context.Context) error { return r.Recheck(ctx, api.ApplicationGVR(), obj) })
	if err != nil {
		return 0, err
	}
	if out.Run != "" {
		r.known.Store(out.Run, k)
	}
	next, err := tree(out.Status)
	if err != nil {
		return 0, err
	}
	if err := r.WriteStatusMap(ctx, api.ApplicationGVR(), obj, next); err != nil {
		return 0, err
	}
	r.record(obj, &out)
	if out.Problem != nil {
		return problemAgain, nil //nolint:nilerr // the status reports it, and the next round retries
	}
	return 0, nil
}

// remove removes the delivered objects of an application, and then drops its finalizer.
func (r *Reconciler) remove(ctx context.Context, k api.Key, obj *unstructured.Unstructured) (time.Duration, error) {
	gone, err := r.Delivery.Remove(ctx, k.Namespace, k.Name)
	if err != nil || !gone {
		return removeAgain, err
	}
	r.known.Range(func(name, of any) bool {
		if of == k {
			r.known.Delete(name)
		}
		return true
	})
	return 0, r.DropFinalizer(ctx, api.ApplicationGVR(), obj, api.FinalizerApplication)
}

// record writes the changes since the previous status of obj as Events.
func (r *Reconciler) record(obj *unstructured.Unstructured, out *delivery.Outcome) {
	if out.Begun {
		r.Recorder.Normal(obj, api.EventWorkflowStarted, "run %s", out.Run)
	}
	if out.Problem != nil && api.ConditionOf(obj, "Parsed").Message != out.Problem.Error() {
		r.Recorder.Warning(obj, api.EventWorkflowNotStarted, "%v", out.Problem)
	}
	before, _, _ := unstructured.NestedString(obj.Object, "status", "status")
	phase := out.Status.Phase
	switch {
	case phase == before || phase == oam.Starting || out.Status.Workflow == nil:
	case phase == oam.WorkflowFailed:
		r.Recorder.Warning(obj, api.EventWorkflowFailed, "run %s: %s", out.Run, out.Status.Workflow.Message)
	case phase == oam.WorkflowTerminated:
		r.Recorder.Warning(obj, api.EventWorkflowTerminated, "run %s: %s", out.Run, out.Status.Workflow.Message)
	case phase == oam.WorkflowSuspending:
		r.Recorder.Normal(obj, api.EventWorkflowSuspending, "run %s", out.Run)
	case phase == oam.ApplicationRunning:
		r.Recorder.Normal(obj, api.EventRunning, "run %s", out.Run)
	default:
		r.Recorder.Normal(obj, api.EventRunningWorkflow, "run %s", out.Run)
	}
}

// tree converts a status to the form in an object.
func tree(status oam.AppStatus) (out map[string]any, err error) {
	text, err := json.Marshal(status)
	if err == nil {
		err = utiljson.Unmarshal(text, &out)
	}
	return out, err
}

// EnqueueRecord enqueues the application whose placement or last run has that name in the engine.
func (r *Reconciler) EnqueueRecord(name string) {
	if k, ok := r.known.Load(name); ok {
		r.Queues.Applications.AddPaced(k.(api.Key), statusPace)
	}
}

// EnqueueAll enqueues the applications of a namespace, or all if it is "".
func (r *Reconciler) EnqueueAll(namespace string) {
	for _, app := range r.All(api.ApplicationGVR()) {
		if namespace == "" || app.GetNamespace() == namespace {
			r.Queues.Applications.AddPaced(api.KeyOf(app), statusPace)
		}
	}
}
