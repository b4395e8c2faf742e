package manifests_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/manifests"
)

func crds(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return crdsOf(t, compat.Default)
}

// crdsOf returns the definitions of a compatibility setting.
func crdsOf(t *testing.T, setting compat.Setting) []*unstructured.Unstructured {
	t.Helper()
	all, err := manifests.CRDs(setting)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBothVersionsAreTheSameAndNothingIsConverted(t *testing.T) {
	for _, crd := range crds(t) {
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if len(versions) != 2 {
			t.Fatalf("%s has %d versions, want 2", crd.GetName(), len(versions))
		}
		v1, v1beta1 := versions[0].(map[string]any), versions[1].(map[string]any)
		if v1["name"] != "v1" || v1beta1["name"] != "v1beta1" || v1beta1["storage"] != true {
			t.Errorf("%s: versions %v and %v, storage %v, want v1 and v1beta1, which is stored", crd.GetName(), v1["name"], v1beta1["name"], v1beta1["storage"])
		}
		for _, differs := range []string{"name", "storage", "served"} {
			delete(v1, differs)
			delete(v1beta1, differs)
		}
		if diff := cmp.Diff(v1, v1beta1); diff != "" {
			t.Errorf("%s: the versions differ:\n%s", crd.GetName(), diff)
		}
		if s, _, _ := unstructured.NestedString(crd.Object, "spec", "conversion", "strategy"); s != "None" {
			t.Errorf("%s: conversion %q, want None", crd.GetName(), s)
		}
	}
}

// The definitions of the two compatibility settings differ only in the parts that docs/hub.md
// lists.
func TestTheSettingsDifferInNothingElse(t *testing.T) {
	const spec = "spec.versions[%d].schema.openAPIV3Schema.properties.spec.properties.state.%s"
	runs := []string{"metadata.labels.slipway.dev/compatibility", "spec.versions[0].served"}
	for i := range 2 {
		runs = append(runs, fmt.Sprintf(spec, i, "default"), fmt.Sprintf(spec, i, "description"))
	}
	slices.Sort(runs)
	others := []string{"metadata.labels.slipway.dev/compatibility", "spec.versions[0].served"}
	want := map[string][]string{"clusterstagedupdateruns": runs, "stagedupdateruns": runs}
	for _, plural := range []string{"clusterstagedupdatestrategies", "stagedupdatestrategies", "clusterapprovalrequests", "approvalrequests"} {
		want[plural] = others
	}
	kubeFleet, got := crdsOf(t, compat.KubeFleet018), map[string][]string{}
	for i, crd := range crds(t) {
		var paths []string
		differences(crd.Object, kubeFleet[i].Object, "", &paths)
		if len(paths) > 0 {
			slices.Sort(paths)
			plural, _, _ := strings.Cut(crd.GetName(), ".")
			got[plural] = paths
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// differences adds the paths of the differences between two trees.
func differences(a, b any, at string, into *[]string) {
	x, isMap := a.(map[string]any)
	y, alsoMap := b.(map[string]any)
	if isMap && alsoMap {
		for _, key := range slices.Sorted(maps.Keys(x)) {
			differences(x[key], y[key], strings.TrimPrefix(at+"."+key, "."), into)
		}
		for key := range y {
			if _, ok := x[key]; !ok {
				*into = append(*into, strings.TrimPrefix(at+"."+key, "."))
			}
		}
		return
	}
	v, isList := a.([]any)
	w, alsoList := b.([]any)
	if isList && alsoList && len(v) == len(w) {
		for i := range v {
			differences(v[i], w[i], fmt.Sprintf("%s[%d]", at, i), into)
		}
		return
	}
	if !cmp.Equal(a, b) {
		*into = append(*into, at)
	}
}

// The served kinds, with scope and short names.
func TestTheKindsOfTheAPI(t *testing.T) {
	var got []string
	for _, crd := range crds(t) {
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		scope, _, _ := unstructured.NestedString(crd.Object, "spec", "scope")
		short, _, _ := unstructured.NestedStringSlice(crd.Object, "spec", "names", "shortNames")
		got = append(got, strings.TrimSpace(kind+" "+scope+" "+strings.Join(short, ",")))
	}
	slices.Sort(got)
	want := []string{
		"ApprovalRequest Namespaced areq", "ClusterApprovalRequest Cluster careq",
		"ClusterResourceBinding Cluster crb", "ClusterResourceEnvelope Cluster",
		"ClusterResourceOverride Cluster cro", "ClusterResourceOverrideSnapshot Cluster cros", "ClusterResourcePlacement Cluster crp",
		"ClusterResourcePlacementDisruptionBudget Cluster crpdb", "ClusterResourcePlacementEviction Cluster crpe",
		"ClusterResourcePlacementStatus Namespaced crps",
		"ClusterResourceSnapshot Cluster crs", "ClusterSchedulingPolicySnapshot Cluster csps",
		"ClusterStagedUpdateRun Cluster csur", "ClusterStagedUpdateStrategy Cluster csus", "MemberCluster Cluster cluster",
		"ResourceEnvelope Namespaced",
		"ResourceOverride Namespaced ro", "ResourceOverrideSnapshot Namespaced ros", "ResourcePlacement Namespaced rp", "ResourceSnapshot Namespaced rss",
		"SchedulingPolicySnapshot Namespaced sps", "StagedUpdateRun Namespaced sur", "StagedUpdateStrategy Namespaced sus",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The fields without a schema.
func TestFieldsWithoutASchema(t *testing.T) {
	open := map[string]bool{}
	for _, crd := range crds(t) {
		walk(crd.Object, "", func(at string, s map[string]any) {
			if s["x-kubernetes-preserve-unknown-fields"] == true {
				_, field, _ := strings.Cut(at, "openAPIV3Schema.")
				open[strings.ReplaceAll(field, "properties.", "")] = true
			}
		})
	}
	want := []string{
		"data.additionalProperties", "spec.overrideSpec.policy.overrideRules.items.jsonPatchOverrides.items.value",
		"spec.policy.overrideRules.items.jsonPatchOverrides.items.value", "spec.selectedResources.items",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(open))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The tests see a refusal with the message of every rule.
func TestEveryRuleIsShownToAServer(t *testing.T) {
	seen := refusals(t)
	for _, crd := range crds(t) {
		walk(crd.Object, "", func(at string, s map[string]any) {
			rules, _ := s["x-kubernetes-validations"].([]any)
			for _, r := range rules {
				message, _ := r.(map[string]any)["message"].(string)
				if !strings.Contains(seen, message) && !slices.ContainsFunc(strings.Split(seen, "\n"), func(part string) bool {
					return len(part) > 20 && strings.Contains(message, part)
				}) {
					t.Errorf("%s: %s: no test sees %q", crd.GetName(), at, message)
				}
			}
		})
	}
}

// refusals returns the refusals in the cases of rules, and the text of the tests of approvals.
func refusals(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, path := range ruleFiles(t) {
		var f ruleFile
		readYAML(t, path, &f)
		for _, c := range f.Cases {
			fmt.Fprintln(&all, c.Refused)
		}
	}
	answers, err := os.ReadFile("answers_test.go")
	if err != nil {
		t.Fatal(err)
	}
	return all.String() + string(answers)
}

// walk calls f for every object of a tree.
func walk(v any, at string, f func(at string, s map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		f(at, v)
		for key, child := range v {
			walk(child, strings.TrimPrefix(at+"."+key, "."), f)
		}
	case []any:
		for _, child := range v {
			walk(child, at, f)
		}
	}
}
