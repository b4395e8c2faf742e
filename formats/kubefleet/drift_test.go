package kubefleet_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
)

func webNamespace(owner string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": map[string]any{"name": "web", "labels": map[string]any{"app": "web", "owner": owner}},
	}}
}

// The test uses the documents of Azure's page on drift and expects its answer: a placement only
// reports, another client has replaced a label on member-2, and the status has the same JSON.
func TestReportDiffStatusOfTheAzureSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text, err := os.Open("testdata/crp-reportdiff-sample.yaml")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = text.Close() }()
		docs, err := kubefleet.Read(text, text.Name())
		if err != nil {
			t.Fatal(err)
		}
		members := memory.NewFleet()
		for name, owner := range map[string]string{"member-1": "simon", "member-2": "chen"} {
			members.Add(placement.Cluster{Name: name})
			if err := members.Cluster(name).Update(webNamespace(owner)); err != nil {
				t.Fatal(err)
			}
		}
		e, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource(webNamespace("simon"))})
		if err != nil {
			t.Fatal(err)
		}
		p := docs.Placements[0]
		if err := e.PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Placement(p.Name).Capture(t.Context()); err != nil {
			t.Fatal(err)
		}
		var all []drift.ClusterReport
		for c, err := range e.Placement(p.Name).Drift(t.Context(), fleet.DriftOptions{}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		b, err := json.Marshal(kubefleet.DriftStatuses(p, all))
		if err != nil {
			t.Fatal(err)
		}
		var got []map[string]any
		if err := json.Unmarshal(b, &got); err != nil {
			t.Fatal(err)
		}
		now := "2000-01-01T00:00:00Z"
		want := []map[string]any{{"clusterName": "member-2", "diffedPlacements": []any{map[string]any{
			"firstDiffedObservedTime": now, "kind": "Namespace", "name": "web", "observationTime": now,
			"observedDiffs": []any{map[string]any{"path": "/metadata/labels/owner", "valueInHub": "simon", "valueInMember": "chen"}},
			// A server does not count the generations of namespaces and returns 0; the embedded
			// member counts them.
			"targetClusterObservedGeneration": 1.0, "version": "v1",
		}}}}
		var answer []map[string]any
		for _, s := range got {
			if s["diffedPlacements"] != nil {
				answer = append(answer, map[string]any{"clusterName": s["clusterName"], "diffedPlacements": s["diffedPlacements"]})
			}
		}
		if d := cmp.Diff(want, answer); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// Conditions name the objects that were not applied and the reason. Values that are not strings
// appear as JSON, and missing values have no key.
func TestDriftStatuses(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	object := func(reason drift.Reason) drift.ObjectReport {
		return drift.ObjectReport{
			Report: drift.Report{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "web", Name: "shop", Generation: 7, Total: 2, Differences: []drift.Difference{
				{Path: "/spec/replicas", Hub: json.RawMessage("2"), Member: json.RawMessage("7")},
				{Path: "/spec/paused", Member: json.RawMessage("true")},
			}},
			Reason: reason, Observed: at, FirstObserved: at.Add(-time.Hour),
		}
	}
	for _, c := range []struct {
		when   apply.WhenToApply
		reason drift.Reason
		want   string
	}{
		{apply.Always, drift.FoundDrifts, "Applied True AllWorkHaveBeenApplied drifted"},
		{apply.IfNotDrifted, drift.FoundDrifts, "Applied False NotAllWorkHaveBeenApplied drifted"},
		{apply.Always, drift.NotTakenOver, "Applied False NotAllWorkHaveBeenApplied diffed"},
		{apply.Always, drift.FailedToTakeOver, "Applied False NotAllWorkHaveBeenApplied diffed"},
	} {
		p := fleet.Placement{ApplyStrategy: apply.Strategy{WhenToApply: c.when}}
		s := kubefleet.DriftStatuses(p, []drift.ClusterReport{{Cluster: "a", State: drift.Compared, Observed: at, Total: 1, Objects: []drift.ObjectReport{object(c.reason)}}})[0]
		got := fmt.Sprint(s.Conditions[0].Type, " ", s.Conditions[0].Status, " ", s.Conditions[0].Reason)
		if len(s.DiffedPlacements) > 0 {
			got += " diffed"
		}
		if len(s.DriftedPlacements) > 0 {
			got += " drifted"
		}
		if got != c.want {
			t.Errorf("%s %s: %s, want %s", c.when, c.reason, got, c.want)
		}
	}
	p := fleet.Placement{ApplyStrategy: apply.Strategy{Type: apply.ReportDiff}}
	unknown := kubefleet.DriftStatuses(p, []drift.ClusterReport{{Cluster: "b", State: drift.Unknown, Observed: at, Problems: []string{"no route"}}})[0]
	if c := unknown.Conditions[0]; c.Type != "DiffReported" || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "no route") {
		t.Errorf("%+v", c)
	}
	b, _ := json.Marshal(kubefleet.DriftStatuses(p, []drift.ClusterReport{{Cluster: "a", State: drift.Compared, Observed: at, Objects: []drift.ObjectReport{object(drift.FoundDrifts)}}}))
	want := `"driftedPlacements":[{"group":"apps","version":"v1","kind":"Deployment","name":"shop","namespace":"web","observationTime":"2026-01-02T03:04:05Z","targetClusterObservedGeneration":7,"firstDriftedObservedTime":"2026-01-02T02:04:05Z","observedDrifts":[{"path":"/spec/replicas","valueInMember":"7","valueInHub":"2"},{"path":"/spec/paused","valueInMember":"true"}]}]`
	if !strings.Contains(string(b), want) {
		t.Errorf("%s\nlacks\n%s", b, want)
	}
}

// An object that a cluster does not have differs as a whole, and has no generation.
func TestTheStatusOfAnObjectThatIsMissing(t *testing.T) {
	p := fleet.Placement{ApplyStrategy: apply.Strategy{Type: apply.ReportDiff}}
	report := drift.Report{Version: "v1", Kind: "ConfigMap", Namespace: "web", Name: "cm", State: drift.Absent, Total: 1, Differences: []drift.Difference{
		{Class: drift.Missing, Hub: json.RawMessage(`{"data":{"key":"v"}}`)},
	}}
	all := []drift.ClusterReport{{Cluster: "a", State: drift.Compared, Objects: []drift.ObjectReport{{Report: report, Reason: drift.FoundDiff}}}}
	b, err := json.Marshal(kubefleet.DriftStatuses(p, all))
	if err != nil {
		t.Fatal(err)
	}
	want := `"observedDiffs":[{"path":"/","valueInHub":"(the whole object)"}]`
	if !strings.Contains(string(b), want) || strings.Contains(string(b), "targetClusterObservedGeneration") {
		t.Errorf("%s\nlacks\n%s, or has a generation", b, want)
	}
}

// The apply strategy of a document becomes the apply strategy of the placement, in either spelling,
// and can be written again.
func TestTheApplyStrategyIsReadAndWritten(t *testing.T) {
	partial, always, takeOver, defaults := drift.Partial, apply.Always, apply.TakeOverAlways, defaultApply()
	for _, c := range []struct {
		text string
		want apply.Strategy
	}{
		{"", defaults},
		{"strategy: {type: External}", defaults},
		{"strategy: {type: External, applyStrategy: null}", defaults},
		{"strategy: {type: External, applyStrategy: {}}", defaults},
		{applying("{allowCoOwnership: true}"), defaults},
		{applying("{type: ReportDiff}"), apply.Strategy{Type: apply.ReportDiff, ComparisonOption: partial, WhenToApply: always, WhenToTakeOver: takeOver}},
		{
			applying("{comparisonOption: FullComparison, whenToApply: IfNotDrifted}"),
			apply.Strategy{Type: apply.ClientSide, ComparisonOption: drift.Full, WhenToApply: apply.IfNotDrifted, WhenToTakeOver: takeOver},
		},
		{applying("{comparisonOptions: partialComparison, whenToApply: Always}"), defaults},
		{
			applying("{comparisonOptions: fullComparison, comparisonOption: FullComparison}"),
			apply.Strategy{Type: apply.ClientSide, ComparisonOption: drift.Full, WhenToApply: always, WhenToTakeOver: takeOver},
		},
		{applying("{type: ServerSideApply}"), serverSide(true)},
		{applying("{type: ServerSideApply, serverSideApplyConfig: {force: false}}"), serverSide(true)},
		{applying("{type: ServerSideApply, serverSideApplyConfig: {force: true}}"), serverSide(false)},
		{
			applying("{type: ClientSideApply, whenToTakeOver: IfNoDiff}"),
			apply.Strategy{Type: apply.ClientSide, ComparisonOption: partial, WhenToApply: always, WhenToTakeOver: apply.IfNoDiff},
		},
	} {
		p := read(t, crp(c.text)).Placements[0]
		if d := cmp.Diff(c.want, p.ApplyStrategy); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.text, d)
		}
	}
}

// applying returns the strategy of a placement with an applyStrategy.
func applying(text string) string { return "strategy: {type: External, applyStrategy: " + text + "}" }

// defaultApply returns the apply strategy of a placement that does not specify one.
func defaultApply() apply.Strategy {
	return apply.Strategy{
		Type: apply.ClientSide, ComparisonOption: drift.Partial, WhenToApply: apply.Always, WhenToTakeOver: apply.TakeOverAlways,
	}
}

func serverSide(refuse bool) apply.Strategy {
	return apply.Strategy{
		Type: apply.ServerSide, RefuseConflicts: refuse,
		ComparisonOption: drift.Partial, WhenToApply: apply.Always, WhenToTakeOver: apply.TakeOverAlways,
	}
}

// The path in a status leads to the difference, also in an atomic list, because KubeFleet's API has
// no field for the list.
func TestStatusPathInsideAnAtomicList(t *testing.T) {
	report := drift.Report{Total: 1, Differences: []drift.Difference{{
		Path: "/spec/ingress/0/ports/0/endPort", AtomicPath: "/spec/ingress", Class: drift.Changed, Hub: json.RawMessage("90"), Member: json.RawMessage("99"),
	}}}
	all := []drift.ClusterReport{{Cluster: "a", State: drift.Compared, Objects: []drift.ObjectReport{{Report: report, Reason: drift.FoundDrifts}}}}
	b, err := json.Marshal(kubefleet.DriftStatuses(fleet.Placement{}, all))
	if err != nil {
		t.Fatal(err)
	}
	if want := `"observedDrifts":[{"path":"/spec/ingress/0/ports/0/endPort","valueInMember":"99","valueInHub":"90"}]`; !strings.Contains(string(b), want) {
		t.Errorf("%s\nlacks\n%s", b, want)
	}
}
