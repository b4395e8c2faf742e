package member

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

// TestAConditionOfTheRevisionBeforeProvesNothing checks that a condition which a controller wrote
// for the previous revision proves nothing about the next revision.
func TestAConditionOfTheRevisionBeforeProvesNothing(t *testing.T) {
	k := newKit(t)
	certificate := func(host string) *unstructured.Unstructured {
		obj := bare("cert-manager.io/v1", "Certificate", "app", "web")
		obj.Object["spec"] = map[string]any{"host": host}
		return obj
	}
	k.revision("1", namespaceObject("app"), certificate("a"))
	k.revision("2", namespaceObject("app"), certificate("not allowed"))
	id := snapshot.IDOf(certificate(""))
	ready := func(status string, generation any) {
		t.Helper()
		if err := k.member.SetStatus(id, conditions(map[string]any{"type": "Ready", "status": status, "observedGeneration": generation})); err != nil {
			t.Fatal(err)
		}
	}
	k.place("1", 1, "r1")
	ready("True", int64(1))
	if r := k.place("1", 1, "r1"); !r.Healthy {
		t.Errorf("report %+v", r)
	}
	const old = "its condition Ready is of generation 1, and the object of 2"
	for _, generation := range []any{int64(1), "1"} {
		ready("True", generation)
		if r := k.place("2", 2, "r2"); r.Healthy || r.Failed || !strings.Contains(r.Message, old) {
			t.Errorf("report %+v, want one that says %q", r, old)
		}
	}
	ready("True", "2")
	if r := k.place("2", 2, "r2"); !r.Healthy {
		t.Errorf("report %+v", r)
	}
}

func TestAVerdictOfAnOlderCheckProvesNothing(t *testing.T) {
	job := bare("batch/v1", "Job", "app", "smoke")
	job.SetGeneration(2)
	for generation, want := range map[int64]bool{1: false, 2: true} {
		job.Object["status"] = conditions(map[string]any{"type": "Complete", "status": "True", "observedGeneration": generation})
		if h := jobVerdict(job); h.Healthy != want || h.Failed {
			t.Errorf("generation %d: %+v", generation, h)
		}
	}
}
