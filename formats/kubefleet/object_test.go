package kubefleet_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/formats/problem"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// served returns the object of a document as a client of an API server sees it.
func served(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	return obj
}

func file(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Defaults and metadata from the API server change nothing else.
func TestPlacementOfAnAPIServer(t *testing.T) {
	obj := served(t, file(t, "served.yaml"))
	before := obj.DeepCopy()
	p, r, err := kubefleet.PlacementOf(obj)
	if err != nil {
		t.Fatal(err)
	}
	quarter := intstr.FromString("25%")
	want := fleet.Placement{
		Name: "served", HistoryLimit: 10, Policy: placement.Policy{Type: placement.PickAll},
		Selectors:    []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}},
		DeletePolicy: placement.DeleteAll,
		ApplyStrategy: apply.Strategy{
			Type: apply.ClientSide, ComparisonOption: "PartialComparison", WhenToApply: apply.Always, WhenToTakeOver: apply.TakeOverAlways,
		},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("placement (-want +got):\n%s", diff)
	}
	wantRollout := kubefleet.Rollout{Type: v1beta1.RollingUpdateRolloutStrategyType, MaxUnavailable: quarter, MaxSurge: quarter, UnavailablePeriod: time.Minute}
	if r != wantRollout {
		t.Errorf("rollout = %+v, want %+v", r, wantRollout)
	}
	if err := p.Validate(); err != nil {
		t.Errorf("the engine does not take it: %v", err)
	}
	if diff := cmp.Diff(before, obj); diff != "" {
		t.Errorf("the object was changed:\n%s", diff)
	}
}

// Every document of the files reads the same as an object.
func TestObjectsReadAsDocuments(t *testing.T) {
	for _, name := range []string{"tutorial/placement.yaml", "crp-reportdiff-sample.yaml"} {
		d := read(t, file(t, name))
		p, r, err := kubefleet.PlacementOf(served(t, file(t, name)))
		equal(t, name, d.Placements[0], p, err)
		equal(t, name, d.Rollouts[p.Name], r, err)
	}
	s, err := kubefleet.StrategyOf(served(t, file(t, "tutorial/strategy.yaml")))
	equal(t, "strategy", tutorialStrategy(), s, err)
	r, err := kubefleet.RunOf(served(t, file(t, "tutorial/run.yaml")))
	equal(t, "run", read(t, file(t, "tutorial/run.yaml")).Runs[0], r, err)
	for i, text := range strings.Split(file(t, "overrides.yaml"), "---\n") {
		o, err := kubefleet.OverrideOf(served(t, text))
		equal(t, "override", read(t, file(t, "overrides.yaml")).Overrides[i], o, err)
	}
	for i, text := range strings.Split(file(t, "tutorial/members.yaml"), "---\n") {
		c, err := kubefleet.ClusterOf(served(t, text))
		equal(t, "cluster", read(t, tutorial(t)).Clusters[i], c, err)
	}
	parts := strings.Split(file(t, "namespaced.yaml"), "---\n")
	d := read(t, file(t, "namespaced.yaml"))
	p, _, err := kubefleet.PlacementOf(served(t, parts[0]))
	d.Placements[0].Overrides = nil
	equal(t, "placement in a namespace", d.Placements[0], p, err)
	s, err = kubefleet.StrategyOf(served(t, parts[1]))
	equal(t, "strategy in a namespace", d.Strategies[0], s, err)
	r, err = kubefleet.RunOf(served(t, parts[2]))
	equal(t, "run in a namespace", d.Runs[0], r, err)
}

func equal(t *testing.T, what string, want, got any, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// All problems of an object are reported at once, by fields, and no part of the object is returned.
func TestProblemsOfObjects(t *testing.T) {
	obj := served(t, crp("policy: {placementType: PickSome, tolerations: [{value: a}]}\nstrategy: {type: External, rollingUpdate: {maxSurge: 1}}\nhistory: 3"))
	p, r, err := kubefleet.PlacementOf(obj)
	var problems problem.List
	if !errors.As(err, &problems) || len(problems) != 4 || problems[0].File != "" || problems[0].Line != 0 {
		t.Fatalf("error = %v, want four problems without file and line", err)
	}
	fails(t, err, "ClusterResourcePlacement/x: spec.history: unknown field", "spec.policy.placementType: must be PickAll or PickFixed or PickN",
		"spec.policy.tolerations[0].key: Required value", "spec.strategy.rollingUpdate: goes with")
	if !cmp.Equal(p, fleet.Placement{}) || r != (kubefleet.Rollout{}) {
		t.Errorf("placement = %+v, %+v, want nothing", p, r)
	}
	_, err = kubefleet.RunOf(obj)
	fails(t, err, `kind: must be ClusterStagedUpdateRun or StagedUpdateRun, not "ClusterResourcePlacement"`)
	_, err = kubefleet.ClusterOf(obj)
	fails(t, err, "apiVersion: must be cluster.kubernetes-fleet.io/v1 or v1beta1", "kind: must be MemberCluster")
	_, err = kubefleet.StrategyOf(nil)
	fails(t, err, "there is no object")
	deep := served(t, run("placementName: p\nstagedRolloutStrategyName: s"))
	var nested any = "x"
	for range 200 {
		nested = map[string]any{"a": nested}
	}
	deep.Object["status"] = nested
	if _, err = kubefleet.RunOf(deep); err != nil {
		t.Errorf("a status that is not read: %v", err)
	}
	deep.Object["apiVersion"], deep.Object["kind"] = "cluster.kubernetes-fleet.io/v1beta1", "MemberCluster"
	_, err = kubefleet.ClusterOf(deep)
	fails(t, err, "is nested deeper than")
}

// T25: an object in a namespace references nothing outside of the namespace.
func TestT25NothingReachesAcrossNamespaces(t *testing.T) {
	text := file(t, "namespaced.yaml")
	d := read(t, text)
	p := d.Placements[0]
	if p.Name != "n.team-a.web" || len(p.Selectors) != 2 || p.Selectors[0].Namespace != "team-a" || p.Selectors[1].Namespace != "team-a" {
		t.Errorf("placement = %+v, want it and its selectors in team-a", p)
	}
	spec, err := d.RunSpec("n.team-a.web-1")
	if err != nil || spec.Placement != p.Name || spec.Strategy.Name != "n.team-a.slow.and.steady" || spec.Name != "n.team-a.web-1" {
		t.Errorf("run = %+v, %v", spec, err)
	}
	if len(p.Overrides) != 1 {
		t.Errorf("%d overrides, want that of the same namespace", len(p.Overrides))
	}
	// A strategy and a placement of that name in another namespace are not found.
	for _, other := range []string{"namespace: team-b", "labels: {a: b}"} {
		parts := strings.Split(text, "---\n")
		for i := range 2 {
			kind := parts[i]
			if strings.HasPrefix(other, "labels") {
				kind = strings.NewReplacer("kind: Staged", "kind: ClusterStaged", "kind: Resource", "kind: ClusterResource").Replace(kind)
			}
			parts[i] = strings.Replace(kind, "namespace: team-a", other, 1)
		}
		d := read(t, strings.Join(parts, "---\n"))
		_, err := d.RunSpec("n.team-a.web-1")
		fails(t, err, "StagedUpdateRun/web-1", `spec.placementName: Not found: "web"`, `spec.stagedRolloutStrategyName: Not found: "slow.and.steady"`)
		if n := len(d.Placements[0].Overrides); n != 0 {
			t.Errorf("%s: the placement has %d overrides of another namespace", other, n)
		}
	}
}

// T25: a ResourcePlacement selects only in its own namespace.
func TestT25SelectorsStayInTheNamespace(t *testing.T) {
	rp := func(namespace, selector string) string {
		return placementAPI + "kind: ResourcePlacement\nmetadata: {name: x, namespace: " + namespace + "}\nspec:\n  resourceSelectors: [" + selector + "]\n"
	}
	for _, kind := range []string{
		"version: v1, kind: Namespace, name: team-b", "version: v1, kind: Node", "group: rbac.authorization.k8s.io, version: v1, kind: ClusterRole",
		"group: apiextensions.k8s.io, version: v1, kind: CustomResourceDefinition", "group: storage.k8s.io, version: v1, kind: StorageClass",
	} {
		problems(t, rp("team-a", "{"+kind+"}"), "ResourcePlacement/x: spec.resourceSelectors[0].kind: a ")
	}
	problems(t, rp("team-a", "{version: v1, kind: ConfigMap, namespace: team-b}"), "spec.resourceSelectors[0].namespace: unknown field")
	problems(t, rp("kube-system", "{version: v1, kind: ConfigMap}"), "ResourcePlacement/x: metadata.namespace: Invalid")
	problems(t, rp("''", "{version: v1, kind: ConfigMap}"), "ResourcePlacement/x: metadata.namespace: \"\": a lowercase RFC 1123 label")
}

// An override concerns the placement that it names, but not one with the same name in another
// scope. An override that names no placement concerns every placement that its namespace allows.
func TestOverridesConcern(t *testing.T) {
	cluster := fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "a"}}}
	inA := fleet.Placement{Name: "n.a.web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "ConfigMap", Namespace: "a"}}}
	in := func(ns string) placement.Override { return placement.Override{Name: "o", Namespace: ns} }
	for _, tc := range []struct {
		o            kubefleet.Override
		cluster, inA bool
	}{
		{kubefleet.Override{}, true, true},
		{kubefleet.Override{Override: in("a")}, true, true},
		{kubefleet.Override{Override: in("b")}, false, false},
		{kubefleet.Override{Override: in("a"), Placement: "web"}, true, false},
		{kubefleet.Override{Override: in("a"), Placement: "web", PlacementNamespace: "a"}, false, true},
		{kubefleet.Override{Override: in("b"), Placement: "web", PlacementNamespace: "b"}, false, false},
		{kubefleet.Override{Override: in("a"), Placement: "web", AnyScope: true}, true, true},
		{kubefleet.Override{Override: in("b"), Placement: "web", AnyScope: true}, true, false},
		{kubefleet.Override{Placement: "other"}, false, false},
	} {
		if got := tc.o.Concerns(cluster); got != tc.cluster {
			t.Errorf("%+v concerns the ClusterResourcePlacement: %v", tc.o, got)
		}
		if got := tc.o.Concerns(inA); got != tc.inA {
			t.Errorf("%+v concerns the ResourcePlacement: %v", tc.o, got)
		}
	}
}

func TestRolloutSettings(t *testing.T) {
	quarter := intstr.FromString("25%")
	for text, want := range map[string]kubefleet.Rollout{
		"{type: External}":                     {Type: v1beta1.ExternalRolloutStrategyType},
		"{}":                                   {Type: v1beta1.RollingUpdateRolloutStrategyType, MaxUnavailable: quarter, MaxSurge: quarter, UnavailablePeriod: time.Minute},
		"{rollingUpdate: {maxUnavailable: 2}}": {Type: v1beta1.RollingUpdateRolloutStrategyType, MaxUnavailable: intstr.FromInt32(2), MaxSurge: quarter, UnavailablePeriod: time.Minute},
		"{rollingUpdate: {maxUnavailable: 100%}}":                     {Type: v1beta1.RollingUpdateRolloutStrategyType, MaxUnavailable: intstr.FromString("100%"), MaxSurge: quarter, UnavailablePeriod: time.Minute},
		"{rollingUpdate: {maxSurge: 0%}}":                             {Type: v1beta1.RollingUpdateRolloutStrategyType, MaxUnavailable: quarter, MaxSurge: intstr.FromString("0%"), UnavailablePeriod: time.Minute},
		"{rollingUpdate: {maxSurge: 0, unavailablePeriodSeconds: 0}}": {Type: v1beta1.RollingUpdateRolloutStrategyType, MaxUnavailable: quarter},
		"{type: External, reportBackStrategy: {type: Mirror, destination: OriginalResource}}": {
			Type: v1beta1.ExternalRolloutStrategyType, ReportBack: v1beta1.ReportBackDestinationOriginalResource,
		},
		"{reportBackStrategy: {type: Mirror, destination: WorkAPI}}": {
			Type: v1beta1.RollingUpdateRolloutStrategyType, MaxUnavailable: quarter, MaxSurge: quarter, UnavailablePeriod: time.Minute, ReportBack: v1beta1.ReportBackDestinationWorkAPI,
		},
		"{type: External, reportBackStrategy: {destination: OriginalResource}}": {Type: v1beta1.ExternalRolloutStrategyType},
	} {
		d := read(t, crp("strategy: "+text))
		if got := d.Rollouts["x"]; got != want {
			t.Errorf("%s = %+v, want %+v", text, got, want)
		}
	}
	const at = "spec.strategy.rollingUpdate."
	for text, want := range map[string]string{
		"{maxUnavailable: 0}":                  at + "maxUnavailable: must be a number of at least 1, or a percentage from 1% to 100%",
		"{maxUnavailable: 0%}":                 at + "maxUnavailable: must be a number",
		"{maxUnavailable: 101%}":               at + "maxUnavailable: must be a number",
		"{maxUnavailable: '2'}":                at + "maxUnavailable: must be a number",
		"{maxUnavailable: 1.5}":                at + "maxUnavailable: must be a number",
		"{maxUnavailable: -1}":                 at + "maxUnavailable: must be a number",
		"{maxSurge: -1}":                       at + "maxSurge: must be a number of at least 0, or a percentage from 0% to 100%",
		"{unavailablePeriodSeconds: -1}":       at + "unavailablePeriodSeconds: must be from 0 to 31536000, not -1",
		"{unavailablePeriodSeconds: 31536001}": at + "unavailablePeriodSeconds: must be from 0 to",
		"{partition: 3}":                       at + "partition: unknown field",
	} {
		problems(t, crp("strategy: {rollingUpdate: "+text+"}"), want)
	}
}

// A rolling update is a run of one stage that the engine accepts.
func TestRollingUpdateIsARun(t *testing.T) {
	item := func(group, kind string) snapshot.Item {
		return snapshot.Item{ID: snapshot.ID{Group: group, Kind: kind}}
	}
	half, thousand := intstr.FromString("50%"), intstr.FromInt32(1000)
	r := kubefleet.Rollout{Type: v1beta1.RollingUpdateRolloutStrategyType, MaxUnavailable: half, UnavailablePeriod: time.Minute}
	want := stages.Strategy{
		Name: "rolling-update",
		Stages: []stages.Stage{{Name: "rolling-update", Selector: &metav1.LabelSelector{}, Groups: []stages.Group{
			{Name: "new", New: true, MaxConcurrency: &thousand},
			{Name: "update", Selector: &metav1.LabelSelector{}, MaxConcurrency: &half, UnprovenFirst: true},
		}}},
		Removal: stages.Removal{MaxConcurrency: &half},
	}
	tracked := []snapshot.Item{item("", "Namespace"), item("", "ConfigMap"), item("apps", "Deployment"), item("apiextensions.k8s.io", "CustomResourceDefinition")}
	got := r.Strategy(tracked)
	equal(t, "strategy", want, got, got.Validate())
	for _, untracked := range []snapshot.Item{item("example.com", "Database"), item("autoscaling", "HorizontalPodAutoscaler"), item("networking.k8s.io", "Ingress")} {
		if got := r.Strategy(append(tracked, untracked)); got.MinHealthy.Duration != time.Minute {
			t.Errorf("with a %s a cluster waits %s, want a minute", untracked.Kind, got.MinHealthy.Duration)
		}
	}
	if got := (kubefleet.Rollout{}).Strategy(nil); got.Stages[0].Groups[1].MaxConcurrency.StrVal != "25%" {
		t.Errorf("default = %v, want 25%%", got.Stages[0].Groups[1].MaxConcurrency)
	}
}

// Any object is either read or refused.
func FuzzObjects(f *testing.F) {
	for _, name := range []string{"served.yaml", "tutorial/placement.yaml", "tutorial/strategy.yaml", "tutorial/run.yaml", "tutorial/run-2.yaml"} {
		body, err := yaml.YAMLToJSON([]byte(file(f, name)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Add([]byte(`{"apiVersion":"placement.kubernetes-fleet.io/v1","kind":"ResourcePlacement","metadata":{"namespace":"a","name":"b.c"},"spec":{"resourceSelectors":[{"version":"v1","kind":"Pod"}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		obj := &unstructured.Unstructured{}
		if err := obj.UnmarshalJSON(body); err != nil {
			return
		}
		_, _ = kubefleet.ClusterOf(obj)
		_, _ = kubefleet.OverrideOf(obj)
		_, _, _ = kubefleet.PlacementOf(obj)
		_, _ = kubefleet.StrategyOf(obj)
		_, _ = kubefleet.RunOf(obj)
	})
}

func fails(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error = %v\nwant it to contain %q", err, w)
		}
	}
}
