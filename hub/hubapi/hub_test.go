package hubapi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// hubEnv is a hub that is served, with two members: member1 in the stage staging, member2 in the
// stage prod.
type hubEnv struct {
	t       *testing.T
	server  *kubeenv.Server
	objects dynamic.Interface
	files   string
	members []*kubeenv.Server
	dialer  backend.Dialer
}

// rules leave Secrets out.
var rules = snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "Secret"}}}

func newHubEnv(t *testing.T) *hubEnv {
	t.Helper()
	w := &hubEnv{t: t, files: t.TempDir()}
	names := []string{"hub", "member1", "member2"}
	servers := kubeenv.ForTest(t).Servers(t, names...)
	w.server = servers[0]
	w.members = servers[1:]
	for i, s := range w.members {
		w.write(names[i+1]+".kubeconfig", s.Kubeconfig())
	}
	w.must(manifests.Install(t.Context(), w.server.Config(), manifests.Options{Hub: &manifests.HubOptions{}}))
	var err error
	w.objects, err = dynamic.NewForConfig(w.server.Config())
	w.must(err)
	for name, labels := range map[string]string{"member1": "staging", "member2": "prod"} {
		w.create("cluster.kubernetes-fleet.io/v1beta1", "memberclusters", "MemberCluster", "", name, map[string]any{}, map[string]string{"environment": labels})
	}
	w.dialer = member.NewDialer(member.KubeconfigDirectory(w.files, member.Trusted()), member.Options{})
	account, err := w.server.ConfigForAccount(t.Context(), "slipway-system", "slipway-hub")
	w.must(err)
	warnings := &kubeenv.Warnings{}
	account.Wrap(warnings.Wrap)
	t.Cleanup(func() {
		for _, said := range warnings.Take() {
			t.Errorf("the API server warns the hub: %s", said)
		}
	})
	h, err := hub.New(hub.Config{
		Rest: account, LeaseDuration: 3 * time.Second, Log: kubeenv.NewLogged(t).Logger(),
		Dialer: w.dialer, Engine: fleet.Config{Rules: rules},
	})
	w.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return w
}

func (w *hubEnv) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *hubEnv) write(name string, text []byte) string {
	w.t.Helper()
	path := filepath.Join(w.files, name)
	w.must(os.WriteFile(path, text, 0o600))
	return path
}

// create creates an object with the rights of an administrator.
func (w *hubEnv) create(version, resource, kind, namespace, name string, spec map[string]any, labels map[string]string) {
	w.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	if kind == "ConfigMap" {
		u.Object["data"] = spec
	} else if spec != nil {
		u.Object["spec"] = spec
	}
	u.SetName(name)
	u.SetNamespace(namespace)
	u.SetLabels(labels)
	gv, err := schema.ParseGroupVersion(version)
	w.must(err)
	_, err = w.objects.Resource(gv.WithResource(resource)).Namespace(namespace).Create(w.t.Context(), u, metav1.CreateOptions{})
	w.must(err)
}

const placementAPI = "placement.kubernetes-fleet.io/v1beta1"

// strategySpec has an approval after staging.
const strategySpec = `
rollback: {}
stages:
- name: staging
  labelSelector: {matchLabels: {environment: staging}}
  afterStageTasks: [{type: Approval}]
- name: prod
  labelSelector: {matchLabels: {environment: prod}}
`

// declare declares a placement web and a strategy careful. Without a namespace they are
// cluster-scoped and place the Namespace shop; with a namespace they are the namespaced kinds in
// it.
func (w *hubEnv) declare(namespace string) {
	w.t.Helper()
	var strategy map[string]any
	w.must(yaml.Unmarshal([]byte(strategySpec), &strategy))
	selector := map[string]any{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
	twin := "Cluster"
	if namespace != "" {
		selector["kind"], selector["name"], twin = "ConfigMap", "web", ""
	}
	spec := map[string]any{"resourceSelectors": []any{selector}, "strategy": map[string]any{"type": "External"}}
	in := api.Scope(namespace != "")
	w.create(placementAPI, in.GVR(api.PlacementKind).Resource, twin+"ResourcePlacement", namespace, "web", spec, nil)
	w.create(placementAPI, in.GVR(api.StrategyKind).Resource, twin+"StagedUpdateStrategy", namespace, "careful", strategy, nil)
	w.eventually("clusters to be picked for "+namespace+"/web", func() bool {
		u, err := w.objects.Resource(in.GVR(api.PlacementKind)).Namespace(namespace).Get(w.t.Context(), "web", metav1.GetOptions{})
		w.must(err)
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		return len(conditions) > 0
	})
}

// patience is how long anything may take, on a machine that does much else.
const patience = 6 * time.Minute

func (w *hubEnv) eventually(what string, happened func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); !happened(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("waiting for %s", what)
		}
		select {
		case <-w.t.Context().Done():
			w.t.Fatal(w.t.Context().Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// as returns a client of the hub for a user and a namespace: "" for cluster-scoped objects, "*"
// for all namespaces. An empty user is an administrator.
func (w *hubEnv) as(user, namespace string) *httpapi.Client {
	w.t.Helper()
	cfg := Config{Rest: w.server.Config(), Namespace: namespace, Dialer: w.dialer, Rules: rules}
	if user != "" {
		cfg.Rest = w.server.ConfigFor(user)
	}
	if namespace == "*" {
		cfg.Namespace, cfg.AllNamespaces = "", true
	}
	h, err := New(cfg)
	w.must(err)
	w.t.Cleanup(func() { w.must(h.Close()) })
	handler, err := h.Handler()
	w.must(err)
	c, err := httpapi.NewClient("http://hub", httpapi.ClientOptions{Transport: httpapi.InProcess(handler)})
	w.must(err)
	return c
}

// until waits for a run to come to a state.
func (w *hubEnv) until(c *httpapi.Client, run string, want stages.State) fleet.RunSummary {
	w.t.Helper()
	return w.summary(c, run, "to be "+string(want), func(r fleet.RunSummary) bool { return r.State == want })
}

// completed waits until the given number of clusters of a run are completed, because the request
// of the run appears a moment before the status shows that.
func (w *hubEnv) completed(c *httpapi.Client, run string, clusters int) fleet.RunSummary {
	w.t.Helper()
	what := fmt.Sprintf("to have completed %d clusters", clusters)
	return w.summary(c, run, what, func(r fleet.RunSummary) bool { return r.Completed == clusters })
}

// summary waits until a run is listed with the wanted values.
func (w *hubEnv) summary(c *httpapi.Client, run, what string, want func(fleet.RunSummary) bool) fleet.RunSummary {
	w.t.Helper()
	var got fleet.RunSummary
	w.eventually(run+" "+what, func() bool {
		all, err := c.Runs(w.t.Context())
		w.must(err)
		for _, r := range all {
			if r.Name == run {
				got = r
			}
		}
		return want(got)
	})
	return got
}

// request waits for the open request of a run, and returns its name.
func (w *hubEnv) request(c *httpapi.Client, run string) string {
	w.t.Helper()
	var open []approval.Request
	w.eventually("a request of "+run, func() bool {
		var err error
		open, err = c.Run(run).Requests(w.t.Context())
		w.must(err)
		return len(open) > 0
	})
	return open[0].Name
}

func spec(name string) fleet.RunSpec {
	return fleet.RunSpec{Name: name, Placement: "web", Strategy: stages.Strategy{Name: "careful"}}
}

// A person who may change the objects of a hub creates, approves, stops, starts, rejects, rolls
// back and deletes runs through them, and reads their progress from its records.
func TestARunIsDirectedThroughItsObject(t *testing.T) {
	w := newHubEnv(t)
	w.create("v1", "namespaces", "Namespace", "", "shop", nil, nil)
	w.create("v1", "configmaps", "ConfigMap", "shop", "web", map[string]any{"key": "v1"}, nil)
	w.declare("")
	ctx := t.Context()
	c := w.as("", "")

	_, err := c.CreateRun(ctx, spec("web-1"))
	w.must(err)
	name := w.request(c, "web-1")
	if got := w.completed(c, "web-1", 1); name != "web-1-staging" || got.Stage != "staging" || got.State != stages.Running || got.Clusters != 2 || got.Placement != "web" {
		t.Errorf("request %s of %+v", name, got)
	}
	placements, err := c.Placements(ctx)
	w.must(err)
	if len(placements) != 1 || placements[0].Name != "web" || placements[0].Runs != 1 || placements[0].Snapshots != 1 || placements[0].Latest.Index != 0 {
		t.Errorf("placements %+v", placements)
	}
	s, err := c.Run("web-1").Status(ctx)
	w.must(err)
	if s.Run.Name != "web-1" || s.Run.Placement != "web" || len(s.Plan.Clusters) != 2 {
		t.Errorf("the record of %s of %s, %d clusters", s.Run.Name, s.Run.Placement, len(s.Plan.Clusters))
	}
	why, err := c.Run("web-1").Explain(ctx, "member2")
	w.must(err)
	if len(why.Waiting) == 0 {
		t.Errorf("member2 waits for nothing: %+v", why)
	}
	history, err := c.Run("web-1").History(ctx, 0)
	w.must(err)
	if len(history.Events) == 0 {
		t.Error("no history")
	}

	w.must(c.Run("web-1").Command(ctx, stages.Command{Verb: stages.Stop}))
	w.until(c, "web-1", stages.Stopped)
	if err := c.Run("web-1").Command(ctx, stages.Command{Verb: stages.Stop}); err == nil || !strings.Contains(err.Error(), "spec.state is Stop already") {
		t.Errorf("stopped twice: %v", err)
	}
	w.must(c.Run("web-1").Command(ctx, stages.Command{Verb: stages.Start}))
	w.until(c, "web-1", stages.Running)
	if err := c.Run("other").Command(ctx, stages.Command{Verb: stages.Decide, Name: name, Decision: &approval.Decision{Verdict: approval.Approve}}); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("a request of another run: %v", err)
	}
	w.must(c.Run("web-1").Command(ctx, stages.Command{Verb: stages.Decide, Name: name, Decision: &approval.Decision{Verdict: approval.Approve, Comment: "fine"}}))
	w.until(c, "web-1", stages.Completed)
	if err := c.Run("web-1").Command(ctx, stages.Command{Verb: stages.Decide, Name: name, Decision: &approval.Decision{Verdict: approval.Reject}}); err == nil {
		t.Error("a request that was decided is decided again")
	}

	drifted := 0
	for cluster, err := range c.Placement("web").Drift(ctx, fleet.DriftOptions{}) {
		w.must(err)
		if drifted++; len(cluster.Objects) > 0 || len(cluster.Problems) > 0 {
			t.Errorf("drift of %+v", cluster)
		}
	}
	if drifted != 2 {
		t.Errorf("%d clusters are compared, want 2", drifted)
	}
	plan, err := c.Preview(ctx, spec(""))
	w.must(err)
	if plan.Len() != 2 {
		t.Errorf("the preview has %d clusters", plan.Len())
	}
	for _, setting := range []compat.Setting{compat.KubeFleet018, compat.Default} {
		crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
		_, err := w.objects.Resource(crds).Patch(ctx, "clusterstagedupdateruns.placement.kubernetes-fleet.io", types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"`+compat.Label+`":"`+string(setting)+`"}}}`), metav1.PatchOptions{})
		w.must(err)
		if plan, err := c.Preview(ctx, spec("")); err != nil || plan.Strategy.Requests != setting.Behaviour().Requests {
			t.Errorf("with the definitions of %s, a preview names requests %q: %v", setting, plan.Strategy.Requests, err)
		}
	}

	by, err := c.Run("web-1").Rollback(ctx, fleet.RollbackOptions{})
	w.must(err)
	if by != "web-1-rollback" {
		t.Errorf("the run that rolls back is %q", by)
	}
	w.until(c, by, stages.Completed)
	for _, r := range []struct {
		what string
		err  error
		want string
	}{
		{"abort", c.Run("web-1").Command(ctx, stages.Command{Verb: stages.Abort}), "a hub has no Abort of a run"},
		{"a reason", c.Run("web-1").Command(ctx, stages.Command{Verb: stages.Stop, Message: "lunch"}), "leave --message out"},
		{"a cap", c.SetCap(ctx, "all", 3), "caps of a hub"},
		{"a run that is not there", c.Run("none").Command(ctx, stages.Command{Verb: stages.Stop}), `"none" not found`},
	} {
		if r.err == nil || !strings.Contains(r.err.Error(), r.want) || strings.Contains(r.err.Error(), "meta.k8s.io") {
			t.Errorf("%s: %v, want %q", r.what, r.err, r.want)
		}
	}
	if _, err := c.CreateRun(ctx, fleet.RunSpec{Name: "web-2", Placement: "none", Strategy: stages.Strategy{Name: "careful"}}); err == nil || !strings.Contains(err.Error(), "the hub refuses it") {
		t.Errorf("a run of no placement: %v", err)
	}
	w.must(c.Run("web-1").Delete(ctx, true))
	w.eventually("web-1 to be gone", func() bool {
		all, err := c.Runs(ctx)
		w.must(err)
		return !slices.ContainsFunc(all, func(r fleet.RunSummary) bool { return r.Name == "web-1" })
	})
}

// allow binds a role to a user in a namespace.
func (w *hubEnv) allow(user, role, namespace string) { w.bind(user, "ClusterRole", role, namespace) }

// allowRole binds a role of the namespace.
func (w *hubEnv) allowRole(user, role, namespace string) { w.bind(user, "Role", role, namespace) }

func (w *hubEnv) bind(user, kind, role, namespace string) {
	w.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": user + "-" + role, "namespace": namespace},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	}}
	bindings := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}
	_, err := w.objects.Resource(bindings).Namespace(namespace).Create(w.t.Context(), u, metav1.CreateOptions{})
	w.must(err)
}

// A client for a namespace shows the objects of that namespace. A client for all namespaces shows
// them as NAMESPACE/NAME, and otherwise a client shows cluster-scoped objects. The API server
// decides about the rights of a person: an error names the missing role, and an approval has the
// identity of the person.
func TestAPersonActsInANamespaceByRoles(t *testing.T) {
	w := newHubEnv(t)
	w.create("v1", "namespaces", "Namespace", "", "shop", nil, nil)
	w.create("v1", "configmaps", "ConfigMap", "shop", "web", map[string]any{"key": "v1"}, nil)
	for _, s := range w.members {
		objects, err := dynamic.NewForConfig(s.Config())
		w.must(err)
		namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}}}
		_, err = objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(), namespace, metav1.CreateOptions{})
		w.must(err)
	}
	w.declare("shop")
	for user, roles := range map[string][]string{"eve": {"viewer"}, "ed": {"viewer", "editor"}, "ann": {"viewer", "approver"}} {
		for _, role := range roles {
			w.allow(user, "slipway-"+role, "shop")
		}
	}
	ctx := t.Context()
	editor := w.as("ed", "shop")
	_, err := editor.CreateRun(ctx, spec("web-1"))
	w.must(err)
	viewer := w.as("eve", "shop")
	name := w.request(viewer, "web-1")
	if got := w.completed(viewer, "web-1", 1); got.State != stages.Running || got.Placement != "web" {
		t.Errorf("a viewer sees %+v", got)
	}
	if placements, err := viewer.Placements(ctx); err != nil || len(placements) != 1 || placements[0].Runs != 1 {
		t.Errorf("placements of a viewer: %+v, %v", placements, err)
	}
	if all, err := viewer.Placement("web").Requests(ctx); err != nil || len(all) != 1 || all[0].Stage != "staging" {
		t.Errorf("requests of a viewer: %+v, %v", all, err)
	}
	everywhere := w.as("eve", "*")
	_, allNamespaces := everywhere.Runs(ctx)
	_, record := viewer.Run("web-1").Status(ctx)
	if refusal, is := errors.AsType[*httpapi.Error](record); !is || refusal.Reason != "Forbidden" {
		t.Errorf("the records: %v", record)
	}
	w.create("rbac.authorization.k8s.io/v1", "roles", "Role", "shop", "placements", nil, nil)
	roles := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}
	_, err = w.objects.Resource(roles).Namespace("shop").Patch(ctx, "placements", types.MergePatchType,
		[]byte(`{"rules":[{"apiGroups":["placement.kubernetes-fleet.io"],"resources":["resourceplacements","stagedupdateruns"],"verbs":["get","list"]}]}`), metav1.PatchOptions{})
	w.must(err)
	w.allowRole("kim", "placements", "shop")
	nobody := w.as("zed", "shop")
	_, placements := nobody.Placements(ctx)
	_, snapshots := nobody.Placement("web").Snapshots(ctx)
	_, shots := w.as("kim", "shop").Placements(ctx)
	_, runs := nobody.Runs(ctx)
	_, requests := nobody.Placement("web").Requests(ctx)
	for _, r := range []struct {
		what string
		err  error
		want string
	}{
		{"approving", viewer.Run("web-1").Command(ctx, stages.Command{Verb: stages.Decide, Name: name, Decision: &approval.Decision{Verdict: approval.Approve}}), "kubectl create rolebinding NAME -n shop --clusterrole=slipway-approver"},
		{"approving as an editor", editor.Run("web-1").Command(ctx, stages.Command{Verb: stages.Decide, Name: name, Decision: &approval.Decision{Verdict: approval.Approve}}), "slipway-approver"},
		{"stopping", viewer.Run("web-1").Command(ctx, stages.Command{Verb: stages.Stop}), "--clusterrole=slipway-editor"},
		{"deleting", viewer.Run("web-1").Delete(ctx, true), "--clusterrole=slipway-editor"},
		{"all namespaces", allNamespaces, "kubectl create clusterrolebinding NAME --clusterrole=slipway-cluster-viewer"},
		{"placements without rights", placements, `User "zed" cannot list resource "resourceplacements" in API group "placement.kubernetes-fleet.io" in the namespace "shop"`},
		{"snapshots without rights", snapshots, `User "zed" cannot get resource "secrets"`},
		{"placements without rights to snapshots", shots, `User "kim" cannot list resource "resourcesnapshots" in API group "placement.kubernetes-fleet.io" in the namespace "shop"`},
		{"runs without rights", runs, `User "zed" cannot list resource "stagedupdateruns"`},
		{"requests without rights", requests, `User "zed" cannot `},
		{"records without rights", record, `User "eve" cannot `},
		{"the records", record, "get and list for Secrets in namespace slipway-system"},
	} {
		if r.err == nil || !strings.Contains(r.err.Error(), r.want) {
			t.Errorf("%s: %v, want %q", r.what, r.err, r.want)
		}
	}

	refused, is := errors.AsType[*httpapi.Error](editor.Run("web-1").Delete(ctx, false))
	if !is || refused.Reason != "Refused" || !strings.Contains(refused.Message, "stop it first") {
		t.Errorf("deleting a run that goes on: %v", refused)
	}
	reader := w.as("", "shop")
	s, err := reader.Run("web-1").Status(ctx)
	w.must(err)
	again, err := reader.Run("web-1").Status(ctx) // a client that knows the plan gets none
	w.must(err)
	if err := again.Run.Check(s.Plan); err != nil {
		t.Error(err)
	}
	if open := step.Requests(s.Plan, &s.Run); len(open) != 1 || open[0].Run != "web-1" || open[0].Name != name {
		t.Errorf("the requests of the status of a namespaced run: %+v, %v", open, s.Run.Check(s.Plan))
	}
	approver := w.as("ann", "shop")
	w.must(approver.Run("web-1").Command(ctx, stages.Command{Verb: stages.Decide, Name: name, Decision: &approval.Decision{Verdict: approval.Approve, Comment: "fine"}}))
	w.until(viewer, "web-1", stages.Completed)
	admin := w.as("", "shop")
	history, err := admin.Run("web-1").History(ctx, 0)
	w.must(err)
	if !slices.ContainsFunc(history.Events, func(e stages.Event) bool { return e.By == "ann" }) {
		t.Errorf("no event is by ann: %+v", history.Events)
	}
	all := w.as("", "*")
	s, err = all.Run("shop/web-1").Status(ctx)
	if err != nil || s.Run.Name != "shop/web-1" || (&Hub{all: true}).Shown(s.Run.Placement) != "shop/web" {
		t.Errorf("with all namespaces: %s of %s, %v", s.Run.Name, s.Run.Placement, err)
	}
	if s, err := admin.Run("web-1").Status(ctx); err != nil || s.Run.Name != "web-1" || (&Hub{namespace: "shop"}).Shown(s.Run.Placement) != "web" {
		t.Errorf("with the namespace: %s of %s, %v", s.Run.Name, s.Run.Placement, err)
	}
	everything := fleet.RunSpec{Placement: "shop/web", Strategy: stages.Strategy{Name: "shop/careful"}}
	if plan, err := all.Preview(ctx, everything); err != nil || plan.Len() != 2 {
		t.Errorf("with all namespaces: the plan is %v, %v", plan, err)
	}
	if got := w.until(all, "shop/web-1", stages.Completed); got.Placement != "shop/web" {
		t.Errorf("with all namespaces: %+v", got)
	}
	none := w.as("", "")
	if runs, err := none.Runs(ctx); err != nil || len(runs) != 0 {
		t.Errorf("runs of no namespace: %+v, %v", runs, err)
	}
	w.must(editor.Run("web-1").Delete(ctx, false))
}

// The hub carries out a rejection. The error for a cluster that is no hub says so.
func TestARejectionEndsTheRunOfAHub(t *testing.T) {
	w := newHubEnv(t)
	w.create("v1", "namespaces", "Namespace", "", "shop", nil, nil)
	w.declare("")
	c := w.as("", "")
	held := spec("web-1")
	held.Hold = true
	_, err := c.CreateRun(t.Context(), held)
	w.must(err)
	w.until(c, "web-1", stages.NotStarted)
	w.must(c.Run("web-1").Command(t.Context(), stages.Command{Verb: stages.Start}))
	w.must(c.Run("web-1").Command(t.Context(), stages.Command{Verb: stages.Decide, Name: w.request(c, "web-1"), Decision: &approval.Decision{Verdict: approval.Reject, Comment: "no"}}))
	if got := w.until(c, "web-1", stages.Failed); got.Reason == "" {
		t.Errorf("%+v", got)
	}
	h, err := New(Config{Rest: w.members[0].Config()})
	w.must(err)
	if _, err := h.runs(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "slipway hub install makes it one") {
		t.Errorf("a cluster that is no hub: %v", err)
	}
}
