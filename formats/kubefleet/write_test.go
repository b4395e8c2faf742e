package kubefleet_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// roundTrip writes and reads documents, and compares.
func roundTrip(t *testing.T, d kubefleet.Documents) []byte {
	t.Helper()
	b, err := kubefleet.Write(d)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, read(t, string(b))); diff != "" {
		t.Errorf("what was written reads as something else (-want +got):\n%s\n%s", diff, b)
	}
	return b
}

func TestWriteTutorial(t *testing.T) {
	overrides, err := os.ReadFile("testdata/overrides.yaml")
	if err != nil {
		t.Fatal(err)
	}
	b := roundTrip(t, read(t, tutorial(t)+"---\n"+string(overrides)))
	for _, want := range []string{"waitTime: \"1m0s\"\n", "resourceSnapshotIndex: \"1\"\n", "order: \"2\"\n", "state: Run\n", "type: External\n", "clusterSelectorTerms: []\n"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("written:\n%s\nwant it to contain %q", b, want)
		}
	}
}

func fullStrategy() stages.Strategy {
	half, two := intstr.FromString("50%"), intstr.FromInt32(2)
	return stages.Strategy{Name: "s", Stages: []stages.Stage{
		{Name: "none"},
		{
			Name: "first-1", Selector: &metav1.LabelSelector{}, SortKey: "example.com/order", MaxConcurrency: &half,
			Before: []stages.Task{{Type: stages.Approval}},
			After:  []stages.Task{{Type: stages.TimedWait, Wait: time.Nanosecond}, {Type: stages.Approval}},
		},
		{
			Name: "2", MaxConcurrency: &two, After: []stages.Task{{Type: stages.TimedWait, Wait: 365*24*time.Hour - time.Nanosecond}},
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "yes", Operator: "NotIn", Values: []string{"null", ""}}}},
		},
	}}
}

func fullPlacement() fleet.Placement {
	return fleet.Placement{
		Name: "yes", HistoryLimit: 1000, AllowCoOwnership: true, DeletePolicy: placement.Abandon, ApplyStrategy: defaultApply(),
		Selectors: []snapshot.Selector{
			{Group: "apps", Version: "v1", Kind: "Deployment", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "true"}}},
			{Version: "v1", Kind: "Namespace", Name: "1"},
		},
		Policy: placement.Policy{Type: placement.PickAll, Required: []placement.Term{{LabelSelector: *env("canary")}, {}}},
		Overrides: []placement.Override{{
			Name: "o", Namespace: "n", Selectors: []placement.ObjectSelector{{Group: "apps", Version: "v1", Kind: "Deployment", Name: "d"}},
			Rules: []placement.Rule{
				{ClusterSelector: &placement.ClusterSelector{Terms: []placement.ClusterTerm{{LabelSelector: env("canary")}, {}}}, Patches: []placement.Patch{
					{Op: placement.OpAdd, Path: "/spec/x~1y", Value: json.RawMessage(`{"a":[1,1.5,"<&>",null,true,"1","line\nline "],"b":{}}`)},
					{Op: placement.OpRemove, Path: "/spec/replicas"},
				}},
				{Type: placement.Delete},
			},
		}},
	}
}

func TestWriteOne(t *testing.T) {
	check := func(b []byte, err error, want kubefleet.Documents) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, read(t, string(b))); diff != "" {
			t.Errorf("(-want +got):\n%s\n%s", diff, b)
		}
	}
	p := fullPlacement()
	b, err := kubefleet.WritePlacement(p)
	check(b, err, kubefleet.Documents{
		Placements: []fleet.Placement{p}, Rollouts: map[string]kubefleet.Rollout{"yes": {Type: kubefleet.External}},
		Overrides: []kubefleet.Override{{Override: p.Overrides[0], Placement: "yes"}},
	})
	b, err = kubefleet.WriteStrategy(fullStrategy())
	check(b, err, kubefleet.Documents{Strategies: []stages.Strategy{fullStrategy()}})
	if !bytes.Contains(b, []byte(`waitTime: "0.000000001s"`)) { // KubeFleet knows no units below seconds
		t.Errorf("written:\n%s", b)
	}
	for _, r := range []kubefleet.Run{
		{Name: "r", Placement: "p", StrategyName: "s", State: kubefleet.Initialize},
		{Name: "r", Placement: "on", StrategyName: "0", State: kubefleet.Stop, Index: new(2147483647)},
	} {
		b, err = kubefleet.WriteRun(r)
		check(b, err, kubefleet.Documents{Runs: []kubefleet.Run{r}})
	}
	c := placement.Cluster{Name: "c", Labels: map[string]string{"no": "y", "a/b": "1e3", "t": "2024-01-01", "e": ""}}
	b, err = kubefleet.WriteCluster(c)
	check(b, err, kubefleet.Documents{Clusters: []placement.Cluster{c}})
	o := kubefleet.Override{Override: p.Overrides[0]}
	o.Namespace = ""
	b, err = kubefleet.WriteOverride(o)
	check(b, err, kubefleet.Documents{Overrides: []kubefleet.Override{o}})
}

// A field that the format has no place for is named, not dropped.
func TestWriteInexpressible(t *testing.T) {
	one := intstr.FromInt32(1)
	s := fullStrategy()
	s.Unassigned, s.Profile, s.Attempts = stages.UnassignedExclude, stages.Workflow, 3
	s.Backoff, s.MaxBackoff, s.MinHealthy = 1, 2, 4
	s.Removal = stages.Removal{MaxConcurrency: &one, Deadline: 1, Before: []stages.Task{{Type: stages.Approval}}, After: []stages.Task{{Type: stages.Approval}}}
	s.Stages[0].Groups = []stages.Group{{Name: "g"}}
	s.Stages[0].Before = []stages.Task{{Type: stages.TimedWait, Wait: 1}}
	s.Stages[0].StrictFailures = true
	s.Stages[0].Take, s.Stages[1].Rest = &one, true
	s.Stages[1].Before[0].Approval = &approval.Policy{ForbidStarter: true}
	s.Stages[1].Before[0].DisplayName = "sign-off"
	s.Stages[1].Before = append(s.Stages[1].Before, stages.Task{Type: stages.ScheduledStart, Schedule: &stages.Schedule{Time: "02:00"}})
	_, err := kubefleet.WriteStrategy(s)
	fails(t, err, "ClusterStagedUpdateStrategy/s", "unassigned:", "profile:", "attempts:", "backoff:", "maxBackoff:", "minHealthy:",
		"removal.maxConcurrency:", "removal.deadline:", "removal.beforeStageTasks:", "removal.afterStageTasks:",
		"stages[0].groups:", "stages[0].beforeStageTasks[0].type:", "stages[1].beforeStageTasks[0].approval:",
		"stages[0].strictFailures:", "stages[0].take:", "stages[1].rest:", "stages[1].beforeStageTasks[0].displayName:", "stages[1].beforeStageTasks[1].type:")

	p := fullPlacement()
	p.Admission = stages.RejectRun
	p.HistoryLimit = 1001
	p.Policy.Type = "PickN"
	p.Overrides[0].Rules[0].Patches[0].Value = json.RawMessage("{")
	_, err = kubefleet.WritePlacement(p)
	fails(t, err, "ClusterResourcePlacement/yes", "admission:", "historyLimit:", "policy.numberOfClusters: Required value", "ResourceOverride/o", "value:")

	_, err = kubefleet.WriteCluster(placement.Cluster{Name: "C", UID: "u", Labels: map[string]string{"a b": "c"}})
	fails(t, err, "name:", "uid:", "labels:")
	_, err = kubefleet.WriteRun(kubefleet.Run{Index: new(-1)})
	fails(t, err, "name:", "placement:", "strategyName:", "index:", "state:")
	_, err = kubefleet.WriteStrategy(stages.Strategy{})
	fails(t, err, "name:", "stages:")
	_, err = kubefleet.Write(kubefleet.Documents{
		Objects:    []*unstructured.Unstructured{nil, {Object: map[string]any{"kind": "Secret"}}},
		Placements: []fleet.Placement{fullPlacement()},
	})
	fails(t, err, "an object is nil", "apiVersion: Required", "metadata.name: Required", "overrides:", "rollouts.type:")
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

// Any text that stands in an object comes back as it was.
func FuzzWriteObject(f *testing.F) {
	for _, s := range []string{"", "a", "yes", "null", "~", "1", "0x1f", "1_000", "12:30", "2024-01-01", " a ", "a\nb\n", "\n\n a", "- a", "a: b", "#", "---", "\t", "\u2028", "\u0085", "é", "e5", ".5", "<<", "=", "*a", "&a", "!a", "%a", "@", "`", "\"'\\", "\x7f", "\ufeff"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return // no JSON can hold it
		}
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"},
			"data": map[string]any{key: value, "list": []any{value, int64(1) << 62, 0.1, 1e300, true, nil, map[string]any{}, []any{}}},
		}}
		want, err := json.Marshal(o.Object) // which is what a server gets to see
		if err != nil {
			t.Fatal(err)
		}
		b, err := kubefleet.Write(kubefleet.Documents{Objects: []*unstructured.Unstructured{o}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(read(t, string(b)).Objects[0].Object)
		if err != nil || !bytes.Equal(want, got) {
			t.Errorf("%v\nwant %s\n got %s\nYAML:\n%s", err, want, got, b)
		}
	})
}

// Whatever the input is, Read returns, and what it returns can be written and
// reads as the same.
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
		d, _ := kubefleet.Read(strings.NewReader(text), "f")
		b, err := kubefleet.Write(d)
		if err != nil {
			return // an object without a name in the right place
		}
		again, err := kubefleet.Read(bytes.NewReader(b), "f")
		if err != nil {
			t.Fatalf("%v\nwritten:\n%s", err, b)
		}
		if diff := cmp.Diff(d, again); diff != "" {
			t.Errorf("(-first +second):\n%s\n%s", diff, b)
		}
	})
}
