package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// wholeStatus returns the whole status of a placement, with one line for the placement and one for
// each cluster. It returns an error if a condition is about another generation.
func (s *scenario) wholeStatus(what string) (string, error) {
	u, err := s.get(what)
	if err != nil {
		return "", err
	}
	text := func(m map[string]any, field string) string {
		out, _, _ := unstructured.NestedString(m, field)
		return strings.ReplaceAll(out, s.name, "NAME")
	}
	conditions := func(m map[string]any) (out []string) {
		all, _, _ := unstructured.NestedSlice(m, "conditions")
		for _, c := range all {
			c := c.(map[string]any)
			kind := strings.TrimPrefix(strings.TrimPrefix(text(c, "type"), "ClusterResourcePlacement"), "ResourcePlacement")
			told := kind + "=" + text(c, "status") + " " + text(c, "reason")
			if g, _, _ := unstructured.NestedInt64(c, "observedGeneration"); g != u.GetGeneration() {
				told += fmt.Sprintf(" of generation %d, not %d", g, u.GetGeneration())
			}
			out = append(out, told)
		}
		return out
	}
	named := func(m map[string]any, field string) (out []string) {
		all, _, _ := unstructured.NestedSlice(m, field)
		for _, one := range all {
			switch one := one.(type) {
			case map[string]any:
				out = append(out, strings.TrimSpace(text(one, "kind")+" "+text(one, "namespace")+"/"+text(one, "name")))
			default:
				out = append(out, strings.ReplaceAll(fmt.Sprint(one), s.name, "NAME"))
			}
		}
		return out
	}
	st, _, _ := unstructured.NestedMap(u.Object, "status")
	lines := []string{fmt.Sprintf("%s %v: %s", text(st, "observedResourceIndex"), named(st, "selectedResources"), strings.Join(conditions(st), ", "))}
	clusters, _, _ := unstructured.NestedSlice(st, "placementStatuses")
	for _, c := range clusters {
		c := c.(map[string]any)
		lines = append(lines, fmt.Sprintf("%s at %s, %v %v, failed %v: %s", text(c, "clusterName"), text(c, "observedResourceIndex"),
			named(c, "applicableClusterResourceOverrides"), named(c, "applicableResourceOverrides"), named(c, "failedPlacements"), strings.Join(conditions(c), ", ")))
	}
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n"), nil
}

func (s *scenario) tells(what, want string) func() error {
	return func() error {
		got, err := s.wholeStatus(what)
		if err == nil && got != want {
			err = fmt.Errorf("the status is\n%s\nwant\n%s", got, want)
		}
		return err
	}
}

// available is the whole status of the placement once all clusters have the snapshot with the shown
// index.
func available(index string, clusters int, clusterwide, namespaced string) string {
	const resources = "[Namespace /NAME ConfigMap NAME/config]"
	overridden := "OverriddenSucceeded"
	if clusterwide == "[]" && namespaced == "[]" {
		overridden = "NoOverrideSpecified"
	}
	lines := []string{index + " " + resources + ": Scheduled=True SchedulingPolicyFulfilled, RolloutStarted=True RolloutStarted, Overridden=True " + overridden +
		", WorkSynchronized=True WorkSynchronized, Applied=True ApplySucceeded, Available=True ResourceAvailable"}
	for i := range clusters {
		lines = append(lines, fmt.Sprintf("NAME-%d at %s, %s %s, failed []: Scheduled=True Scheduled, RolloutStarted=True RolloutStarted, Overridden=True %s"+
			", WorkSynchronized=True AllWorkSynced, Applied=True AllWorkHaveBeenApplied, Available=True AllWorkAreAvailable", i+1, index, clusterwide, namespaced, overridden))
	}
	return strings.Join(lines, "\n")
}

// overrideAll creates the override NAME-name of all objects of the placement. A ResourceOverride is
// only about the ConfigMap.
func (s *scenario) overrideAll(kind, name string, rules ...string) {
	s.Helper()
	namespace, selectors := "", `clusterResourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME}]`
	if kind == "ResourceOverride" {
		namespace, selectors = ", namespace: NAME", `resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]`
	}
	s.apply(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ` + kind + `, metadata: {name: NAME-` + name + namespace + `},
  spec: {placement: {name: NAME}, ` + selectors + `, policy: {overrideRules: [` + strings.Join(rules, ", ") + `]}}}`)
}

// onAll is a rule that sets a value on all members. annotate is a rule that annotates objects.
func onAll(path, value string) string {
	return `{clusterSelector: {clusterSelectorTerms: []}, overrideType: JSONPatch, jsonPatchOverrides: [{op: add, path: ` + path + `, value: ` + value + `}]}`
}

func annotate(value string) string {
	return onAll("/metadata/annotations", `{"example.com/o": `+value+`}`)
}

// TestOverridesHaveNoIndex: a change of overrides alone reaches the members, and appears in the
// versions of the overrides. As in KubeFleet, the index of the resources and the object that shows
// them do not change. A change of the resources has the next index.
func TestOverridesHaveNoIndex(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place(rolling)
	s.eventually("everything without an override", s.tells("crp/NAME", available("0", 2, "[]", "[]")))
	uid := func() string {
		u, err := s.get("crs/NAME-0-snapshot")
		if err != nil {
			t.Fatal(err)
		}
		return string(u.GetUID())
	}
	before := uid()
	annotated := func(want string) func() error {
		return func() error {
			for i := range 2 {
				u, err := s.read(s.member(i+1), "cm/NAME/config")
				if err != nil {
					return err
				}
				if got := u.GetAnnotations()["example.com/o"]; got != want {
					return fmt.Errorf("member %d has %q, want %q", i+1, got, want)
				}
			}
			return nil
		}
	}
	s.overrideAll("ResourceOverride", "o", annotate("first"))
	s.eventually("the override", s.tells("crp/NAME", available("0", 2, "[]", "[NAME/NAME-o-0]")))
	if err := annotated("first")(); err != nil {
		t.Error(err) // the status reports that it is there
	}
	s.overrideAll("ResourceOverride", "o", annotate("second"))
	s.eventually("the next version", s.tells("crp/NAME", available("0", 2, "[]", "[NAME/NAME-o-1]")))
	if err := annotated("second")(); err != nil {
		t.Error(err)
	}
	s.overrideAll("ResourceOverride", "o", annotate("second"), `{clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {none: none}}}]}, overrideType: Delete}`)
	s.eventually("a version that changes nothing", s.tells("crp/NAME", available("0", 2, "[]", "[NAME/NAME-o-2]")))
	s.overrideAll("ClusterResourceOverride", "c", annotate("third"))
	s.eventually("both kinds", s.tells("crp/NAME", available("0", 2, "[NAME-c-0]", "[NAME/NAME-o-2]")))
	if err := annotated("second")(); err != nil {
		t.Errorf("the ResourceOverride wins: %v", err)
	}
	s.delete("ro/NAME/NAME-o")
	s.eventually("the other one alone", s.tells("crp/NAME", available("0", 2, "[NAME-c-0]", "[]")))
	if err := annotated("third")(); err != nil {
		t.Error(err)
	}
	s.delete("cro/NAME-c")
	s.eventually("none", s.tells("crp/NAME", available("0", 2, "[]", "[]")))
	if err := annotated("")(); err != nil {
		t.Error(err)
	}
	if after := uid(); after != before {
		t.Errorf("the object that shows the resources was made again: %s, before %s", after, before)
	}
	s.snapshots("0")
	s.put("v2")
	s.eventually("the next index", s.tells("crp/NAME", available("1", 2, "[]", "[]")))
	s.snapshots("0", "1")
}

// TestBrokenOverridesAffectFewClusters: an update with overrides that cannot be carried out begins
// with as many clusters as are updated at a time. They report the reason, and nothing changes on
// any member. Without these overrides everything is as before.
func TestBrokenOverridesAffectFewClusters(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 50%, unavailablePeriodSeconds: 1}")
	s.eventually("everything", s.tells("crp/NAME", available("0", 2, "[]", "[]")))
	const resources = "0 [Namespace /NAME ConfigMap NAME/config]: Scheduled=True SchedulingPolicyFulfilled, "
	s.overrideAll("ResourceOverride", "o", onAll("/data/x", `"${MEMBER-CLUSTER-LABEL-KEY-none}"`))
	s.eventually("one cluster to fail", func() error {
		got, err := s.wholeStatus("crp/NAME")
		lines := strings.Split(got, "\n")
		if err == nil && (lines[0] != resources+"RolloutStarted=False RolloutNotStartedYet" || strings.Count(got, "Overridden=False OverriddenFailed") != 1) {
			err = fmt.Errorf("the status is\n%s", got)
		}
		return err
	})
	s.patch("crp/NAME", `{spec: {strategy: {rollingUpdate: {maxUnavailable: 100%}}}}`)
	failing := func(version int, more, clusters string) string {
		lines := []string{resources + "RolloutStarted=True RolloutStarted, " + more}
		for i := range 2 {
			lines = append(lines, fmt.Sprintf("NAME-%d at 0, [] [NAME/NAME-o-%d], failed []: Scheduled=True Scheduled, RolloutStarted=True RolloutStarted, %s", i+1, version, clusters))
		}
		return strings.Join(lines, "\n")
	}
	s.eventually("all to fail", s.tells("crp/NAME", failing(0, "Overridden=False OverriddenFailed", "Overridden=False OverriddenFailed")))
	s.overrideAll("ResourceOverride", "o", onAll("/metadata/annotations", "text"))
	s.eventually("what it makes not to be valid", s.tells("crp/NAME", failing(1,
		"Overridden=True OverriddenSucceeded, WorkSynchronized=False WorkNotSynchronizedYet", "Overridden=True OverriddenSucceeded, WorkSynchronized=False SyncWorkFailed")))
	s.stays("the members have what they had", time.Second, func() error {
		for i := range 2 {
			if err := s.has(i+1, "config", "v1")(); err != nil {
				return err
			}
		}
		return nil
	})
	s.delete("ro/NAME/NAME-o")
	s.eventually("everything again", s.tells("crp/NAME", available("0", 2, "[]", "[]")))
}

// TestARunOfAnIndexBringsTheLastOverridesOfIt: under External, too, overrides have no index. A run
// takes the current overrides. A run with an index takes the last overrides that were shown with
// that index, and a run with an unknown index is refused.
func TestARunOfAnIndexBringsTheLastOverridesOfIt(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: External")
	s.strategy("")
	s.scheduled()
	s.completes("a", "", "0")
	s.override("ResourceOverride", "o", "resourceSelectors", "config", "s1", "/data/b", `"1"`)
	s.eventually("the first version", s.latestVersion(0))
	s.completes("b", "", "0")
	s.eventually("the override on the member", func() error {
		u, err := s.read(s.member(1), "cm/NAME/config")
		if got, _, _ := unstructured.NestedString(u.Object, "data", "b"); err == nil && got != "1" {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
	s.eventually("the status", s.tells("crp/NAME", available("0", 1, "[]", "[NAME/NAME-o-0]")))
	s.put("v2")
	s.completes("c", "", "1")
	s.run("d", `resourceSnapshotIndex: "2"`)
	s.comes("csur/NAME-d", "Initialized", "False", "snapshot")
	s.completes("e", `resourceSnapshotIndex: "0"`, "0")
	u, err := s.read(s.member(1), "cm/NAME/config")
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedStringMap(u.Object, "data"); got["key"] != "v1" || got["b"] != "1" {
		t.Errorf("it is %v", got)
	}
	list, err := s.admin.Resource(s.resourceOf("crs")).List(t.Context(), metav1.ListOptions{LabelSelector: s.own("kubernetes-fleet.io/parent-CRP=NAME,kubernetes-fleet.io/is-latest-snapshot=true")})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != s.name+"-1-snapshot" {
		t.Errorf("the latest are %v, %v", list, err)
	}
}
