package clusterapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/clusterapi"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// hostile is a management cluster that returns arbitrary objects, and accepts every write.
type hostile struct {
	objects []string
	parsed  []*unstructured.Unstructured
}

func (h *hostile) all() []*unstructured.Unstructured {
	if h.parsed != nil {
		return h.parsed
	}
	for _, text := range h.objects {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(text), &u.Object); err == nil {
			h.parsed = append(h.parsed, u)
		}
	}
	return h.parsed
}

func (h *hostile) Get(_ context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	for _, o := range h.all() {
		if o.GetKind() == id.Kind && o.GetName() == id.Name {
			return o, nil
		}
	}
	return nil, backend.ErrNotFound
}

func (h *hostile) Apply(_ context.Context, obj *unstructured.Unstructured, _ backend.ApplyOptions) (*unstructured.Unstructured, error) {
	return obj, nil
}

func (h *hostile) Delete(context.Context, snapshot.ID, backend.DeleteOptions) error { return nil }

func (h *hostile) Close() error { return nil }

func (h *hostile) Objects(_ context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		for _, o := range h.all() {
			if o.GetKind() == q.Kind && !yield(o, nil) {
				return
			}
		}
	}
}

// topologyObjects returns a cluster with a topology, with all fields that are read.
func topologyObjects() []string {
	return []string{
		`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"a","namespace":"default","generation":2,"labels":{"topology.kubernetes.io/region":"eu"},
		 "annotations":{"slipway.dev/upgrade":"{\"id\":\"x\",\"placement\":\"fleet\",\"epoch\":1,\"part\":\"Nodes\",\"goal\":{\"pools\":[{\"name\":\"md-0\",\"version\":\"1.31.2\"}]}}"}},
		 "spec":{"paused":false,"controlPlaneRef":{"apiGroup":"controlplane.cluster.x-k8s.io","kind":"KubeadmControlPlane","name":"cp"},
		 "topology":{"version":"v1.31.2","controlPlane":{"variables":{"overrides":[{"name":"boxImage","value":"box"}]}},
		 "workers":{"machineDeployments":[{"name":"md-0","metadata":{"annotations":{"topology.cluster.x-k8s.io/hold-upgrade-sequence":""}},"variables":{"overrides":[{"name":"boxImage","value":"box"}]}}]}}},
		 "status":{"conditions":[{"type":"TopologyReconciled","status":"True","reason":"x","message":"y","observedGeneration":2}]}}`,
		`{"apiVersion":"controlplane.cluster.x-k8s.io/v1beta2","kind":"KubeadmControlPlane","metadata":{"name":"cp","namespace":"default","generation":1},
		 "spec":{"version":"v1.31.2","replicas":1,"machineTemplate":{"spec":{"infrastructureRef":{"apiGroup":"i","kind":"Box","name":"t"}}}},
		 "status":{"version":"v1.31.2","observedGeneration":1,"replicas":1,"readyReplicas":1,"availableReplicas":1,"upToDateReplicas":1}}`,
		`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineDeployment","metadata":{"name":"d","namespace":"default","generation":1,"labels":{"topology.cluster.x-k8s.io/deployment-name":"md-0"}},
		 "spec":{"clusterName":"a","replicas":1,"template":{"spec":{"version":"v1.31.2","infrastructureRef":{"apiGroup":"i","kind":"Box","name":"t"}}}},
		 "status":{"observedGeneration":1,"replicas":1,"readyReplicas":1,"availableReplicas":1,"upToDateReplicas":1}}`,
		`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":"m0","namespace":"default","labels":{"cluster.x-k8s.io/control-plane":""}},
		 "spec":{"clusterName":"a","version":"v1.31.2"},"status":{"nodeInfo":{"kubeletVersion":"v1.31.2"},"conditions":[{"type":"UpToDate","status":"True"}]}}`,
		`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":"m1","namespace":"default","labels":{"cluster.x-k8s.io/deployment-name":"d"}},
		 "spec":{"clusterName":"a","version":"v1.31.2"},"status":{"phase":"Running","nodeInfo":{"kubeletVersion":"v1.31.2"},"deprecated":{"v1beta1":{"failureMessage":""}}}}`,
		`{"apiVersion":"i/v1","kind":"Box","metadata":{"name":"t","namespace":"default"},"spec":{"template":{"spec":{"image":"box"}}}}`,
	}
}

func (h *hostile) provider(t *testing.T) *clusterapi.Provider {
	t.Helper()
	i := images()
	i.TemplateVersion = "v1"
	p, err := clusterapi.New(clusterapi.Config{Conn: h, Objects: h, Images: i})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFieldsOfOtherTypesCountAsMissing(t *testing.T) {
	t.Parallel()
	good := &hostile{objects: topologyObjects()}
	d := describe(t, good.provider(t), "a")
	if !d.Healthy || d.Operation != nil || d.ControlPlane != "v1.31.2" || d.Pools[0].Image != "box" {
		t.Fatalf("the objects as they are to be are %+v", d)
	}
	values := []string{`null`, `[]`, `{}`, `-1`, `1.5`, `1e400`, `true`, `""`, `[null]`, `[[{}]]`, `{"a":{}}`, `"\u0000\ud800"`, `"` + strings.Repeat("v", 4096) + `"`}
	rnd := rand.New(rand.NewPCG(1, 2))
	cases := 500
	if os.Getenv("SLIPWAY_SOAK") != "" {
		cases = 100_000
	}
	for range cases {
		bad := &hostile{objects: topologyObjects()}
		i := rnd.IntN(len(bad.objects))
		bad.objects[i] = spoil(bad.objects[i], values[rnd.IntN(len(values))], rnd)
		p := bad.provider(t)
		d, err := p.Describe(t.Context(), member("a"))
		switch {
		case err != nil && len(err.Error()) > 2000, len(d.Message) > 2000:
			t.Fatalf("%s makes people read %d bytes: %.300s", bad.objects[i], len(d.Message), fmt.Sprint(err))
		case strings.ContainsAny(fmt.Sprint(err, d.Message), "\x00\n"):
			t.Fatalf("control characters: %q %v", d.Message, err)
		}
		_ = p.Begin(t.Context(), member("a"), change(upgrade.ControlPlane, 2, "md-0"))
	}
}

// spoil replaces one value somewhere in a JSON text.
func spoil(text, value string, rnd *rand.Rand) string {
	var places []int
	for i, r := range text {
		if r == ':' && text[i-1] == '"' {
			places = append(places, i+1)
		}
	}
	at := places[rnd.IntN(len(places))]
	var old json.RawMessage
	if err := json.NewDecoder(strings.NewReader(text[at:])).Decode(&old); err != nil {
		return text
	}
	return text[:at] + value + text[at+len(old):]
}

func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	for what, line := range map[string]string{
		"MachineDeployments": `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineDeployment","metadata":{"name":"d%d","namespace":"default","labels":{"topology.cluster.x-k8s.io/deployment-name":"p%[1]d"}},"spec":{"clusterName":"a"}}`,
		"Machines":           `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":"m%d","namespace":"default"},"spec":{"clusterName":"a"}}`,
		"objects of kind":    `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"name":"m%d","namespace":"default"},"spec":{"clusterName":"b"}}`,
	} {
		endless := &endless{hostile{objects: topologyObjects()}, line}
		i := images()
		i.TemplateVersion = "v1"
		p, err := clusterapi.New(clusterapi.Config{Conn: endless, Objects: endless, Images: i})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Describe(t.Context(), member("a")); !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s without an end: %v", what, err)
		}
	}
}

// endless lists objects without an end.
type endless struct {
	hostile
	line string
}

func (e *endless) Objects(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	if !strings.Contains(e.line, `"kind":"`+q.Kind+`"`) {
		return e.hostile.Objects(ctx, q)
	}
	object := &unstructured.Unstructured{}
	return func(yield func(*unstructured.Unstructured, error) bool) {
		for i := 0; ; i++ {
			if i == 0 || q.Kind == "MachineDeployment" {
				object = &unstructured.Unstructured{}
				_ = json.Unmarshal(fmt.Appendf(nil, e.line, i), &object.Object)
			}
			if !yield(object, nil) {
				return
			}
		}
	}
}

func TestInvalidRecordIsNotOverwritten(t *testing.T) {
	t.Parallel()
	h := &hostile{objects: topologyObjects()}
	h.objects[0] = strings.Replace(h.objects[0], `{\"id\"`, `{\"no\"`, 1)
	p := h.provider(t)
	if _, err := p.Describe(t.Context(), placement.Cluster{Name: "a"}); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("describe: %v", err)
	}
	if err := p.Begin(t.Context(), member("a"), change(upgrade.ControlPlane, 2)); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("begin: %v", err)
	}
}
