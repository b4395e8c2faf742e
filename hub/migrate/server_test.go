package migrate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/hub/migrate"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
)

var clusters kubeenv.Shared

func TestMain(m *testing.M) { os.Exit(clusters.Run(m)) }

// patience is the limit for each wait, on a busy machine.
const patience = 6 * time.Minute

// The resources that the tests use.
var (
	placements   = placementGVR("clusterresourceplacements")
	works        = placementGVR("works")
	appliedWorks = placementGVR("appliedworks")
	runs         = placementGVR("clusterstagedupdateruns")
	members      = schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
	deployments  = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	secrets      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	leases       = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
)

func placementGVR(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Resource: resource}
}

// fleetEnv is a hub that KubeFleet has served and a member whose garbage collector runs.
type fleetEnv struct {
	t               *testing.T
	hub, member     *kubeenv.Server
	onHub, onMember dynamic.Interface
	backup          string
	// served reports whether a hub has served.
	served bool
	// placed identifies the objects that KubeFleet placed on the member.
	placed map[string]string
}

func newFleetEnv(t *testing.T) *fleetEnv {
	t.Helper()
	servers := clusters.Env(t).Servers(t, "hub", "m1")
	e := &fleetEnv{t: t, hub: servers[0], member: servers[1], backup: filepath.Join(t.TempDir(), "backup.json")}
	e.onHub, e.onMember = e.client(e.hub.Config()), e.client(e.member.Config())
	for _, s := range servers {
		if err := s.StartControllerManager(t.Context(), "garbage-collector-controller", "namespace-controller"); err != nil {
			t.Fatal(err)
		}
	}
	e.define(e.onHub, "Work", "works", "placement.kubernetes-fleet.io", true)
	e.define(e.onHub, "InternalMemberCluster", "internalmemberclusters", "cluster.kubernetes-fleet.io", true)
	e.define(e.onHub, "ResourceBinding", "resourcebindings", "placement.kubernetes-fleet.io", true)
	e.define(e.onMember, "AppliedWork", "appliedworks", "placement.kubernetes-fleet.io", false)
	crds, err := manifests.CRDs(compat.Default)
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		e.define(e.onHub, kind, plural, group, scope == "Namespaced")
	}
	return e
}

func (e *fleetEnv) client(cfg *rest.Config) dynamic.Interface {
	e.t.Helper()
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}

// define defines a kind with the names of KubeFleet's definition, and waits until it is served.
func (e *fleetEnv) define(c dynamic.Interface, kind, plural, group string, namespaced bool) {
	e.t.Helper()
	scope := map[bool]string{true: "Namespaced", false: "Cluster"}[namespaced]
	crd := e.parse(fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[3]s}
spec:
  group: %[3]s
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]s, singular: %[4]s}
  scope: %[5]s
  versions:
  - {name: v1beta1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`, kind, plural, group, strings.ToLower(kind), scope))[0]
	e.create(c, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, crd)
	e.eventually(plural+" to be served", func() error {
		_, err := c.Resource(schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: plural}).List(e.t.Context(), metav1.ListOptions{})
		return err
	})
}

func (e *fleetEnv) parse(text string) (all []*unstructured.Unstructured) {
	e.t.Helper()
	d := yamlutil.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		err := d.Decode(u)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			e.t.Fatal(err)
		}
		if len(u.Object) > 0 {
			all = append(all, u)
		}
	}
}

// create creates an object with its status.
func (e *fleetEnv) create(c dynamic.Interface, gvr schema.GroupVersionResource, obj *unstructured.Unstructured) *unstructured.Unstructured {
	e.t.Helper()
	status := obj.Object["status"]
	made, err := c.Resource(gvr).Namespace(obj.GetNamespace()).Create(e.t.Context(), obj, metav1.CreateOptions{FieldManager: "kubefleet"})
	if err != nil {
		e.t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
	}
	if status != nil {
		made.Object["status"] = status
		made, err = c.Resource(gvr).Namespace(obj.GetNamespace()).UpdateStatus(e.t.Context(), made, metav1.UpdateOptions{FieldManager: "kubefleet"})
		if err != nil {
			e.t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
	return made
}

func resourceOf(obj *unstructured.Unstructured) schema.GroupVersionResource {
	gvk := obj.GroupVersionKind()
	return gvk.GroupVersion().WithResource(strings.ToLower(gvk.Kind) + "s")
}

// fill creates KubeFleet's objects: on the hub the objects of testdata/hub.yaml and the Work; on
// the member the placed objects, including an object that the status of the AppliedWork does not
// name yet.
func (e *fleetEnv) fill() {
	e.t.Helper()
	text, err := os.ReadFile("testdata/hub.yaml")
	if err != nil {
		e.t.Fatal(err)
	}
	var manifests []any
	var placed []*unstructured.Unstructured
	for _, obj := range e.parse(string(text)) {
		made := e.create(e.onHub, resourceOf(obj), obj)
		if made.GetNamespace() == "shop" || made.GetKind() == "Namespace" && made.GetName() == "shop" {
			clean := made.DeepCopy()
			for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"} {
				unstructured.RemoveNestedField(clean.Object, "metadata", field)
			}
			delete(clean.Object, "status")
			manifests, placed = append(manifests, clean.Object), append(placed, clean)
		}
	}
	work := e.parse(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: Work
metadata:
  name: shop-work
  namespace: fleet-member-m1
  finalizers: [kubernetes-fleet.io/work-cleanup]
  labels:
    kubernetes-fleet.io/parent-CRP: shop
    kubernetes-fleet.io/parent-resource-binding: shop-m1-0a1b2c3d
    kubernetes-fleet.io/parent-resource-snapshot-index: "3"
status:
  conditions:
  - {type: Applied, status: "True", reason: WorkAppliedCompleted, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
  - {type: Available, status: "True", reason: WorkAvailable, observedGeneration: 1, lastTransitionTime: "2026-01-01T00:00:00Z"}
`)[0]
	if err := unstructured.SetNestedSlice(work.Object, manifests, "spec", "workload", "manifests"); err != nil {
		e.t.Fatal(err)
	}
	e.create(e.onHub, works, work)
	e.place(placed)
}

// place places objects on the member like the member agent.
func (e *fleetEnv) place(objects []*unstructured.Unstructured) {
	e.t.Helper()
	owner := e.create(e.onMember, appliedWorks, e.parse(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: AppliedWork
metadata: {name: shop-work}
spec: {workName: shop-work, workNamespace: fleet-member-m1}
`)[0])
	var applied []any
	for i, obj := range objects {
		last, err := json.Marshal(obj.Object)
		if err != nil {
			e.t.Fatal(err)
		}
		obj = obj.DeepCopy()
		blocks := true
		obj.SetOwnerReferences([]metav1.OwnerReference{{
			APIVersion: "placement.kubernetes-fleet.io/v1beta1", Kind: "AppliedWork", Name: "shop-work", UID: owner.GetUID(), BlockOwnerDeletion: &blocks,
		}})
		obj.SetAnnotations(map[string]string{
			"kubernetes-fleet.io/last-applied-configuration": string(last), "kubernetes-fleet.io/spec-hash": "5f7d", "fleet.azure.com/source-placement": "shop",
		})
		gvr := resourceOf(obj)
		made, err := e.onMember.Resource(gvr).Namespace(obj.GetNamespace()).Create(e.t.Context(), obj, metav1.CreateOptions{FieldManager: "work-api-agent"})
		if err != nil {
			e.t.Fatal(err)
		}
		if i == len(objects)-1 {
			continue // the agent was stopped before it recorded this object
		}
		applied = append(applied, map[string]any{
			"ordinal": int64(i), "group": gvr.Group, "version": gvr.Version, "kind": made.GetKind(), "resource": gvr.Resource,
			"namespace": made.GetNamespace(), "name": made.GetName(), "uid": string(made.GetUID()),
		})
	}
	owner.Object["status"] = map[string]any{"appliedResources": applied}
	if _, err := e.onMember.Resource(appliedWorks).UpdateStatus(e.t.Context(), owner, metav1.UpdateOptions{FieldManager: "work-api-agent"}); err != nil {
		e.t.Fatal(err)
	}
	e.patch(e.onMember, deployments, "shop", "web", `{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":2,"availableReplicas":2,
		"conditions":[{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z"},
		{"type":"Available","status":"True","reason":"MinimumReplicasAvailable","lastUpdateTime":"2026-01-01T00:00:00Z","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, "status")
	e.placed = e.identities()
}

// identities returns the UIDs and the contents of the placed objects on the member. Until a hub has
// served, it includes their generations; after that it cannot, because an API server increases the
// generation of a Deployment when an annotation changes.
func (e *fleetEnv) identities() map[string]string {
	e.t.Helper()
	out := map[string]string{}
	for _, o := range []struct {
		gvr             schema.GroupVersionResource
		namespace, name string
	}{{namespaces, "", "shop"}, {configMaps, "shop", "settings"}, {deployments, "shop", "web"}} {
		u := e.get(e.onMember, o.gvr, o.namespace, o.name)
		out[u.GetKind()] = fmt.Sprintf("%s, deleted %v, %v, %v", u.GetUID(), u.GetDeletionTimestamp(), u.Object["spec"], u.Object["data"])
		if !e.served {
			out[u.GetKind()] += fmt.Sprint(", generation ", u.GetGeneration())
		}
	}
	return out
}

func (e *fleetEnv) get(c dynamic.Interface, gvr schema.GroupVersionResource, namespace, name string) *unstructured.Unstructured {
	e.t.Helper()
	u, err := c.Resource(gvr).Namespace(namespace).Get(e.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	return u
}

func (e *fleetEnv) patch(c dynamic.Interface, gvr schema.GroupVersionResource, namespace, name, patch string, sub ...string) {
	e.t.Helper()
	_, err := c.Resource(gvr).Namespace(namespace).Patch(e.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "test"}, sub...)
	if err != nil {
		e.t.Fatalf("%s %s: %v", gvr.Resource, name, err)
	}
}

func (e *fleetEnv) count(c dynamic.Interface, gvr schema.GroupVersionResource) int {
	e.t.Helper()
	list, err := c.Resource(gvr).List(e.t.Context(), metav1.ListOptions{})
	if err != nil {
		e.t.Fatal(err)
	}
	return len(list.Items)
}

func (e *fleetEnv) eventually(what string, try func() error) {
	e.t.Helper()
	err := try()
	for deadline := time.Now().Add(patience); err != nil; err = try() {
		if time.Now().After(deadline) {
			e.t.Fatalf("waiting for %s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// untouched fails unless the placed objects are unchanged.
func (e *fleetEnv) untouched(when string) {
	e.t.Helper()
	for kind, was := range e.placed {
		if is := e.identities()[kind]; is != was {
			e.t.Errorf("%s: %s is %s, was %s", when, kind, is, was)
		}
	}
}

// migration returns a migration that can send the given number of writes and fails afterwards, like
// a killed process.
func (e *fleetEnv) migration(writes int64) (*migrate.Migration, *bytes.Buffer) {
	e.t.Helper()
	said := &bytes.Buffer{}
	left := &atomic.Int64{}
	left.Store(writes)
	kill := func(cfg *rest.Config) *rest.Config {
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &killed{next, left} })
		return cfg
	}
	m, err := migrate.New(migrate.Config{
		Hub: kill(e.hub.Config()), Backup: e.backup, Done: func(change string) { fmt.Fprintln(said, change) },
		Members: func(_ context.Context, c placement.Cluster) (*rest.Config, error) {
			if c.Name != "m1" {
				return nil, fmt.Errorf("no server for %s", c.Name)
			}
			return kill(e.member.Config()), nil
		},
	})
	if err != nil {
		e.t.Fatal(err)
	}
	return m, said
}

var errKilled = errors.New("killed")

type killed struct {
	next http.RoundTripper
	left *atomic.Int64
}

func (k *killed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && k.left.Add(-1) < 0 {
		return nil, errKilled
	}
	return k.next.RoundTrip(r)
}

// killedAtEachWrite repeats an operation with one more write each time until it completes.
func (e *fleetEnv) killedAtEachWrite(do func(*migrate.Migration) error) {
	e.t.Helper()
	for attempt := 1; ; attempt++ {
		m, said := e.migration(1)
		err := do(m)
		e.t.Logf("attempt %d: %v\n%s", attempt, err, said)
		if err == nil {
			return
		}
		if !errors.Is(err, errKilled) || attempt > 60 {
			e.t.Fatal(err)
		}
		e.untouched(fmt.Sprint("after attempt ", attempt))
	}
}

// refused fails unless an operation is refused with a reason that contains words.
func (e *fleetEnv) refused(do func(*migrate.Migration) error, words string) {
	e.t.Helper()
	m, said := e.migration(0)
	err := do(m)
	var refusal *migrate.RefusedError
	if !errors.As(err, &refusal) || !strings.Contains(err.Error(), words) || said.Len() > 0 {
		e.t.Fatalf("it is not refused by %q: %v\n%s", words, err, said)
	}
	if _, err := os.Stat(e.backup); err == nil {
		e.t.Fatal("it is refused, and there is a backup")
	}
}

// completed checks that the backup of a completed operation cannot be used again.
func (e *fleetEnv) completed(do func(*migrate.Migration) error) {
	e.t.Helper()
	m, said := e.migration(0)
	if err := do(m); err == nil || !strings.Contains(err.Error(), "has completed: name another file") || said.Len() > 0 {
		e.t.Errorf("the backup of a completed operation is taken again: %v\n%s", err, said)
	}
}

// serve runs a hub on the cluster until the returned function is called.
func (e *fleetEnv) serve() (stop func()) {
	e.t.Helper()
	account, err := e.hub.ConfigForAccount(e.t.Context(), "slipway-system", "slipway-hub")
	if err != nil {
		e.t.Fatal(err)
	}
	warnings := &kubeenv.Warnings{}
	account.Wrap(warnings.Wrap)
	e.t.Cleanup(func() {
		for _, said := range warnings.Take() {
			e.t.Errorf("the API server warns the hub: %s", said)
		}
	})
	h, err := hub.New(hub.Config{
		Rest: account, Name: "hub", LeaseDuration: 5 * time.Second, Collect: 100 * time.Millisecond,
		Dialer: member.NewDialer(func(context.Context, placement.Cluster) (*rest.Config, error) { return e.member.Config(), nil }, member.Options{}),
		Log:    kubeenv.NewLogged(e.t).Logger(),
	})
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(e.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			e.t.Error(err)
		}
	})
	e.t.Cleanup(stop)
	return stop
}
