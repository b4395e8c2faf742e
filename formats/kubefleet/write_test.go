package kubefleet_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// everything has documents with every field of the API that a store keeps.
const everything = `
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: web.shop}
spec:
  resourceSelectors:
  - {group: "", version: v1, kind: Namespace, name: shop, selectionScope: NamespaceWithResourceSelectors}
  - {group: apps, version: v1, kind: Deployment, labelSelector: {matchLabels: {app: web}}}
  carry: [Owned]
  revisionHistoryLimit: 4
  policy:
    placementType: PickN
    numberOfClusters: 2
    affinity:
      clusterAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          clusterSelectorTerms:
          - labelSelector: {matchExpressions: [{key: env, operator: In, values: [prod, edge]}]}
            propertySelector: {matchExpressions: [{name: resources.kubernetes-fleet.io/available-cpu, operator: Ge, values: ["1500m"]}]}
        preferredDuringSchedulingIgnoredDuringExecution:
        - {weight: 20, preference: {labelSelector: {matchLabels: {region: eu}}}}
        - {weight: -5, preference: {propertySorter: {name: kubernetes-fleet.io/node-count, sortOrder: Descending}}}
    topologySpreadConstraints: [{maxSkew: 2, topologyKey: region, whenUnsatisfiable: ScheduleAnyway}]
    tolerations: [{key: a, operator: Equal, value: b, effect: NoSchedule}]
  strategy:
    type: External
    applyStrategy: {type: ServerSideApply, serverSideApplyConfig: {force: true}, comparisonOption: FullComparison, whenToApply: IfNotDrifted, whenToTakeOver: Never, allowCoOwnership: true}
    deleteStrategy: {propagationPolicy: Abandon}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: settings, namespace: shop}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: settings}]
  policy: {placementType: PickFixed, clusterNames: [eu-1]}
  strategy: {type: External}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourceOverride
metadata: {name: eu}
spec:
  priority: 3
  placement: {name: web.shop}
  clusterResourceSelectors: [{group: "", version: v1, kind: Namespace, name: shop}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {region: eu}}}]}
      overrideType: JSONPatch
      jsonPatchOverrides: [{op: add, path: /metadata/labels/a, value: {b: null}}, {op: remove, path: /metadata/labels/c}]
    - clusterSelector: {clusterSelectorTerms: []}
      overrideType: Delete
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: own, namespace: shop}
spec:
  placement: {name: settings, scope: Namespaced}
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: settings}]
  policy: {overrideRules: [{overrideType: Delete, clusterSelector: {clusterSelectorTerms: []}}]}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: StagedUpdateStrategy
metadata: {name: careful, namespace: shop}
spec:
  progressDeadline: 90m
  rollback: {causes: [GateRejected], newClusters: Leave, approval: {quorums: [{group: sre, count: 2}], expires: 24h}}
  stages:
  - name: canary
    labelSelector: {matchLabels: {ring: canary}}
    sortingLabelKey: order
    maxConcurrency: 25%
    maxFailures: 1
    beforeStageTasks: [{type: Approval, approval: {forbidStarter: true, requireBinding: true}}]
    beforeStageChecks: [{name: ready, object: smoke, cluster: eu-1}]
    afterStageTasks: [{type: TimedWait, waitTime: 10s}, {type: Approval}]
    afterStageChecks: [{name: errors, query: errors, max: 0.5}]
    checks: [{name: load, provider: p, query: load, min: 1, initialDelay: 10s, interval: 20s}]
    clusterChecks: [{name: up, query: up, clusterLabel: cluster, min: 1, interval: 20s, count: 3, failureLimit: 1, inconclusiveLimit: 2, consecutiveErrorLimit: 0, empty: Failed, expires: 1h}]
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: web-1}
spec: {placementName: web.shop, stagedRolloutStrategyName: careful, resourceSnapshotIndex: "3", state: Initialize}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: StagedUpdateRun
metadata: {name: settings-1, namespace: shop}
spec: {placementName: settings, stagedRolloutStrategyName: careful}
`

// written returns documents as JSON.
func written(t *testing.T, docs kubefleet.Documents) string {
	t.Helper()
	var out []string
	add := func(o any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	for _, p := range docs.Placements {
		o, err := kubefleet.ObjectOf(p)
		add(o, err)
		overrides, err := kubefleet.OverrideObjects(p)
		for _, o := range overrides {
			add(o, err)
		}
	}
	for _, s := range docs.Strategies {
		o, err := kubefleet.StrategyObject(s)
		add(o, err)
	}
	for _, r := range docs.Runs {
		add(r.Object(), nil)
	}
	return strings.Join(out, "\n---\n")
}

// A document that is read and written reads the same again.
func TestWrittenDocumentsAreReadAgain(t *testing.T) {
	docs := read(t, everything)
	again := read(t, written(t, docs))
	for _, d := range []*kubefleet.Documents{&docs, &again} {
		for i := range d.Overrides { // an override of the wide scope names its placement when it is written
			d.Overrides[i].AnyScope = false
		}
	}
	if diff := cmp.Diff(docs, again, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".places" }, cmp.Ignore())); diff != "" {
		t.Errorf("written and read again (-want +got):\n%s\n%s", diff, written(t, docs))
	}
}

// A placement of a program may leave whenToApply open, and then clusters are not touched between
// runs. No document says that, so a document that is declared over it has the API's default.
func TestDeclareTakesTheDefaultOfWhenToApply(t *testing.T) {
	have := fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	doc := read(t, written(t, kubefleet.Documents{Placements: []fleet.Placement{have}})).Placements[0]
	want := have
	want.ApplyStrategy.WhenToApply = apply.Always
	if diff := cmp.Diff(want, kubefleet.Declare(have, doc)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A placement of a program keeps the fields that no document has if a document is declared over it.
func TestDeclareKeepsFieldsThatNoDocumentHas(t *testing.T) {
	docs := read(t, everything)
	have := fleet.Placement{
		Name: "c.web.shop", Owner: "o", AllowEmpty: true, RunHistory: 7, Admission: stages.RejectRun, Exclusive: true, ReportStatus: true,
		Overrides: []placement.Override{{Name: "kept"}}, HistoryLimit: 9, DeletePolicy: placement.DeleteAll,
	}
	have.ApplyStrategy.Secrets = []string{"x"}
	got := kubefleet.Declare(have, docs.Placements[0])
	want := docs.Placements[0]
	want.Owner, want.AllowEmpty, want.RunHistory, want.Admission, want.Exclusive, want.ReportStatus = "o", true, 7, stages.RejectRun, true, true
	want.Overrides, want.ApplyStrategy.Secrets = have.Overrides, have.ApplyStrategy.Secrets
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAPlacementWithoutADocumentSaysWhy(t *testing.T) {
	for name, want := range map[string]string{"web.v1": "no object has this name", "h.cut.x": "no object has this name", "n.shop.web": `its namespace is ""`} {
		if _, err := kubefleet.ObjectOf(fleet.Placement{Name: name}); err == nil || !strings.Contains(err.Error(), "placement "+name+" has no document") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
