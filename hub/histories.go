package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// histories are what the events of runs were folded to, as far as they were
// read. A hub that starts reads them from the beginning.
type histories struct {
	mu   sync.Mutex
	runs map[key]*folded
}

// folded is the history of one run, used by one worker at a time.
type folded struct {
	uid  string
	next int64
	runHistory
	// asked and started are when an approval was asked for and a cluster started,
	// by name, for the metrics.
	asked, started map[string]time.Time
}

// of returns the history of the run of that UID.
func (h *histories) of(k key, uid string) *folded {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs == nil {
		h.runs = map[key]*folded{}
	}
	f := h.runs[k]
	if f == nil || f.uid != uid {
		f = &folded{uid: uid, asked: map[string]time.Time{}, started: map[string]time.Time{}}
		h.runs[k] = f
	}
	return f
}

func (h *histories) drop(k key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.runs, k)
}

// fold reads the events of a run that are new, and tells of those that no hub
// told of before: how many were told is in the status.
func (s *service) fold(ctx context.Context, k key, obj *unstructured.Unstructured, status fleet.Status) (*folded, error) {
	f := s.histories.of(k, status.Run.UID)
	told, _, _ := unstructured.NestedInt64(obj.Object, "status", "observedEvents")
	for {
		news, err := s.engine.History(ctx, status.Run.Name, f.next)
		var missed *fleet.MissedError
		if err != nil && !errors.As(err, &missed) {
			return nil, err
		}
		if news.UID != status.Run.UID || news.Next == f.next {
			return f, nil
		}
		for i := range news.Events {
			f.take(status.Plan, &news.Events[i])
			if news.After+int64(i) >= told {
				s.tellOf(obj, f, news.Events[i])
			}
		}
		f.next = news.Next
	}
}

// take folds an event.
func (f *folded) take(p *stages.Plan, e *stages.Event) {
	f.fold(p, e)
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

// tellOf counts an event and writes it as one of Kubernetes.
func (s *service) tellOf(obj *unstructured.Unstructured, f *folded, e stages.Event) {
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
	s.meters.happened(e, since)
	s.notes.tell(obj, e)
}
