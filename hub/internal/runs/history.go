package runs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/stages"
)

// histories are the folded events of runs, up to the last event read. A hub that starts reads
// them from the beginning.
type histories struct {
	mu   sync.Mutex
	runs map[api.Key]*runHistory
}

// runHistory is the history of one run, used by one worker at a time.
type runHistory struct {
	uid  string
	next int64
	status.RunHistory
	// asked and started map requests and clusters to the times at which they began, for the
	// metrics.
	asked, started map[string]time.Time
	// answered is the time of an answer that the engine has not processed yet, zero without one.
	answered time.Time
}

// defers reports whether the write of the run's status may wait for the engine to process an
// answer.
func (f *runHistory) defers(now time.Time) bool {
	if f.answered.IsZero() {
		f.answered = now
	}
	return now.Sub(f.answered) < answeredLongest
}

// of returns the history of a run.
func (h *histories) of(k api.Key) *runHistory {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs = map[api.Key]*runHistory{}
	}
	f := h.runs[k]
	if f == nil {
		f = &runHistory{asked: map[string]time.Time{}, started: map[string]time.Time{}}
		h.runs[k] = f
	}
	return f
}

// after returns the number of the first event to read: the next event, or told if no event has
// been read. Reading from told shows whether there is anything to do.
func (f *runHistory) after(told int64) int64 {
	if f.next > 0 {
		return f.next
	}
	return told
}

func (h *histories) drop(k api.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.runs, k)
}

// observedEvents returns the number of events of a run that were already written as events of
// Kubernetes.
func observedEvents(obj *unstructured.Unstructured) int64 {
	told, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedEvents")
	return told
}

// fold folds the new events of a run, or all events if none has been read, and records the events
// that no hub recorded before.
func (r *Reconciler) fold(ctx context.Context, obj *unstructured.Unstructured, f *runHistory, st fleet.Status, news fleet.History) (err error) {
	if f.uid != st.Run.UID {
		*f = runHistory{uid: st.Run.UID, asked: map[string]time.Time{}, started: map[string]time.Time{}}
	}
	if news.After > f.next {
		if news, err = r.Engine.Run(st.Run.Name).History(ctx, f.next); err != nil {
			return err
		}
	}
	if news.UID != f.uid || news.After != f.next {
		return fmt.Errorf("run %s was made again while it was read: %w", st.Run.Name, backend.ErrConflict)
	}
	told := observedEvents(obj)
	for i := range news.Events {
		f.take(st.Plan, &news.Events[i])
		if news.After+int64(i) >= told {
			r.recordEvent(obj, f, news.Events[i])
		}
	}
	f.next = news.Next
	return nil
}

// take folds an event.
func (f *runHistory) take(p *stages.Plan, e *stages.Event) {
	f.Fold(p, e)
	switch e.Type {
	case stages.ClusterStarted:
		f.started[e.Cluster] = e.Time
	case stages.ApprovalRequested:
		f.asked[e.Request] = e.Time
	case stages.ClusterFailed, stages.ClusterSkipped:
		delete(f.started, e.Cluster)
	default:
	}
}

// recordEvent counts an event and writes it as an event of Kubernetes.
func (r *Reconciler) recordEvent(obj *unstructured.Unstructured, f *runHistory, e stages.Event) {
	since := time.Time{}
	switch e.Type {
	case stages.ClusterCompleted:
		since = f.started[e.Cluster]
		delete(f.started, e.Cluster)
	case stages.ApprovalAccepted:
		since = f.asked[e.Request]
		delete(f.asked, e.Request)
	default:
	}
	r.Meters.Happened(e, since)
	r.Recorder.Record(obj, e)
}
