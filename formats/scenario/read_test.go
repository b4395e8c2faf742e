package scenario_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/scenario"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
	"github.com/slipway-dev/slipway/stages/simulate"
)

func read(t *testing.T, text string) scenario.Scenario {
	t.Helper()
	s, err := scenario.Read(strings.NewReader(text), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const everyField = `
profile: Workflow
clusters:
- name: c1
  labels: {order: "2"}
  group: g1
  region: eu
  timeZone: Europe/Berlin
  windows: [{rrule: "FREQ=DAILY;BYHOUR=2", duration: 2h}]
  freezes: [{from: "2026-01-05T00:00", until: "2026-01-07T00:00", reason: holidays}]
- {name: c2}
count: {prefix: d, n: 2, labels: {a: b}}
strategy: {stages: [{name: all, labelSelector: {}, maxConcurrency: 50%}]}
start: 2026-01-05T10:00:00+01:00
take: 10s
faults:
- {cluster: c1, fail: 2}
- {cluster: c1, unreachable: [1m, 5m], unhealthyAt: 30s, for: 10s}
- {cluster: c1, unhealthyAt: 1h, take: 0s}
- {cluster: c2, fail: always}
- {cluster: e1, take: 1h}
churn:
- {at: 3m, add: e1, labels: {a: b}}
- {at: 2m, remove: c2}
- {at: 4m, relabel: d2, labels: {a: c}}
commands:
- {at: 5m, do: stop, by: ann, reason: lunch}
- {at: 6m, do: start}
- {at: 7m, do: skip, target: "Group:all/g2"}
- {at: 8m, do: approve, stage: canary, by: ann, groups: [sre]}
- {at: 9m, do: reject, stage: prod, group: g1, by: bob, reason: "no"}
- {at: 10m, do: retry, only: failed}
- {at: 10m, do: retry, only: skipped}
- {at: 10m, do: retry}
- {at: 11m, do: complete-gate, stage: prod, group: g1}
- {at: 11m, do: complete-gate, group: g1}
- {at: 11m, do: complete-gate, stage: prod}
- {at: 12m, do: bypass, for: 2h, by: ann, reason: a fix}
- {at: 0, do: abort}
until: 24h
starter: zoe
timeZone: Asia/Kolkata
windows: [{rrule: "FREQ=HOURLY", duration: 30m}]
freezes: [{rrule: "FREQ=WEEKLY;BYDAY=SU", duration: 1h}]
attempts: 3
backoff: 5s
maxBackoff: 1m
progressDeadline: 1h
minHealthy: 2m
maxFailures: 25%
strictFailures: true
domains: [{key: zone, maxConcurrency: 50%}, {key: rack}]
cap: 7
unassigned: Exclude
`

func TestEveryFieldIsRead(t *testing.T) {
	got := read(t, everyField)
	half, quarter := intstr.FromString("50%"), intstr.FromString("25%")
	labels := map[string]string{"a": "b"}
	want := scenario.Scenario{
		Strategy: stages.Strategy{
			Stages: []stages.Stage{{
				Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &half, MaxFailures: &quarter, StrictFailures: true,
				Domains: []stages.Domain{{Key: "zone", MaxConcurrency: &half}, {Key: "rack"}},
			}},
			Cap: "cap", Profile: stages.Workflow, Unassigned: stages.UnassignedExclude, Attempts: 3, Backoff: metav1.Duration{Duration: 5 * time.Second}, MaxBackoff: metav1.Duration{Duration: time.Minute},
			ProgressDeadline: metav1.Duration{Duration: time.Hour}, MinHealthy: metav1.Duration{Duration: 2 * time.Minute},
		},
		Clusters: []placement.Cluster{
			{Name: "c1", Labels: map[string]string{"order": "2", "slipway.dev/update-group": "g1", "topology.kubernetes.io/region": "eu"}},
			{Name: "c2"},
			{Name: "d1", Labels: labels},
			{Name: "d2", Labels: labels},
		},
		Rules: calendar.Rules{
			TimeZone: "Asia/Kolkata",
			Run: calendar.Level{
				Windows: []calendar.Window{{RRule: "FREQ=HOURLY", Duration: metav1.Duration{Duration: 30 * time.Minute}}},
				Freezes: []calendar.Freeze{{RRule: "FREQ=WEEKLY;BYDAY=SU", Duration: metav1.Duration{Duration: time.Hour}}},
			},
			Clusters: map[string]calendar.Level{"c1": {
				TimeZone: "Europe/Berlin",
				Windows:  []calendar.Window{{RRule: "FREQ=DAILY;BYHOUR=2", Duration: metav1.Duration{Duration: 2 * time.Hour}}},
				Freezes:  []calendar.Freeze{{From: "2026-01-05T00:00", Until: "2026-01-07T00:00", Reason: "holidays"}},
			}},
		},
		Environment: everyEnvironment(time.Date(2026, time.January, 5, 9, 0, 0, 0, time.UTC)),
	}
	if got.Plan == nil || got.Environment.Calendar == nil || len(got.Plan.Clusters) != 4 {
		t.Fatalf("plan %v, calendar %v", got.Plan, got.Environment.Calendar)
	}
	if w := got.Environment.Calendar.Window(1, got.Environment.Start); !w.Limited {
		t.Errorf("the windows of the run are not those of c2: %+v", w)
	}
	got.Plan, got.Environment.Calendar, got.Environment.Start = nil, nil, got.Environment.Start.UTC()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("scenario (-want +got):\n%s", diff)
	}
}

// everyEnvironment returns the environment of everyField.
func everyEnvironment(start time.Time) simulate.Environment {
	const minute = time.Minute
	ann, bob := approval.Identity{Name: "ann"}, approval.Identity{Name: "bob"}
	sre := approval.Identity{Name: "ann", Groups: []string{"sre"}}
	order := func(at time.Duration, c stages.Command) simulate.Order { return simulate.Order{At: at, Command: c} }
	return simulate.Environment{
		Start: start, Starter: approval.Identity{Name: "zoe"}, Slots: 7, Until: 24 * time.Hour,
		Default: simulate.Member{Take: 10 * time.Second},
		Members: map[string]simulate.Member{
			"c1": {
				Fail: 2, Unreachable: []simulate.Interval{{From: minute, To: 5 * minute}},
				Unhealthy: []simulate.Interval{{From: 30 * time.Second, To: 40 * time.Second}, {From: time.Hour}},
			},
			"c2": {Take: 10 * time.Second, Fail: simulate.Always},
			"e1": {Take: time.Hour},
		},
		Churn: []simulate.Change{{At: 2 * minute, Cluster: "c2"}, {At: 3 * minute, Cluster: "e1", Back: true}},
		Orders: []simulate.Order{
			order(5*minute, stages.Command{Verb: stages.Stop, By: ann, Message: "lunch"}),
			order(6*minute, stages.Command{Verb: stages.Start}),
			order(7*minute, stages.Command{Verb: stages.Skip, Scope: stages.SkipGroup, Name: "all/g2"}),
			order(8*minute, stages.Command{Verb: stages.Decide, By: sre, Decision: &approval.Decision{
				Verdict: approval.Approve, By: sre, Binding: approval.Binding{Stage: "canary"},
			}}),
			order(9*minute, stages.Command{Verb: stages.Decide, By: bob, Message: "no", Decision: &approval.Decision{
				Verdict: approval.Reject, By: bob, Comment: "no", Binding: approval.Binding{Stage: "prod", Group: "g1"},
			}}),
			order(10*minute, stages.Command{Verb: stages.Retry, Only: stages.OnlyFailed}),
			order(10*minute, stages.Command{Verb: stages.Retry, Only: stages.OnlySkipped}),
			order(10*minute, stages.Command{Verb: stages.Retry}),
			order(11*minute, stages.Command{Verb: stages.CompleteGate, Name: "prod/g1"}),
			order(11*minute, stages.Command{Verb: stages.CompleteGate, Name: "g1"}),
			order(11*minute, stages.Command{Verb: stages.CompleteGate, Name: "prod"}),
			order(12*minute, stages.Command{
				Verb: stages.BypassWindows, By: ann, Message: "a fix", Until: start.Add(12*minute + 2*time.Hour),
			}),
			order(0, stages.Command{Verb: stages.Abort}),
		},
	}
}

func TestJSONIsReadToo(t *testing.T) {
	got := read(t, `{"clusters":[{"name":"c1"}],"strategy":{"stages":[{"name":"a","labelSelector":{}}]}}`)
	if len(got.Plan.Clusters) != 1 {
		t.Errorf("plan %+v", got.Plan)
	}
}

func TestProfileFromTheFieldsOfAStrategy(t *testing.T) {
	for text, want := range map[string]struct {
		profile stages.Profile
		groups  int
	}{
		"strategy: {stages: [{name: a, labelSelector: {}}]}":                                                 {"", 0},
		"strategy: {stages: [{name: a, labelSelector: {}}]}\nprofile: ClusterUpdate":                         {stages.ClusterUpdate, 0},
		"strategy: {stages: [{name: a, groups: [{name: g1}]}]}":                                              {stages.ClusterUpdate, 1},
		"strategy: {stages: [{name: a, groups: [{name: g1}]}]}\nprofile: Staged":                             {stages.Staged, 1},
		"strategy: {stages: [{name: a, labelSelector: {}}, {name: b, afterStageTasks: [{type: Approval}]}]}": {"", 0},
		"profile: ClusterUpdate": {stages.ClusterUpdate, 1},
		"strategy: {stages: [{name: a, groups: [{name: g1}, {name: g2}], afterStageWaitInSeconds: 3600}]}\nattempts: 2":    {stages.ClusterUpdate, 2},
		"strategy: {stages: [{name: a, groups: [{name: g1, maxAllowedFailures: 2}], maxAllowedFailures: 0}]}\nattempts: 2": {stages.ClusterUpdate, 1},
	} {
		got := read(t, "clusters: [{name: c1, group: g1}]\n"+text).Strategy
		if got.Profile != want.profile || len(got.Stages[0].Groups) != want.groups {
			t.Errorf("%s\nhas profile %q and %d groups", text, got.Profile, len(got.Stages[0].Groups))
		}
	}
}

// The whole object of a hub is the same strategy as its spec. Its problems have their place in
// the object.
func TestAStrategyMayBeTheObjectOfAHub(t *testing.T) {
	const spec = "{stages: [{name: a, labelSelector: {matchLabels: {ring: a}}, maxConcurrency: 2}, {name: b, labelSelector: {}}]}"
	object := func(kind, spec string) string {
		return "clusters: [{name: c1}]\nstrategy:\n  apiVersion: placement.kubernetes-fleet.io/v1beta1\n  kind: " + kind + "\n  metadata: {name: careful, namespace: shop}\n  spec: " + spec + "\n"
	}
	want := read(t, "clusters: [{name: c1}]\nstrategy: "+spec).Strategy
	for _, kind := range []string{"ClusterStagedUpdateStrategy", "StagedUpdateStrategy"} {
		if diff := cmp.Diff(want, read(t, strings.ReplaceAll(object(kind, spec), ", namespace: shop", map[bool]string{true: ", namespace: shop"}[kind == "StagedUpdateStrategy"])).Strategy); diff != "" {
			t.Errorf("%s:\n%s", kind, diff)
		}
	}
	for text, want := range map[string]string{
		object("StagedUpdateStrategy", "{stagess: []}"):             "f.yaml:6: strategy.spec.stagess: ",
		object("StagedUpdateRun", spec):                             "strategy.kind: ",
		object("StagedUpdateStrategy", "{stages: [{name: a b}]}"):   "f.yaml:6: strategy.spec.stages[0].name: ",
		object("StagedUpdateStrategy", spec) + "maxFailures: [1]\n": "f.yaml:7: maxFailures: ",
	} {
		if _, err := scenario.Read(strings.NewReader(text), "f.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}

func TestAStrategyMayBeADocumentOfItsOwn(t *testing.T) {
	const scene, object = "clusters: [{name: c1}]\ntake: 10s\n", `apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: careful}
spec: {stages: [{name: all, labelSelector: {}, COLOR}]}
`
	good := strings.Replace(object, ", COLOR", "", 1)
	for _, text := range []string{scene + "---\n" + good, good + "---\n" + scene} {
		if s := read(t, text); len(s.Strategy.Stages) != 1 || s.Strategy.Stages[0].Name != "all" {
			t.Errorf("%s: strategy %+v", text, s.Strategy)
		}
	}
	problems(t, scene+"---\n"+strings.Replace(object, "COLOR", "color: red", 1), "f.yaml:7: strategy.spec.stages[0].color: unknown field")
	problems(t, scene+"strategy: {stages: []}\n---\n"+good, "f.yaml:3: strategy: is in a document of its own, on line 5, too")
	problems(t, scene+"---\n"+good+"---\n"+good, "f.yaml:9: is a second document")
	problems(t, good, "f.yaml:1: is empty")
}

func TestStrictFailuresForBudgetsAboveZero(t *testing.T) {
	s := read(t, `{clusters: [{name: c1, group: g1}, {name: c2, group: g2}], strictFailures: true, strategy: {stages: [
		{name: a, maxAllowedFailures: 2, groups: [{name: g1, maxAllowedFailures: 1}, {name: g2, maxAllowedFailures: 0%}]}]}}`).Strategy
	st := s.Stages[0]
	if !st.StrictFailures || !st.Groups[0].StrictFailures || st.Groups[1].StrictFailures {
		t.Errorf("strategy %+v", s)
	}
}

func TestACountMayBeAList(t *testing.T) {
	s := read(t, "count: [{prefix: a, n: 2, group: g1}, {prefix: b-, n: 1}]\nprofile: ClusterUpdate")
	var names []string
	for _, c := range s.Clusters {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"a1", "a2", "b-1"}, names); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
}

func TestAClusterMayComeBack(t *testing.T) {
	s := read(t, "clusters: [{name: c1}]\nprofile: ClusterUpdate\nchurn: [{at: 2m, add: c1}, {at: 1m, remove: c1}, {at: 3m, remove: c1}]")
	want := []simulate.Change{{At: time.Minute, Cluster: "c1"}, {At: 2 * time.Minute, Cluster: "c1", Back: true}, {At: 3 * time.Minute, Cluster: "c1"}}
	if diff := cmp.Diff(want, s.Environment.Churn); diff != "" {
		t.Errorf("churn (-want +got):\n%s", diff)
	}
}

// broken is a reader that fails.
type broken struct{}

var errBroken = errors.New("broken")

func (broken) Read([]byte) (int, error) { return 0, errBroken }

func TestAnErrorOfTheReaderIsReturned(t *testing.T) {
	if _, err := scenario.Read(broken{}, "f.yaml"); !errors.Is(err, errBroken) {
		t.Errorf("error = %v", err)
	}
}

func TestSharesAreRead(t *testing.T) {
	for what, stage := range map[string]string{
		"KubeFleet's": "[{name: one, sortingLabelKey: order}, {name: ten, labelSelector: {matchLabels: {a: b}}}, {name: all, beforeStageTasks: [{type: Approval}]}]",
		"Azure's":     "[{name: one, memberSelector: {byLabel: a=b}}, {name: ten, memberSelector: {byLabel: a=b}}, {name: all, groups: [{name: g1}]}]",
	} {
		got := read(t, "count: {prefix: c, n: 40, group: g1, labels: {a: b, order: \"1\"}}\nshares: {one: 1, ten: 25%, all: rest}\nunassigned: Exclude\nstrategy: {stages: "+stage+"}\n")
		one, quarter := intstr.FromInt32(1), intstr.FromString("25%")
		st := got.Strategy.Stages
		if diff := cmp.Diff([]any{&one, &quarter, true}, []any{st[0].Take, st[1].Take, st[2].Rest}); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		var sizes []int
		for i := range got.Plan.Stages {
			sizes = append(sizes, got.Plan.Stages[i].Size())
		}
		if diff := cmp.Diff([]int{1, 9, 30}, sizes); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}
