package runs

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
)

// orphanPace is how often it is looked whether a run without an object is the
// host's own.
const orphanPace = time.Minute

// HeardOrphan wakes the object, which there is none of, of a run that the engine
// calls so.
func (r *Reconciler) HeardOrphan(run string) {
	if ns, name, ok := kubefleet.ObjectName(run); ok {
		r.Queues.Runs.AddPaced(api.Key{Namespace: ns, Name: name}, orphanPace)
	} else if kubefleet.IsCut(run) {
		r.Queues.Orphans.AddPaced(api.Key{Name: run}, orphanPace)
	}
}

// ReconcileOrphan wakes the object of a run, which only the run's record tells.
func (r *Reconciler) ReconcileOrphan(ctx context.Context, run api.Key) (time.Duration, error) {
	st, err := r.Engine.Status(ctx, run.Name)
	if errors.Is(err, backend.ErrNotFound) {
		r.Queues.Orphans.Drop(run)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if k, ok := api.KeyOfStatus(&st); ok {
		r.Queues.Runs.Add(k)
	}
	return 0, nil
}

// orphaned deletes the run of an object that went without its finalizer: nobody
// would see what it does. A run that takes another one back gets its object.
func (r *Reconciler) orphaned(ctx context.Context, k api.Key) (time.Duration, error) {
	st, err := r.Engine.Status(ctx, kubefleet.EngineName(k.Namespace, k.Name))
	if errors.Is(err, backend.ErrNotFound) {
		r.Queues.Runs.Drop(k)
		return 0, nil
	}
	if err != nil || st.Owner == "" {
		return 0, err
	}
	_, err = r.Dynamic.Resource(api.ScopeOf(k).GVR(api.RunKind)).Namespace(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return 0, err // where it is there, the watch will tell
	}
	if st.Plan.Rollback != nil {
		return r.ShowRollback(ctx, k, st)
	}
	r.Log.Warn("the object of a run went without its finalizer: the run is deleted", "run", k.String(), "uid", st.Owner)
	if err := r.Engine.DeleteRun(ctx, st.Run.Name); !errors.Is(err, backend.ErrNotFound) {
		return 0, err
	}
	return 0, nil
}
