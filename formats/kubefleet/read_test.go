package kubefleet_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/formats/problem"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

const (
	placementAPI = "apiVersion: placement.kubernetes-fleet.io/v1beta1\n"
	header       = placementAPI + "kind: %s\nmetadata: {name: x}\n"
)

// stage returns a strategy with one stage that has more fields.
func stage(fields string) string {
	return fmt.Sprintf(header, "ClusterStagedUpdateStrategy") + "spec:\n  stages:\n  - name: one\n" + indent(fields, "    ")
}

func run(spec string) string {
	return fmt.Sprintf(header, "ClusterStagedUpdateRun") + "spec:\n" + indent(spec, "  ")
}

func crp(spec string) string {
	return fmt.Sprintf(header, "ClusterResourcePlacement") + "spec:\n" +
		"  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: ns}]\n" + indent(spec, "  ")
}

func indent(s, by string) string {
	return by + strings.ReplaceAll(s, "\n", "\n"+by) + "\n"
}

// tutorial returns the tutorial's files as one input.
func tutorial(t testing.TB) string {
	t.Helper()
	files, err := filepath.Glob("testdata/tutorial/*.yaml")
	if err != nil || len(files) != 6 {
		t.Fatalf("files = %v, %v", files, err)
	}
	var all []string
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	return strings.Join(all, "---\n")
}

func read(t testing.TB, text string) kubefleet.Documents {
	t.Helper()
	d, err := kubefleet.Read(strings.NewReader(text), "test.yaml")
	if err != nil {
		t.Fatalf("error:\n%v\ninput:\n%s", err, text)
	}
	return d
}

func env(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"environment": value}}
}

func tutorialStrategy() stages.Strategy {
	return stages.Strategy{Name: "example-strategy", Stages: []stages.Stage{
		{Name: "staging", Selector: env("staging"), After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}}},
		{Name: "canary", Selector: env("canary"), SortKey: "order", After: []stages.Task{{Type: stages.Approval}}},
	}}
}

func TestReadTutorial(t *testing.T) {
	d := read(t, tutorial(t))
	objects := d.Objects
	d.Objects = nil
	want := kubefleet.Documents{
		Placements: []fleet.Placement{{
			Name: "example-placement", Policy: placement.Policy{Type: placement.PickAll},
			Selectors:     []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}},
			ApplyStrategy: defaultApply(),
		}},
		Rollouts:   map[string]kubefleet.Rollout{"example-placement": {Type: v1beta1.ExternalRolloutStrategyType}},
		Strategies: []stages.Strategy{tutorialStrategy()},
		Runs: []kubefleet.Run{
			{Name: "example-run-2", Placement: "example-placement", Index: new(0), StrategyName: "example-strategy", State: v1beta1.StateRun},
			{Name: "example-run", Placement: "example-placement", Index: new(1), StrategyName: "example-strategy", State: v1beta1.StateRun},
		},
		Clusters: []placement.Cluster{
			{Name: "member1", Labels: map[string]string{"environment": "canary", "order": "2"}},
			{Name: "member2", Labels: map[string]string{"environment": "staging"}},
			{Name: "member3", Labels: map[string]string{"environment": "canary", "order": "1"}},
		},
	}
	if diff := cmp.Diff(want, d, cmpopts.IgnoreUnexported(kubefleet.Documents{})); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
	if len(objects) != 2 || objects[0].GetKind() != "Namespace" || objects[1].Object["data"].(map[string]any)["key"] != "value1" {
		t.Errorf("objects = %v, want the namespace and the config map", objects)
	}
	spec, err := d.RunSpec("example-run-2")
	if err != nil {
		t.Fatal(err)
	}
	wantSpec := fleet.RunSpec{Name: "example-run-2", Placement: "example-placement", Index: new(0), Strategy: tutorialStrategy()}
	if diff := cmp.Diff(wantSpec, spec); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
}

func TestRunSpecErrors(t *testing.T) {
	d := read(t, run("placementName: gone\nstagedRolloutStrategyName: lost")+"---\n"+
		strings.ReplaceAll(run("placementName: x\nstagedRolloutStrategyName: x\nstate: Stop"), "name: x", "name: rolling")+"---\n"+
		crp("revisionHistoryLimit: 7")+"---\n"+stage("labelSelector: {}"))
	for name, want := range map[string][]string{
		"x":       {"ClusterStagedUpdateRun/x", `spec.placementName: Not found: "gone"`, `spec.stagedRolloutStrategyName: Not found: "lost"`},
		"rolling": {"spec.placementName", "spec.strategy.type is RollingUpdate; staged runs need External"},
		"none":    {`no staged update run "none"`},
	} {
		_, err := d.RunSpec(name)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("RunSpec(%s) = %v, want %q", name, err, w)
			}
		}
	}
}

func TestRunSpecHold(t *testing.T) {
	for state, hold := range map[string]bool{"Initialize": true, "Run": false, "Stop": true, "null": false} {
		d := read(t, run("placementName: x\nstagedRolloutStrategyName: x\nstate: "+state)+"---\n"+
			crp("strategy: {type: External}")+"---\n"+stage("labelSelector: {}"))
		spec, err := d.RunSpec("x")
		if err != nil || spec.Hold != hold {
			t.Errorf("state %s: hold = %v, %v; want %v", state, spec.Hold, err, hold)
		}
	}
}

func TestReadStage(t *testing.T) {
	percent, number := intstr.FromString("25%"), intstr.FromInt32(3)
	for text, want := range map[string]stages.Stage{
		"labelSelector:":      {},
		"labelSelector: {}":   {Selector: &metav1.LabelSelector{}},
		"maxConcurrency: 25%": {MaxConcurrency: &percent},
		"maxConcurrency: 3":   {MaxConcurrency: &number},
		"labelSelector: {matchExpressions: [{key: a, operator: In, values: [b, c]}]}": {Selector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b", "c"}}},
		}},
		"beforeStageTasks: [{type: Approval}]":                                       {Before: []stages.Task{{Type: stages.Approval}}},
		"afterStageTasks: [{type: Approval}, {type: TimedWait, waitTime: 1h0m0.5s}]": {After: []stages.Task{{Type: stages.Approval}, {Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour + 500*time.Millisecond}}}},
	} {
		want.Name = "one"
		got := read(t, stage(text)).Strategies[0].Stages[0]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestReadPolicy(t *testing.T) {
	required := "policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [" +
		"{labelSelector: {matchLabels: {environment: canary}}}, {}]}}}}"
	for text, want := range map[string]placement.Policy{
		"policy: {placementType: PickFixed, clusterNames: [b, a]}": {Type: placement.PickFixed, ClusterNames: []string{"b", "a"}},
		required: {Required: []placement.Term{{LabelSelector: *env("canary")}, {}}},
	} {
		if diff := cmp.Diff(want, read(t, crp(text)).Placements[0].Policy); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	p := read(t, crp("revisionHistoryLimit: 7\nstrategy: {type: External, applyStrategy: {type: ServerSideApply, whenToApply: Always, allowCoOwnership: true}}")).Placements[0]
	if p.HistoryLimit != 7 || !p.AllowCoOwnership {
		t.Errorf("placement = %+v, want a history of 7 and co-ownership", p)
	}
}

func TestReadOverrides(t *testing.T) {
	text, err := os.ReadFile("testdata/overrides.yaml")
	if err != nil {
		t.Fatal(err)
	}
	other := strings.ReplaceAll(crp("{}"), "name: x", "name: other")
	d := read(t, tutorial(t)+"---\n"+string(text)+"---\n"+strings.ReplaceAll(other, "{}", "strategy: {type: External}"))
	for i, want := range []int{2, 0} {
		if got := len(d.Placements[i].Overrides); got != want {
			t.Errorf("placement %s has %d overrides, want %d", d.Placements[i].Name, got, want)
		}
	}
	want := []kubefleet.Override{
		{Placement: "example-placement", Override: placement.Override{
			Name: "team", Priority: -3,
			Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "Namespace", Name: "test-namespace"}},
			Rules: []placement.Rule{{
				ClusterSelector: &placement.ClusterSelector{Terms: []placement.ClusterTerm{{LabelSelector: env("canary")}}},
				Patches:         []placement.Patch{{Op: "add", Path: "/metadata/annotations", Value: []byte(`{"cluster":"${MEMBER-CLUSTER-NAME}"}`)}},
			}},
		}},
		{Override: placement.Override{
			Name: "key", Namespace: "test-namespace",
			Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "test-cm"}},
			Rules: []placement.Rule{
				{Type: placement.JSONPatch, ClusterSelector: &placement.ClusterSelector{}, Patches: []placement.Patch{
					{Op: "replace", Path: "/data/key", Value: []byte("null")}, {Op: "remove", Path: "/data/key"},
				}},
				{Type: placement.Delete, ClusterSelector: &placement.ClusterSelector{}},
			},
		}},
	}
	if diff := cmp.Diff(want, d.Overrides); diff != "" {
		t.Errorf("overrides (-want +got):\n%s", diff)
	}
}

// A List is read as its items, an empty document as nothing, and line ends may be of either kind.
func TestReadForms(t *testing.T) {
	list := "apiVersion: v1\nkind: List\nitems:\n" + indent("- "+strings.ReplaceAll(strings.TrimSpace(run("placementName: p\nstagedRolloutStrategyName: s")), "\n", "\n  "), "")
	for name, text := range map[string]string{
		"list":      list,
		"CRLF":      strings.ReplaceAll(run("placementName: p\nstagedRolloutStrategyName: s"), "\n", "\r\n"),
		"empty":     "# only a comment\n---\n---\n\n--- # nothing\n...\n---\nnull\n---\n" + run("placementName: p\nstagedRolloutStrategyName: s") + "---\n",
		"directive": "%YAML 1.1\n---\n" + run("placementName: p\nstagedRolloutStrategyName: s"),
		"BOM":       "\ufeff" + run("placementName: p\nstagedRolloutStrategyName: s"),
		"alias":     run("placementName: &p p\nstagedRolloutStrategyName: *p"),
		"no index":  run("placementName: p\nresourceSnapshotIndex: ''\nstagedRolloutStrategyName: s"),
		"status":    run("placementName: p\nstagedRolloutStrategyName: s") + "status: {conditions: [{anything: 1}]}\n",
		"JSON":      `{"apiVersion":"placement.kubernetes-fleet.io/v1","kind":"ClusterStagedUpdateRun","metadata":{"name":"x","uid":"u"},"spec":{"placementName":"p","stagedRolloutStrategyName":"s"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := read(t, text)
			if len(d.Runs) != 1 || d.Runs[0].Placement != "p" || d.Runs[0].Index != nil || len(d.Objects) != 0 {
				t.Errorf("documents = %+v, want one run", d)
			}
		})
	}
	if d := read(t, ""); !cmp.Equal(d, kubefleet.Documents{}, cmpopts.IgnoreUnexported(kubefleet.Documents{})) {
		t.Errorf("nothing was read as %+v", d)
	}
}

func TestReadTooLong(t *testing.T) {
	_, err := kubefleet.Read(strings.NewReader(strings.Repeat("#", kubefleet.MaxBytes+1)), "f")
	var p problem.List
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "f:1: is longer than") {
		t.Errorf("error = %v", err)
	}
}

// For any input Read returns, and a second Read returns the same.
func FuzzRead(f *testing.F) {
	f.Add(tutorial(f))
	overrides, err := os.ReadFile("testdata/overrides.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(overrides))
	f.Add(file(f, "namespaced.yaml"))
	f.Add(file(f, "served.yaml"))
	f.Add(crp("policy: {placementType: PickFixed, clusterNames: [a]}\nstrategy: {type: RollingUpdate}"))
	f.Add(stage("afterStageTasks: [{type: TimedWait, waitTime: -1h}]"))
	f.Add("a: &a [*a]\n---\n- x\n---\n%\n")
	f.Fuzz(func(t *testing.T, text string) {
		d, err := kubefleet.Read(strings.NewReader(text), "f")
		again, errAgain := kubefleet.Read(strings.NewReader(text), "f")
		if diff := cmp.Diff(d, again, cmp.AllowUnexported(kubefleet.Documents{})); diff != "" || (err == nil) != (errAgain == nil) {
			t.Errorf("%v, %v (-first +second):\n%s", err, errAgain, diff)
		}
	})
}
