package hub_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

func getOptions() metav1.GetOptions { return metav1.GetOptions{} }

// withoutCancel returns a context for the cleanup after a test.
func withoutCancel(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }

// soaks reports whether the long versions of tests are requested.
func soaks() bool { return os.Getenv("SLIPWAY_SOAK") != "" }

// seeds returns few numbers, or many in a soak test.
func seeds(few, many int) []uint64 {
	n := few
	if soaks() {
		n = many
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(i + 1)
	}
	return out
}

// faultEnv adds faults at random, from a seed.
type faultEnv struct {
	dice   *rand.Rand
	struck []func() int
}

func newStorm(seed uint64) *faultEnv { return &faultEnv{dice: rand.New(rand.NewPCG(seed, 4))} }

// over disturbs requests of each verb for a while.
func (s *faultEnv) over(f *kubeenv.Faults) {
	for _, verb := range []string{"get", "list", "create", "update", "patch", "delete"} {
		for range 3 {
			s.rule(f, verb, s.fault(verb))
		}
	}
	s.cut(f)
}

// touch disturbs only some requests to a member, because a hub retries a member that stays
// unreachable less and less often.
func (s *faultEnv) touch(f *kubeenv.Faults) {
	for range 2 {
		s.rule(f, "patch", s.fault("patch"))
	}
	s.rule(f, "get", s.fault("get"))
	s.cut(f)
}

// cut disturbs watches.
func (s *faultEnv) cut(f *kubeenv.Faults) {
	for _, fault := range []kubeenv.Fault{kubeenv.Gone(), kubeenv.GoneEvent(), kubeenv.CutAfter(s.dice.IntN(3)), kubeenv.ResetBefore()} {
		s.rule(f, "watch", fault)
	}
}

func (s *faultEnv) rule(f *kubeenv.Faults, verb string, fault kubeenv.Fault) {
	s.struck = append(s.struck, f.Add(kubeenv.Rule{
		Verb: verb, First: 1 + s.dice.IntN(20), Every: 1 + s.dice.IntN(12), Times: 1 + s.dice.IntN(3), Fault: fault,
	}))
}

// fault returns a random fault for the verb.
func (s *faultEnv) fault(verb string) kubeenv.Fault {
	faults := []kubeenv.Fault{
		kubeenv.TooManyRequests(0), kubeenv.ResetBefore(), kubeenv.ResetAfter(),
		kubeenv.Answer(http.StatusInternalServerError, metav1.StatusReasonInternalError),
		kubeenv.Answer(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
		kubeenv.Answer(http.StatusGatewayTimeout, metav1.StatusReasonTimeout),
		kubeenv.Delay(time.Duration(s.dice.IntN(300)) * time.Millisecond),
	}
	if verb == "create" || verb == "update" || verb == "patch" || verb == "delete" {
		faults = append(faults, kubeenv.Conflict(), kubeenv.Conflict())
	}
	return faults[s.dice.IntN(len(faults))]
}

// calm ends the faults, and fails the test if there were none.
func (s *faultEnv) calm(t *testing.T, r *running, members []*member) {
	t.Helper()
	r.faults.Heal()
	for _, m := range members {
		m.faults.Heal()
	}
	struck := 0
	for _, n := range s.struck {
		struck += n()
	}
	t.Logf("the storm struck %d requests", struck)
	if struck < 20 {
		t.Errorf("the storm struck %d requests only", struck)
	}
}

// clusterMessage returns the message in the status of a run about a cluster that is not updated
// yet: the message of the last condition that is not true.
func clusterMessage(run *unstructured.Unstructured, cluster string) (text string) {
	all, _, _ := unstructured.NestedSlice(run.Object, "status", "stagesStatus")
	for _, stage := range all {
		stage, _ := stage.(map[string]any)
		list, _, _ := unstructured.NestedSlice(stage, "clusters")
		for _, c := range list {
			c, _ := c.(map[string]any)
			if c["clusterName"] != cluster {
				continue
			}
			conditions, _, _ := unstructured.NestedSlice(c, "conditions")
			for _, one := range conditions {
				if one, ok := one.(map[string]any); ok && one["status"] == "False" {
					text = fmt.Sprintf("%v: %v", one["reason"], one["message"])
				}
			}
		}
	}
	return text
}

// define places a definition of the kind Widget, in the environment's own group, with one object of
// that kind.
func (w *hubEnv) define() {
	w.t.Helper()
	w.defineWidgets()
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	first := w.parse(`{apiVersion: $NAME.example.com/v1, kind: Widget, metadata: {name: first, namespace: $NAME}, spec: {size: 3}}`)
	w.eventually("the hub to serve the kind", func() error {
		_, err := w.client.Resource(w.widgets()).Namespace(w.name).Create(w.t.Context(), first, metav1.CreateOptions{})
		return err
	})
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  resourceSelectors:
  - {group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition, name: widgets.$NAME.example.com}
  - {group: "", version: v1, kind: Namespace, name: $NAME}
  policy: {placementType: PickAll}
  strategy: {type: External}
`)
}

// defineWidgets defines the kind Widget, in the environment's own group, until the test ends. Hubs
// of other environments may have no right to read it.
func (w *hubEnv) defineWidgets() {
	w.t.Helper()
	made := w.createText(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.$NAME.example.com}
spec:
  group: $NAME.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`)
	w.t.Cleanup(func() {
		if err := w.at("crd").Delete(context.WithoutCancel(w.t.Context()), made.GetName(), metav1.DeleteOptions{}); err != nil {
			w.t.Errorf("deleting %s: %v", made.GetName(), err)
		}
	})
}

func (w *hubEnv) widgets() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: w.name + ".example.com", Version: "v1", Resource: "widgets"}
}
