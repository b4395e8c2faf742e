package objects

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// Recorder writes Kubernetes Events for people. Events may be lost. client-go's rates aggregate
// or drop repeated Events: at most 25 of an object at once, and one every five minutes after
// that.
type Recorder struct {
	recorder record.EventRecorder
	Stop     func()
}

// NewRecorder returns a recorder that logs failed writes to the logger in ctx.
func NewRecorder(ctx context.Context, client kubernetes.Interface, name string) *Recorder {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typed.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &Recorder{
		recorder: b.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "slipway-hub", Host: name}),
		Stop:     b.Shutdown,
	}
}

// Normal writes an Event about an expected change.
func (n *Recorder) Normal(obj *unstructured.Unstructured, reason api.EventReason, format string, args ...any) {
	n.recorder.Event(obj, corev1.EventTypeNormal, string(reason), clipped(fmt.Sprintf(format, args...)))
}

// Warning writes an Event about a problem that needs attention.
func (n *Recorder) Warning(obj *unstructured.Unstructured, reason api.EventReason, format string, args ...any) {
	n.recorder.Event(obj, corev1.EventTypeWarning, string(reason), clipped(fmt.Sprintf(format, args...)))
}

// clipped shortens a message to the limit of an Event.
func clipped(s string) string { return api.Printable(s, 1000) }

// Record writes an event of a run as a Kubernetes Event on it. The status shows the progress of
// every cluster, so clusters get Events only for problems.
func (n *Recorder) Record(run *unstructured.Unstructured, e stages.Event) {
	switch e.Type {
	case stages.RunQueued, stages.RunStarted, stages.RunStopping, stages.RunStopped, stages.RunResumed, stages.RunCompleted,
		stages.StageStarted, stages.StageSkipped, stages.StageCompleted, stages.WaitStarted, stages.WaitEnded,
		stages.ApprovalRequested, stages.ApprovalEarly, stages.ApprovalGiven, stages.ApprovalAccepted, stages.RollbackRequested, stages.CommandAccepted:
		n.Normal(run, api.EventReason(e.Type), "%s", sentence(e))
	case stages.RunFailed, stages.RunAborted, stages.RunSuperseded, stages.ApprovalRejected, stages.ApprovalExpired,
		stages.ClusterFailed, stages.ClusterPending, stages.ClusterRetrying, stages.ClusterUnhealthy, stages.CommandRefused,
		stages.RollbackRefused, stages.ObjectsReleased, stages.ObjectsAltered:
		n.Warning(run, api.EventReason(e.Type), "%s", sentence(e))
	case stages.CheckMeasured, stages.CheckEnded:
		switch {
		case e.Result != string(check.Successful):
			n.Warning(run, api.EventReason(e.Type), "%s", sentence(e))
		case e.Cluster == "":
			n.Normal(run, api.EventReason(e.Type), "%s", sentence(e))
		}
	default:
	}
}

// sentence returns the text of an event, for people.
func sentence(e stages.Event) string {
	s := ""
	for _, part := range []struct{ name, value string }{
		{"stage ", e.Stage}, {"cluster ", e.Cluster}, {"request ", e.Request}, {"check ", e.Check}, {"", e.Result}, {"value ", e.Value}, {"by ", e.By}, {"", e.Message},
	} {
		if part.value == "" {
			continue
		}
		if s != "" {
			s += ", "
		}
		s += part.name + part.value
	}
	if !e.Until.IsZero() {
		s += fmt.Sprintf(" (until %s)", e.Until.UTC().Format("2006-01-02 15:04:05 MST"))
	}
	if s == "" {
		return string(e.Type)
	}
	return s
}
