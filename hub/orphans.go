package hub

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// orphanPace is how often it is looked whether a run without an object is the
// host's own.
const orphanPace = time.Minute

// heardOrphan wakes the object, which there is none of, of a run that the engine
// calls so.
func (s *service) heardOrphan(run string) {
	if ns, name, ok := kubefleet.ObjectName(run); ok {
		s.runs.addPaced(key{Namespace: ns, Name: name}, orphanPace)
	} else if kubefleet.IsCut(run) {
		s.orphans.addPaced(key{Name: run}, orphanPace)
	}
}

// syncOrphan wakes the object of a run, which only the run's record tells.
func (s *service) syncOrphan(ctx context.Context, run key) (time.Duration, error) {
	status, err := s.engine.Status(ctx, run.Name)
	if errors.Is(err, backend.ErrNotFound) {
		s.orphans.drop(run)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if k, ok := keyOfStatus(&status); ok {
		s.runs.add(k)
	}
	return 0, nil
}

// keyOfStatus is the object of a run. That of one which takes another one back is
// beside the object of the other.
func keyOfStatus(status *fleet.Status) (key, bool) {
	if status.Plan.Rollback == nil {
		return keyOfRun(status.Run.Name, status.Title)
	}
	of, ok := keyOfRun(status.Plan.Rollback.Run, status.Title)
	if !ok {
		return keyOfRun(status.Run.Name, "")
	}
	return rollbackKey(of, status.Run.Name)
}

// orphaned deletes the run of an object that went without its finalizer: nobody
// would see what it does. A run that takes another one back gets its object.
func (s *service) orphaned(ctx context.Context, k key) (time.Duration, error) {
	status, err := s.engine.Status(ctx, kubefleet.EngineName(k.Namespace, k.Name))
	if errors.Is(err, backend.ErrNotFound) {
		s.runs.drop(k)
		return 0, nil
	}
	if err != nil || status.Owner == "" {
		return 0, err
	}
	_, err = s.client.Resource(scopeOf(k).gvr(runKind)).Namespace(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return 0, err // where it is there, the watch will tell
	}
	if status.Plan.Rollback != nil {
		return s.showRollback(ctx, k, status)
	}
	s.log.Warn("the object of a run went without its finalizer: the run is deleted", "run", k.String(), "uid", status.Owner)
	if err := s.engine.DeleteRun(ctx, status.Run.Name); !errors.Is(err, backend.ErrNotFound) {
		return 0, err
	}
	return 0, nil
}
