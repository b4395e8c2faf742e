package kubefleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/formats/problem"
)

// problems checks the problems that Read reports for a text, one line each.
func problems(t *testing.T, text string, want ...string) {
	t.Helper()
	_, err := kubefleet.Read(strings.NewReader(text), "f.yaml")
	var got problem.List
	if !errors.As(err, &got) {
		t.Fatalf("error = %v, want %q\ninput:\n%s", err, want, text)
	}
	for i, p := range got {
		if i >= len(want) || !strings.Contains(p.Error(), want[i]) {
			t.Errorf("problem %d = %v\nwant all of %q", i, p, want)
		}
	}
	if len(got) < len(want) {
		t.Errorf("problems:\n%v\nwant %q", err, want)
	}
}

func TestProblemsOfStrategies(t *testing.T) {
	const id = "ClusterStagedUpdateStrategy/x: spec.stages[0]."
	for text, want := range map[string]string{
		"maxConcurency: 1":                                         "f.yaml:7: " + id + "maxConcurency: unknown field; known are afterStageChecks, afterStageTasks, beforeStageChecks, beforeStageTasks, checks, clusterChecks, labelSelector, maxConcurrency, maxFailures, name, sortingLabelKey",
		"maxConcurrency: 0":                                        "f.yaml:7: " + id + "maxConcurrency: Invalid value",
		"maxConcurrency: 101%":                                     id + "maxConcurrency: Invalid value",
		"maxConcurrency: 0%":                                       id + "maxConcurrency: Invalid value",
		"maxConcurrency: '3'":                                      id + "maxConcurrency: Invalid value",
		"maxConcurrency: 3.5":                                      id + "maxConcurrency: must be a number of at least 1, or a percentage",
		"maxConcurrency: 99999999999":                              id + "maxConcurrency: must be at most 2147483647",
		"maxConcurrency: 99999999999999999999":                     id + "maxConcurrency: ",
		"labelSelector: []":                                        id + "labelSelector: must be an object, not a list",
		"labelSelector: {matchLabels: {a: 1}}":                     id + `labelSelector.matchLabels.a: must be a string, not the number 1; write "1"`,
		"labelSelector: {matchLabels: {a: yes}}":                   id + `labelSelector.matchLabels.a: is true or false in old YAML`,
		"labelSelector: {matchLabels: {a: x y}}":                   id + "labelSelector.matchLabels",
		"labelSelector: {matchExpressions: [{key: a}]}":            id + "labelSelector.matchExpressions[0].operator: is required",
		"sortingLabelKey: 'a b'":                                   id + "sortingLabelKey: Invalid value",
		"sortingLabelKey: ''":                                      id + "sortingLabelKey: must be the key of a label",
		"name: two":                                                "f.yaml:7: " + id + "name: is there already, on line 6",
		"afterStageTasks: {type: Approval}":                        id + "afterStageTasks: must be a list, not an object",
		"afterStageTasks: [{type: TimedWait, waitTime: -1h}]":      id + `afterStageTasks[0].waitTime: must be more than 0s and at most 365 days (8760h), not -1h`,
		"afterStageTasks: [{type: TimedWait, waitTime: 0s}]":       id + `afterStageTasks[0].waitTime: must be more than 0s and at most 365 days (8760h), not 0s`,
		"afterStageTasks: [{type: TimedWait, waitTime: 8760h1ns}]": id + `afterStageTasks[0].waitTime: must be more than 0s and at most 365 days (8760h), not 8760h1ns`,
		"afterStageTasks: [{type: Manual}]":                        id + `afterStageTasks[0].type: must be TimedWait or Approval, not "Manual"`,
		"afterStageTasks: [{waitTime: 1m}]":                        id + "afterStageTasks[0].type: is required",
		"afterStageTasks: [{type: TimedWait}]":                     id + "afterStageTasks[0].waitTime: Required value",
		"afterStageTasks: [{type: Approval, waitTime: 1m}]":        id + "afterStageTasks[0].waitTime: Forbidden",
		"afterStageTasks: [{type: Approval}, {type: Approval}]":    id + "afterStageTasks[1].type: Duplicate value",
		"beforeStageTasks: [{type: TimedWait, waitTime: 1m}]":      id + "beforeStageTasks[0].type: TimedWait is not allowed before a stage",
		"groups: []":      id + "groups: unknown field",
		"<<: {name: two}": "spec.stages[0]: merge keys (<<) are not read",
		"1: two":          "spec.stages[0]: keys must be strings",
	} {
		t.Run(text, func(t *testing.T) { problems(t, stage(text), want) })
	}
	names := fmt.Sprintf(header, "ClusterStagedUpdateStrategy") + "spec:\n  stages: [{name: A}, {name: b}, {name: b}, {name: remove}, {}]\n"
	problems(t, names, "stages[4].name: is required", "stages[0].name: Invalid", "stages[2].name: Duplicate", "stages[3].name: Invalid")
	problems(t, fmt.Sprintf(header, "ClusterStagedUpdateStrategy")+"spec: {stages: []}\n", "spec.stages: Required value")
	problems(t, fmt.Sprintf(header, "ClusterStagedUpdateStrategy"), "ClusterStagedUpdateStrategy/x: spec: is required")
}

func TestProblemsOfRuns(t *testing.T) {
	const ok = "placementName: p\nstagedRolloutStrategyName: s\n"
	for text, want := range map[string]string{
		"placementName: p":                                 "f.yaml:5: ClusterStagedUpdateRun/x: spec.stagedRolloutStrategyName: is required",
		ok + "resourceSnapshotIndex: 1":                    `f.yaml:7: ClusterStagedUpdateRun/x: spec.resourceSnapshotIndex: must be a string, not the number 1; write "1"`,
		ok + "resourceSnapshotIndex: '-1'":                 `"-1" must be an integer of at least 0 in quotes`,
		ok + "resourceSnapshotIndex: '+1'":                 `"+1" must be an integer`,
		ok + "resourceSnapshotIndex: latest":               `"latest" must be an integer`,
		ok + "resourceSnapshotIndex: '1.5'":                `"1.5" must be an integer`,
		ok + "resourceSnapshotIndex: '99999999999'":        `must be an integer`,
		ok + "state: Running":                              `spec.state: must be Initialize or Run or Stop or Rollback, not "Running"`,
		ok + "suspend: true":                               "spec.suspend: unknown field",
		"placementName: 'A'\nstagedRolloutStrategyName: s": "spec.placementName: \"A\": a lowercase RFC 1123 subdomain",
		"placementName: [a]\nstagedRolloutStrategyName: s": "spec.placementName: must be a string, not a list",
	} {
		t.Run(text, func(t *testing.T) { problems(t, run(text), want) })
	}
}

// A feature that Slipway does not support yet is an error, and never ignored.
func TestProblemsOfPlacements(t *testing.T) {
	for text, want := range map[string]string{
		"policy: {placementType: PickN}":                               "spec.policy.numberOfClusters: Required value: a PickN policy says how many clusters it picks",
		"policy: {placementType: PickN, numberOfClusters: -1}":         "spec.policy.numberOfClusters: Invalid value: -1: must be 0 or more",
		"policy: {placementType: PickN, numberOfClusters: '2'}":        "spec.policy.numberOfClusters: must be a whole number, not a string",
		"policy: {placementType: PickN, numberOfClusters: 4294967297}": "spec.policy.numberOfClusters: must fit into 32 bits",
		"policy: {placementType: PickFixed, clusterNames: [a], affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{}]}}}}": "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution: Forbidden",
		"policy: {numberOfClusters: 3}":       "spec.policy.numberOfClusters: Forbidden",
		"policy: {placementType: Any}":        "spec.policy.placementType: must be PickAll or PickFixed or PickN",
		"policy: {tolerations: [{value: a}]}": "spec.policy.tolerations[0].key: Required value",
		"policy: {tolerations: [{key: a, operator: Exists, value: b, effect: NoExecute, for: 3}]}":                                "spec.policy.tolerations[0].for: unknown field\nspec.policy.tolerations[0].value: Forbidden\nspec.policy.tolerations[0].effect: Unsupported value",
		"policy: {placementType: PickFixed, clusterNames: [a], tolerations: [{key: a}]}":                                          "spec.policy.tolerations: Forbidden",
		"policy: {placementType: PickN, numberOfClusters: 1, topologySpreadConstraints: [{maxSkew: 0, whenUnsatisfiable: Fail}]}": "spec.policy.topologySpreadConstraints[0].maxSkew: must be a number of at least 1, not 0\nspec.policy.topologySpreadConstraints[0].topologyKey: is required\nspec.policy.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value",
		"policy: {topologySpreadConstraints: [{topologyKey: region}]}":                                                            "spec.policy.topologySpreadConstraints: Forbidden: only a PickN policy has this",
		"policy: {placementType: PickFixed, clusterNames: [a, a, B]}":                                                             "spec.policy.clusterNames[1]: Duplicate\nspec.policy.clusterNames[2]: Invalid",
		"policy: {clusterNames: [a]}": "spec.policy.clusterNames: Forbidden",
		"policy: {affinity: {clusterAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {}}]}}}":                                                                                                                                            "spec.policy.affinity.clusterAffinity.preferredDuringSchedulingIgnoredDuringExecution: Forbidden: only a PickN policy has this",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySelector: {}}]}}}}":                                                                                                                          "clusterSelectorTerms[0].propertySelector.matchExpressions: is required",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySorter: {name: a, sortOrder: Ascending}}]}}}}":                                                                                               "clusterSelectorTerms[0].propertySorter: is for preferred terms",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{}, {propertySelector: {matchExpressions: [{name: a/b/c, operator: Is, values: ['1']}]}}]}}}}":                                                        "clusterSelectorTerms[1].propertySelector.matchExpressions[0].name: Invalid value\n.clusterSelectorTerms[1].propertySelector.matchExpressions[0].operator: Unsupported value",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySelector: {matchExpressions: [{name: a, operator: Gt, values: [1]}]}}]}}}}":                                                                  "matchExpressions[0].values[0]: must be a string, not the number 1; write \"1\"",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySelector: {matchExpressions: [{name: a, operator: Gt, values: [big]}]}}]}}}}":                                                                "matchExpressions[0].values[0]: \"big\" is not a quantity",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySelector: {matchExpressions: [{name: a, operator: Gt, values: ['1e1000000000']}]}}]}}}}":                                                     "matchExpressions[0].values[0]: \"1e1000000000\" is not a quantity",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySelector: {matchExpressions: [{name: a, operator: Gt, values: []}]}}]}}}}":                                                                   "matchExpressions[0].values: must be exactly one value, not 0",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySelector: {matchExpressions: [{name: resources.kubernetes-fleet.io/cpu, operator: Gt, values: ['1']}]}}]}}}}":                                "matchExpressions[0].name: \"resources.kubernetes-fleet.io/cpu\" must be resources.kubernetes-fleet.io/[CAPACITY_TYPE]-[RESOURCE_NAME]",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySelector: {matchExpressions: [{name: resources.kubernetes-fleet.io/free-cpu, operator: Gt, values: ['1']}]}}]}}}}":                           "matchExpressions[0].name: the capacity type must be allocatable, available or total, not \"free\"",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{propertySelector: {matchExpressions: [{name: a, operator: Gt, values: ['1']}]}}, {labelSelector: {matchExpressions: [{key: a, operator: In}]}}]}}}}": "clusterSelectorTerms[1].labelSelector.matchExpressions[0].values: Required",
		"policy: {placementType: PickN, numberOfClusters: 1, affinity: {clusterAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, preference: {labelSelector: {matchExpressions: [{key: a, operator: In}]}}}]}}}":                                    "preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101\npreferredDuringSchedulingIgnoredDuringExecution[0].preference.labelSelector.matchExpressions[0].values: Required",
		"policy: {placementType: PickN, numberOfClusters: 1, affinity: {clusterAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {propertySorter: {name: -, sortOrder: Random}}}]}}}":                                                     "[0].preference.propertySorter.name: Invalid value\n[0].preference.propertySorter.sortOrder: Unsupported value",
		"policy: {placementType: PickN, numberOfClusters: 1, affinity: {clusterAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{preference: {propertySelector: {}}}]}}}":                                                                                        "[0].preference.propertySelector: is for required terms\n[0].weight: is required",
		"policy: {affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {-: a}}}]}}}}":                                                                                                          "clusterSelectorTerms[0].labelSelector.matchLabels: Invalid",
		"strategy: {type: Recreate}":                                                                          "spec.strategy.type: must be External or RollingUpdate",
		"strategy: {type: External, rollingUpdate: {maxSurge: 1}}":                                            "spec.strategy.rollingUpdate: goes with the type RollingUpdate only",
		"strategy: {applyStrategy: {type: Diff}}":                                                             "spec.strategy.applyStrategy.type: must be ClientSideApply or ServerSideApply or ReportDiff",
		"strategy: {applyStrategy: {whenToApply: Never}}":                                                     "whenToApply: must be Always or IfNotDrifted, not",
		"strategy: {applyStrategy: {whenToTakeOver: IfNotDrifted}}":                                           "whenToTakeOver: must be Always or IfNoDiff or Never, not",
		"strategy: {applyStrategy: {comparisonOption: Half}}":                                                 "comparisonOption: must be PartialComparison or FullComparison",
		"strategy: {applyStrategy: {comparisonOption: FullComparison, comparisonOptions: partialComparison}}": "is another name of comparisonOption",
		"strategy: {applyStrategy: {allowCoOwnership: 1}}":                                                    "allowCoOwnership: must be true or false, not the number 1",
		"strategy: {applyStrategy: {serverSideApplyConfig: {force: false}}}":                                  "serverSideApplyConfig: is only valid for ServerSideApply",
		"strategy: {deleteStrategy: {propagationPolicy: Orphan}}":                                             "deleteStrategy.propagationPolicy: must be Delete or Abandon or DeleteCreated",
		"strategy: {reportBackStrategy: {type: Mirror}}":                                                      "reportBackStrategy: with the type Mirror a destination must be specified",
		"strategy: {reportBackStrategy: {type: Mirrored}}":                                                    "reportBackStrategy.type: must be Disabled or Mirror",
		"strategy: {reportBackStrategy: {type: Mirror, destination: Elsewhere}}":                              "reportBackStrategy.destination: must be OriginalResource or WorkAPI",
		"revisionHistoryLimit: 0":                                                                             "spec.revisionHistoryLimit: must be from 1 to 1000, not 0",
		"revisionHistoryLimit: 1001":                                                                          "spec.revisionHistoryLimit: must be from 1 to 1000",
		"revisionHistoryLimit: ten":                                                                           "spec.revisionHistoryLimit: must be a whole number, not a string",
		"statusReportingScope: Everywhere":                                                                    "statusReportingScope: must be ClusterScopeOnly or NamespaceAccessible",
	} {
		t.Run(text, func(t *testing.T) { problems(t, crp(text), strings.Split(want, "\n")...) })
	}
	selectors := fmt.Sprintf(header, "ClusterResourcePlacement") + "spec:\n  resourceSelectors:\n" +
		"  - {kind: Namespace}\n  - {version: v1, kind: Namespace, name: a, labelSelector: {}}\n  - {version: v1, kind: ConfigMap, selectionScope: NamespaceOnly}\n" +
		"  - {version: v1, kind: Namespace, name: b, selectionScope: Everything}\n"
	problems(t, selectors, "f.yaml:6: ClusterResourcePlacement/x: spec.resourceSelectors[0].version: is required",
		"f.yaml:7: ClusterResourcePlacement/x: spec.resourceSelectors[1].labelSelector: Forbidden",
		"f.yaml:8: ClusterResourcePlacement/x: spec.resourceSelectors[2].selectionScope: Forbidden", "f.yaml:9: ClusterResourcePlacement/x: spec.resourceSelectors[3].selectionScope: must be NamespaceOnly or")
}

func TestProblemsOfOverrides(t *testing.T) {
	const cro = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourceOverride\nmetadata: {name: o}\nspec:\n"
	const sel = "  clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: ns}]\n"
	for text, want := range map[string]string{
		sel + "  priority: high\n  policy: {overrideRules: [{overrideType: Delete}]}\n":                                                "spec.priority: must be a whole number, not a string",
		sel + "  policy: {overrideRules: [{overrideType: Delete, clusterSelector: {clusterSelectorTerms: [{propertySorter: {}}]}}]}\n": "clusterSelectorTerms[0].propertySorter: an override selects clusters by labelSelector only",
		sel + "  policy: {overrideRules: []}\n": "f.yaml:6: ClusterResourceOverride/o: spec.policy.overrideRules: Required",
		sel + "  policy:\n    overrideRules:\n    - jsonPatchOverrides:\n      - {op: add, path: /kind, value: 1}\n":                                                   "f.yaml:9: ClusterResourceOverride/o: spec.policy.overrideRules[0].jsonPatchOverrides[0].path: Forbidden",
		sel + "  policy: {overrideRules: [{jsonPatchOverrides: [{op: copy, path: /a}]}]}\n":                                                                            "jsonPatchOverrides[0].op: must be add or remove or replace",
		sel + "  policy: {overrideRules: [{overrideType: Merge}]}\n":                                                                                                   "overrideRules[0].overrideType: must be JSONPatch or Delete",
		sel + "  placement: {name: p, scope: Namespaced}\n  policy: {overrideRules: [{overrideType: Delete}]}\n":                                                       "spec.placement.scope: Namespaced is for a ResourceOverride in the namespace of the placement; write Cluster",
		"  clusterResourceSelectors: [{version: v1, kind: Namespace, labelSelector: {}}]\n  policy: {overrideRules: [{overrideType: Delete}]}\n":                       "clusterResourceSelectors[0].labelSelector: an override selects by name\nclusterResourceSelectors[0].name: is required",
		"  clusterResourceSelectors: [{version: v1, kind: Namespace, name: ns, selectionScope: NamespaceOnly}]\n  policy: {overrideRules: [{overrideType: Delete}]}\n": "clusterResourceSelectors[0].selectionScope: an override of a Namespace changes everything in it",
		"  resourceSelectors: []\n  policy: {overrideRules: [{overrideType: Delete}]}\n":                                                                               "spec.resourceSelectors: unknown field\nspec.clusterResourceSelectors: is required",
	} {
		t.Run(text, func(t *testing.T) { problems(t, cro+text, strings.Split(want, "\n")...) })
	}
	ro := strings.Replace(cro, "ClusterResource", "Resource", 1) + "  resourceSelectors: [{group: '', version: v1, kind: ConfigMap, name: cm}]\n  policy: {overrideRules: [{overrideType: Delete}]}\n"
	problems(t, ro, "ResourceOverride/o: metadata.namespace: is required")
}

func TestProblemsOfDocuments(t *testing.T) {
	ns := "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns}\n"
	bomb := ns + "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ","))
	}
	for name, tc := range map[string]struct{ text, want string }{
		"list":             {"- a\n- b\n", "f.yaml:1: must be an object with apiVersion and kind, not a list; separate documents by ---"},
		"scalar":           {"---\nhello\n", "f.yaml:2: must be an object"},
		"no kind":          {"metadata: {name: a}\n", "f.yaml:1: a: apiVersion: must be a string, and not empty\nf.yaml:1: a: kind: must be"},
		"no name":          {"apiVersion: v1\nkind: ConfigMap\n", "f.yaml:1: ConfigMap: metadata.name: must be a string"},
		"twice":            {ns + "---\n" + ns, "f.yaml:5: Namespace/ns: metadata.name: is there already, in the document on line 1"},
		"duplicate key":    {ns + "a: 1\nb: 2\na: 3\n", "f.yaml:6: Namespace/ns: a: is there already, on line 4"},
		"version":          {"apiVersion: placement.kubernetes-fleet.io/v2\nkind: ClusterResourcePlacement\nmetadata: {name: ns}\n", "f.yaml:1: ClusterResourcePlacement/ns: apiVersion: the version is not known; known are v1, v1alpha1, v1beta1"},
		"other kind":       {fmt.Sprintf(header, "ResourceSnapshot"), "f.yaml:2: ResourceSnapshot/x: kind: this kind is not read, because a hub writes such objects itself; leave the document out"},
		"unknown kind":     {fmt.Sprintf(header, "Placement"), "f.yaml:2: Placement/x: kind: this kind is not read; known are ClusterResourcePlacement, ClusterResourceOverride, ClusterStagedUpdateStrategy, ClusterStagedUpdateRun, ClusterResourceEnvelope, MemberCluster: correct the kind, or leave the document out"},
		"answer":           {fmt.Sprintf(header, "ClusterApprovalRequest"), "f.yaml:2: ClusterApprovalRequest/x: kind: only a hub reads the answer to a request from its object"},
		"eviction":         {fmt.Sprintf(header, "ClusterResourcePlacementEviction"), "f.yaml:2: ClusterResourcePlacementEviction/x: kind: only a hub carries out evictions"},
		"namespace":        {strings.Replace(stage("labelSelector: {}"), "name: x", "name: x, namespace: y", 1), "f.yaml:3: ClusterStagedUpdateStrategy/x: metadata.namespace: a ClusterStagedUpdateStrategy is cluster-scoped"},
		"metadata":         {strings.Replace(stage("labelSelector: {}"), "name: x", "name: x, lables: {}", 1), "metadata.lables: unknown field"},
		"name":             {strings.Replace(stage("labelSelector: {}"), "name: x", "name: X", 1), `metadata.name: "X": a lowercase RFC 1123 subdomain`},
		"top":              {stage("labelSelector: {}") + "sepc: {}\n", "f.yaml:8: ClusterStagedUpdateStrategy/x: sepc: unknown field; known are apiVersion, kind, metadata, spec, status"},
		"boolean key":      {ns + "a: {on: 1}\n", "Namespace/ns: a: keys must be strings; quote the key"},
		"tab":              {ns + "---\na:\n\tb: c\n", "f.yaml:6: is not YAML"},
		"tag":              {ns + "a: !!binary aGk=\n", "f.yaml:4: Namespace/ns: a: has the YAML tag !!binary"},
		"infinite":         {ns + "a: .inf\n", "Namespace/ns: a: must be a finite number"},
		"huge":             {ns + "a: 18446744073709551615\n", "Namespace/ns: a: does not fit into 64 bits"},
		"alias bomb":       {bomb, "f.yaml:1: the document makes more than 1048576 values"},
		"alias of itself":  {ns + "a: &a [*a]\n", "f.yaml:1: the document holds an alias of something that it is in itself"},
		"deep":             {ns + "a: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "nested deeper than 100 levels"},
		"unknown anchor":   {ns + "a: *b\n", "is not YAML: unknown anchor"},
		"taints":           {"apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: m}\nspec: {taints: [{key: a, effect: NoExecute}, {effect: NoSchedule}]}\n", "f.yaml:4: MemberCluster/m: spec.taints[0].effect: must be NoSchedule, not \"NoExecute\"\nspec.taints[1].key: is required"},
		"cluster's labels": {"apiVersion: cluster.kubernetes-fleet.io/v1\nkind: MemberCluster\nmetadata: {name: m, labels: {a: 1, b: 'x y'}}\n", "f.yaml:3: MemberCluster/m: metadata.labels.a: must be a string\nf.yaml:3: MemberCluster/m: metadata.labels: Invalid"},
	} {
		t.Run(name, func(t *testing.T) { problems(t, tc.text, strings.Split(tc.want, "\n")...) })
	}
}

// T18: a poisoned duration is an error of its document, and stops neither the program nor the other
// documents.
func TestT18PoisonedDurations(t *testing.T) {
	good := strings.ReplaceAll(stage("afterStageTasks: [{type: TimedWait, waitTime: 8760h}]"), "name: x", "name: good")
	for _, wait := range []string{
		"-1h", "0s", "0", "''", "null", "8760h1ns", "9999999h", "2562048h", "99999999999999999999h", "1", "60", "1d", "1m 1s", "PT1M", "[]", "{}", "1e9h", "NaN", "~",
	} {
		t.Run(wait, func(t *testing.T) {
			text := stage("afterStageTasks: [{type: TimedWait, waitTime: " + wait + "}]")
			d, err := kubefleet.Read(strings.NewReader(text+"---\n"+good+"---\na: [\n---\n"+run("placementName: x\nstagedRolloutStrategyName: good")), "f.yaml")
			var p problem.List
			if !errors.As(err, &p) || len(p) != 2 || p[0].Field != "spec.stages[0].afterStageTasks[0].waitTime" || p[0].Line != 7 || p[0].Name != "x" {
				t.Errorf("error = %v, want one about waitTime and one about syntax", err)
			}
			if len(d.Strategies) != 1 || d.Strategies[0].Name != "good" || len(d.Runs) != 1 {
				t.Errorf("read %d strategies and %d runs, want the good ones", len(d.Strategies), len(d.Runs))
			}
		})
	}
}

// Errors repeat no contents of other objects.
func TestProblemsTellNoContents(t *testing.T) {
	_, err := kubefleet.Read(strings.NewReader("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData:\n  a: !x hunter2\n  b: hunter2\n  b: hunter2\n"), "f")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error = %v", err)
	}
}

// A thousand YAML bombs take time in proportion to their size, and do not affect the documents
// after them.
func TestManyBombs(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'z'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 10), ","))
	}
	small := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: n%d}\ndata: &d [b,b,b]\nmore: [" + strings.Repeat("*d,", 25_000) + "]\n"
	var text strings.Builder
	for i := range 1000 {
		text.WriteString(bomb + "---\n")
		if i < 12 {
			fmt.Fprintf(&text, small+"---\n", i)
		}
	}
	text.WriteString(run("placementName: p\nstagedRolloutStrategyName: s"))
	d, err := kubefleet.Read(strings.NewReader(text.String()), "f")
	var p problem.List
	if !errors.As(err, &p) || len(p) < 1000 {
		t.Errorf("%d problems, want one for each bomb", len(p))
	}
	if len(d.Runs) != 1 || len(d.Objects) < 9 || len(d.Objects) == 12 {
		t.Errorf("read %d runs and %d objects, want the run and objects up to the limit", len(d.Runs), len(d.Objects))
	}
}

func TestProblemsAreBounded(t *testing.T) {
	_, err := kubefleet.Read(strings.NewReader(run(strings.Repeat("a: 1\n", 5000)+"placementName: p\nstagedRolloutStrategyName: s")), "f")
	if err == nil || !strings.Contains(err.Error(), "and 4000 problems more") {
		t.Errorf("error = %.2000v, want a count of what is left out", err)
	}
	_, err = kubefleet.Read(strings.NewReader(strings.Repeat("a: [\n---\n", 5000)), "f")
	var p problem.List
	if !errors.As(err, &p) || len(p) != 1001 || !strings.Contains(p[1000].Text, "4000 problems more") {
		t.Errorf("%d problems, want 1000 and a count", len(p))
	}
}

// A problem cuts the text of its input between characters.
func TestProblemsAreText(t *testing.T) {
	name := strings.Repeat("\u00e9", 40) // two bytes each
	for _, pad := range []string{"", "x"} {
		_, err := kubefleet.Read(strings.NewReader(rolledBack(", "+pad+name+": 1")), "s.yaml")
		if err == nil || !strings.Contains(err.Error(), "...") || !utf8.ValidString(err.Error()) {
			t.Errorf("the error is %q", err)
		}
	}
}
