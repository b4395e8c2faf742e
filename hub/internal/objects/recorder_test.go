package objects

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// The log of a hub has each Event, with its object, at the level Info.
func TestTheLogHasEachEvent(t *testing.T) {
	var out bytes.Buffer
	n := NewRecorder(t.Context(), fake.NewClientset(), "hub", slog.New(slog.NewTextHandler(&out, nil)))
	run := &unstructured.Unstructured{}
	run.SetKind("ClusterStagedUpdateRun")
	run.SetName("example-run")
	n.Record(run, stages.Event{Type: stages.StageStarted, Stage: "canary"})
	n.Record(run, stages.Event{Type: stages.RunFailed, Message: "a member fails"})
	n.Warning(run, api.EventRunNotBegun, "%s", strings.Repeat("x", 2000))
	n.Stop()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for i, want := range []string{"canary", "a member fails", "type=Warning"} {
		if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], `object="ClusterStagedUpdateRun example-run"`) || len(lines[i]) > 1300 {
			t.Errorf("no %q in %s", want, lines[i])
		}
	}
}
