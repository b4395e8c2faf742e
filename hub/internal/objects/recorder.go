package objects

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

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
	log      *slog.Logger
	Stop     func()
}

// NewRecorder returns a recorder that also logs each Event to log, at the level Info. It logs
// failed writes to the logger in ctx.
func NewRecorder(ctx context.Context, client kubernetes.Interface, name string, log *slog.Logger) *Recorder {
	b := record.NewBroadcaster(record.WithContext(ctx))
	b.StartRecordingToSink(&typed.EventSinkImpl{Interface: client.CoreV1().Events("")})
	return &Recorder{
		recorder: b.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "slipway-hub", Host: name}),
		log:      log,
		Stop:     b.Shutdown,
	}
}

// Normal writes an Event about an expected change.
func (n *Recorder) Normal(obj *unstructured.Unstructured, reason api.EventReason, format string, args ...any) {
	n.write(obj, corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...))
}

// Warning writes an Event about a problem that needs attention.
func (n *Recorder) Warning(obj *unstructured.Unstructured, reason api.EventReason, format string, args ...any) {
	n.write(obj, corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...))
}

func (n *Recorder) write(obj *unstructured.Unstructured, kind string, reason api.EventReason, message string) {
	message = api.Printable(message, 1000) // an Event has at most 1,024 characters
	n.recorder.Event(obj, kind, string(reason), message)
	n.log.Info(string(reason), "object", obj.GetKind()+" "+strings.TrimPrefix(api.KeyOf(obj).String(), "/"), "type", kind, "message", message)
}

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
