package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// failingOn returns the objects that an engine knows to fail on a cluster.
func failingOn(e *fleet.Engine, cluster string) string {
	c := e.Placement("example-placement").Failing()[cluster]
	if len(c.Objects) == 0 {
		return ""
	}
	out := c.Run + ":"
	for _, o := range c.Objects {
		out += fmt.Sprintf(" %s %s %s %q", o.Kind, o.Name, o.Reason, o.Message)
	}
	return out
}

// Every object is named that a cluster refuses, that is unhealthy or that was removed, until it is
// repaired. Other objects and clusters are not named.
func TestFailingNamesTheObjectsThatAreNotAsTheyShouldBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		deployment := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "app", "namespace": "test-namespace", "generation": int64(1)},
			"spec": map[string]any{"replicas": int64(1)},
		}}
		w.puts(configMap("one", "1"), configMap("two", "2"), deployment)
		ready := map[string]any{
			"observedGeneration": int64(1), "replicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1), "updatedReplicas": int64(1),
			"conditions": []any{map[string]any{"type": "Available", "status": "True"}},
		}
		for _, name := range []string{"member1", "member3"} {
			w.fleet.Cluster(name).React(func(obj *unstructured.Unstructured) map[string]any {
				if obj.GetKind() == "Deployment" {
					return ready
				}
				return nil
			})
		}
		w.fleet.Cluster("member1").Refuse(func(obj *unstructured.Unstructured) error {
			if obj.GetName() == "one" || obj.GetName() == "two" {
				return errors.New("not admitted")
			}
			return nil
		})
		e := w.newEngine(fleet.Config{})
		w.declare(e, tutorialPlacement())
		w.create(e, fleet.RunSpec{Name: "r", Placement: "example-placement", Strategy: allAtOnce(3)})
		defer running(t, e)()
		settle()
		refused := failingOn(e, "member1")
		for _, want := range []string{"r: ConfigMap one NotApplied", "ConfigMap two NotApplied", "not admitted"} {
			if !strings.Contains(refused, want) {
				t.Errorf("member1 has %s, want %s", refused, want)
			}
		}
		if strings.Contains(refused, "test-cm") {
			t.Errorf("member1 has %s, although that was applied", refused)
		}
		if got := failingOn(e, "member2"); !strings.HasPrefix(got, "r: Deployment app NotHealthy") {
			t.Errorf("member2 has %s", got)
		}
		if got := failingOn(e, "member3"); got != "" {
			t.Errorf("member3 has %s", got)
		}

		w.fleet.Cluster("member1").Refuse(nil)
		if err := w.fleet.Cluster("member2").SetStatus(snapshot.IDOf(deployment), ready); err != nil {
			t.Fatal(err)
		}
		w.within(time.Hour, "r", stages.Completed)
		if got := e.Placement("example-placement").Failing(); len(got) != 0 {
			t.Errorf("%v fail at the end", got)
		}
	})
}
