package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// staged is a story of a placement that runs roll out over three members, each with its own API
// server. The first and the third member have env=prod, the second env=canary, and only the third
// has region=west. The tests compare whole statuses, with all fields of KubeFleet's API except
// times and messages.
type staged struct {
	*scenario
	// namespaced reports whether the placement is the ResourcePlacement NAME of the namespace NAME.
	// A ClusterResourcePlacement of that name then brings the namespace to the members. Otherwise
	// the placement is the ClusterResourcePlacement NAME.
	namespaced bool
	// reports reports whether differences are reported and nothing is applied.
	reports bool
	// keeper is a finalizer of the placement that belongs to another client.
	keeper string
	third  *kubeenv.Server
}

// eachScope plays a story once for a ClusterResourcePlacement and once for a ResourcePlacement.
func eachScope(t *testing.T, play func(*staged)) {
	t.Parallel()
	for name, namespaced := range map[string]bool{"cluster": false, "namespace": true} {
		t.Run(name, func(t *testing.T) { play(newStaged(t, namespaced)) })
	}
}

func newStaged(t *testing.T, namespaced bool) *staged {
	s := &staged{scenario: newScenario(t, openKubeFleet018, 0), namespaced: namespaced, keeper: "example.com/keeps"}
	s.third = startServers(t, "proof3")[0]
	if err := prepare(context.WithoutCancel(t.Context()), s.third); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		s.enter(i + 1)
	}
	s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME}, data: {key: old}}`)
	if namespaced {
		s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME, selectionScope: NamespaceOnly}]
  policy: {placementType: PickAll, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {story: NAME}}}]}}}}
  strategy: {type: RollingUpdate, rollingUpdate: {unavailablePeriodSeconds: 2}}`)
		s.namespaced = false // for the ClusterResourcePlacement
		want := s.wanted("0", true, has(1, "0"), has(2, "0"), has(3, "0"))
		want["selectedResources"] = []string{s.own("Namespace /NAME")}
		s.becomes("the namespace to be placed", func() error {
			u, err := s.get("crp/NAME")
			if err != nil {
				return err
			}
			return differ(want, placementShown(u))
		})
		s.namespaced = true
	}
	return s
}

// enter registers member i.
func (s *staged) enter(i int) {
	s.Helper()
	env, region := "prod", "east"
	if i == 2 {
		env = "canary"
	}
	if i == 3 {
		region = "west"
	}
	name := s.nameOf(i)
	s.route.set(name, s.server(i).ConfigFor(memberUser))
	s.apply(`{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: ` + name + `, labels: {story: NAME, env: ` + env + `, region: ` + region + `}}, spec: {}}`)
}

func (s *staged) nameOf(i int) string { return fmt.Sprintf("%s-%d", s.name, i) }

// server returns the API server of member i.
func (s *staged) server(i int) *kubeenv.Server {
	if i == 3 {
		return s.third
	}
	return s.members[i-1]
}

func (s *staged) at(i int) dynamic.Interface { return s.client(s.server(i).Config()) }

// short returns the short kind and the name of an object in the placement's scope. kind is the
// short kind for a ClusterResourcePlacement.
func (s *staged) short(kind, name string) string {
	if !s.namespaced {
		return kind + "/" + name
	}
	return map[string]string{"crp": "rp", "csur": "sur", "careq": "areq", "crs": "rss", "csps": "sps", "csus": "sus"}[kind] + "/NAME/" + name
}

// scoped returns an object with the kind and the metadata for the scope of the placement.
func (s *staged) scoped(kind, name, more string) string {
	if s.namespaced {
		return "{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: " + kind + ", metadata: {namespace: NAME, name: " + name + more + "}"
	}
	if kind != "ResourcePlacement" {
		kind = "Cluster" + kind
	} else {
		kind = "ClusterResourcePlacement"
	}
	return "{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: " + kind + ", metadata: {name: " + name + more + "}"
}

// declare creates the placement; an empty policy means all members of the story.
func (s *staged) declare(policy, strategy string) {
	s.Helper()
	selector := `{group: "", version: v1, kind: Namespace, name: NAME}`
	if s.namespaced {
		selector = `{group: "", version: v1, kind: ConfigMap, name: config}`
	}
	if policy == "" {
		policy = "placementType: PickAll"
	}
	if !strings.Contains(policy, "PickFixed") {
		policy += ", affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {story: NAME}}}]}}}"
	}
	s.apply(s.scoped("ResourcePlacement", "NAME", ", finalizers: ["+s.keeper+"]") + `, spec: {resourceSelectors: [` + selector + `], policy: {` + policy + `}, strategy: {` + strategy + `}}}`)
}

// canaryThenProd is a strategy with two stages. The first has an approval and a wait after it, and
// the second an approval before it.
const canaryThenProd = `stages: [
  {name: canary, labelSelector: {matchLabels: {env: canary}}, afterStageTasks: [{type: Approval}, {type: TimedWait, waitTime: 5s}]},
  {name: prod, labelSelector: {matchLabels: {env: prod}}, beforeStageTasks: [{type: Approval}]}]`

func (s *staged) plan(spec string) {
	s.Helper()
	s.apply(s.scoped("StagedUpdateStrategy", "NAME", "") + ", spec: {" + spec + "}}")
}

// start creates a run with a state; an empty index means none.
func (s *staged) start(run, index, state string) {
	s.Helper()
	if index != "" {
		index = `, resourceSnapshotIndex: "` + index + `"`
	}
	s.apply(s.scoped("StagedUpdateRun", "NAME-"+run, "") + ", spec: {placementName: NAME, stagedRolloutStrategyName: NAME, state: " + state + index + "}}")
}

// write changes the placed ConfigMap.
func (s *staged) write(value string) {
	s.Helper()
	s.patch("cm/NAME/config", `{data: {key: `+value+`}}`)
}

// holds checks that members have a value of the ConfigMap. "" means that they have neither the
// ConfigMap nor, if the placement brings it, its namespace.
func (s *staged) holds(value string, members ...int) func() error {
	return func() error {
		var problems []error
		for _, i := range members {
			problems = append(problems, s.holdsAt(i, value))
		}
		return errors.Join(problems...)
	}
}

func (s *staged) holdsAt(i int, value string) error {
	c := s.at(i)
	if value == "" && !s.namespaced {
		return s.gone(c, "ns/NAME")()
	}
	u, err := s.read(c, "cm/NAME/config")
	if apierrors.IsNotFound(err) && value == "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("member %d: %w", i, err)
	}
	if got, _, _ := unstructured.NestedString(u.Object, "data", "key"); got != value {
		return fmt.Errorf("member %d has %q, want %q", i, got, value)
	}
	if !s.namespaced {
		have, err1 := s.read(c, "ns/NAME")
		want, err2 := s.get("ns/NAME")
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if diff := cmp.Diff(want.GetLabels(), have.GetLabels()); diff != "" {
			return fmt.Errorf("labels of the namespace on member %d: %s", i, diff)
		}
	}
	return nil
}

// promptly is the time limit for steps that KubeFleet takes in ten seconds. It is only logged,
// because the machine may be busy.
const promptly = 10 * time.Second

// becomes waits for a condition, and logs if that takes longer than promptly.
func (s *staged) becomes(what string, try func() error) {
	s.Helper()
	begun := time.Now()
	s.eventually(what, try)
	if took := time.Since(begun); took > promptly {
		s.Logf("%s took %v", what, took)
	}
}

// latest checks that exactly one snapshot object is the latest, and its index.
func (s *staged) latest(kind, label, index string) func() error {
	return func() error {
		items, err := s.labelled(kind, "kubernetes-fleet.io/parent-CRP=NAME,kubernetes-fleet.io/is-latest-snapshot=true")
		if err != nil {
			return err
		}
		if len(items) != 1 || items[0].GetLabels()["kubernetes-fleet.io/"+label] != index {
			return fmt.Errorf("%d objects are the latest, want one of index %s", len(items), index)
		}
		return nil
	}
}

func (s *staged) labelled(kind, selector string) ([]unstructured.Unstructured, error) {
	r, _ := s.on(s.admin, s.short(kind, "any"))
	list, err := r.List(s.Context(), metav1.ListOptions{LabelSelector: s.own(selector)})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// noSnapshot checks that there is no snapshot.
func (s *staged) noSnapshot() error {
	items, err := s.labelled("crs", "kubernetes-fleet.io/parent-CRP=NAME")
	if err == nil && len(items) > 0 {
		err = fmt.Errorf("there are %d snapshots", len(items))
	}
	return err
}

// snapshot waits until the latest snapshot has an index.
func (s *staged) snapshot(index string) {
	s.Helper()
	s.becomes("snapshot "+index, s.latest("crs", "resource-index", index))
}

// decides waits until the latest policy snapshot has an index and picks a number of clusters.
func (s *staged) decides(index string, clusters int) {
	s.Helper()
	s.becomes("the decision", func() error {
		if err := s.latest("csps", "policy-index", index)(); err != nil {
			return err
		}
		items, err := s.labelled("csps", "kubernetes-fleet.io/parent-CRP=NAME,kubernetes-fleet.io/is-latest-snapshot=true")
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(items[0].Object, "status", "conditions")
		if got := conditionsOf(conditions, items[0].GetGeneration()); !slices.Contains(got, "Scheduled=True SchedulingPolicyFulfilled") {
			return fmt.Errorf("the conditions are %q", got)
		}
		decisions, _, _ := unstructured.NestedSlice(items[0].Object, "status", "targetClusters")
		n := 0
		for _, d := range decisions {
			if d.(map[string]any)["selected"] == true {
				n++
			}
		}
		if n != clusters {
			return fmt.Errorf("%d clusters are picked, want %d", n, clusters)
		}
		return nil
	})
}

// answers waits for the one request of a run on a side of a stage and approves it, like KubeFleet's
// users.
func (s *staged) answers(run, side, stage string) {
	s.Helper()
	s.eventually("the request "+side+" "+stage, func() error {
		items, err := s.labelled("careq", "kubernetes-fleet.io/targetUpdateRun=NAME-"+run+",kubernetes-fleet.io/targetUpdatingStage="+stage+",kubernetes-fleet.io/taskType="+side+"Stage")
		if err != nil {
			return err
		}
		if want := s.own("NAME-" + run + "-" + side + "-" + stage); len(items) != 1 || items[0].GetName() != want {
			return fmt.Errorf("there are %d requests, want %s alone", len(items), want)
		}
		answer := map[string]any{
			"type": "Approved", "status": "True", "reason": "lgtm", "message": "",
			"observedGeneration": items[0].GetGeneration(), "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}
		have, _, _ := unstructured.NestedSlice(items[0].Object, "status", "conditions")
		// a client with KubeFleet's types knows no other field
		items[0].Object["status"] = map[string]any{"conditions": append(have, answer)}
		r, _ := s.on(s.admin, s.short("careq", "any"))
		_, err = r.UpdateStatus(s.Context(), &items[0], metav1.UpdateOptions{})
		return err
	})
}

// standing is the expected state of a member in the status of the placement.
type standing struct {
	member int
	index  string
	done   bool
	// cros and ros are the overrides that change an object for it.
	cros, ros []string
}

// waits is a member that no run has reached. waitsAgain is a member with the first snapshot that no
// run has reached since another policy picked it. has is a member that is done.
func waits(member int) standing      { return standing{member: member} }
func waitsAgain(member int) standing { return standing{member: member, index: "0"} }
func has(member int, index string) standing {
	return standing{member: member, index: index, done: true}
}

func (c standing) changedBy(cros, ros []string) standing {
	c.cros, c.ros = cros, ros
	return c
}

// stands waits for the whole status of the placement: the observed index or "", the selected
// objects, whether the placement is rolled out, and its clusters.
func (s *staged) stands(what, index string, done bool, clusters ...standing) {
	s.Helper()
	s.becomes(what, s.isStanding(index, done, clusters...))
}

func (s *staged) isStanding(index string, done bool, clusters ...standing) func() error {
	want := s.wanted(index, done, clusters...)
	return func() error {
		u, err := s.get(s.short("crp", "NAME"))
		if err != nil {
			return err
		}
		return differ(want, placementShown(u))
	}
}

func (s *staged) wanted(index string, done bool, clusters ...standing) map[string]any {
	overridden := slices.ContainsFunc(clusters, func(c standing) bool { return len(c.cros)+len(c.ros) > 0 })
	prefix := "ClusterResourcePlacement"
	if s.namespaced {
		prefix = "ResourcePlacement"
	}
	want := map[string]any{}
	if index != "" {
		selected := []any{"ConfigMap NAME/config"}
		if !s.namespaced {
			selected = append(selected, "Namespace /NAME")
		}
		want["observedResourceIndex"], want["selectedResources"] = index, s.owned(selected)
	}
	conditions := []string{prefix + "RolloutStarted=Unknown RolloutControlledByExternalController", prefix + "Scheduled=True SchedulingPolicyFulfilled"}
	if done {
		conditions = s.rolledOut(prefix, overridden)
	}
	want["conditions"] = conditions
	var standings []any
	for _, c := range clusters {
		standings = append(standings, s.clusterStanding(c))
	}
	want["placementStatuses"] = standings
	return want
}

func (s *staged) owned(texts []any) (out []any) {
	for _, t := range texts {
		out = append(out, s.own(t.(string)))
	}
	return out
}

// rolledOut returns the conditions of a placement that is done or, without a prefix, of a cluster
// that is done.
func (s *staged) rolledOut(prefix string, overridden bool) []string {
	override := "NoOverrideSpecified"
	if overridden {
		override = "OverriddenSucceeded"
	}
	words := map[string]string{
		"Scheduled": "SchedulingPolicyFulfilled", "RolloutStarted": "RolloutStarted", "Overridden": override, "WorkSynchronized": "WorkSynchronized",
		"Applied": "ApplySucceeded", "Available": "ResourceAvailable", "DiffReported": "DiffReportingCompleted",
	}
	if prefix == "" {
		words["Scheduled"], words["WorkSynchronized"] = "Scheduled", "AllWorkSynced"
		words["Applied"], words["Available"], words["DiffReported"] = "AllWorkHaveBeenApplied", "AllWorkAreAvailable", "AllWorkHaveDiffReported"
	}
	if s.reports {
		delete(words, "Applied")
		delete(words, "Available")
	} else {
		delete(words, "DiffReported")
	}
	var out []string
	for kind, reason := range words {
		out = append(out, prefix+kind+"=True "+reason)
	}
	slices.Sort(out)
	return out
}

func (s *staged) clusterStanding(c standing) map[string]any {
	want := map[string]any{"clusterName": s.nameOf(c.member), "conditions": []string{"RolloutStarted=Unknown RolloutStartedUnknown", "Scheduled=True Scheduled"}}
	if c.index != "" {
		want["observedResourceIndex"] = c.index
	}
	if !c.done {
		return want
	}
	want["conditions"] = s.rolledOut("", len(c.cros)+len(c.ros) > 0)
	if len(c.cros) > 0 {
		want["applicableClusterResourceOverrides"] = c.cros
	}
	if len(c.ros) > 0 {
		want["applicableResourceOverrides"] = c.ros
	}
	if s.reports {
		diffs := []any{"ConfigMap NAME/config / (the whole object)"}
		if !s.namespaced {
			diffs = append(diffs, "Namespace /NAME / (the whole object)")
		}
		want["diffedPlacements"] = s.owned(diffs)
	}
	return want
}

// conditionsOf returns conditions without times and messages, sorted. A condition of another
// generation includes the generation.
func conditionsOf(conditions []any, generation int64) (out []string) {
	for _, c := range conditions {
		c := c.(map[string]any)
		text := fmt.Sprintf("%v=%v %v", c["type"], c["status"], c["reason"])
		if c["observedGeneration"] != generation {
			text += fmt.Sprintf(" of generation %v, not %d", c["observedGeneration"], generation)
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// identified returns the name of an object in a status.
func identified(o map[string]any) string {
	text := func(key string) string { t, _ := o[key].(string); return t }
	out := text("kind") + " " + text("namespace") + "/" + text("name")
	if text("version") != "v1" || text("group") != "" || o["envelope"] != nil {
		out += fmt.Sprintf(" of %v %v in %v", o["group"], o["version"], o["envelope"])
	}
	return out
}

// placementShown returns the fields of a placement's status that KubeFleet's API has.
func placementShown(u *unstructured.Unstructured) map[string]any {
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	out := map[string]any{"conditions": conditionsOf(slice(status["conditions"]), u.GetGeneration())}
	if index, _ := status["observedResourceIndex"].(string); index != "" {
		out["observedResourceIndex"] = index
	}
	if selected := slice(status["selectedResources"]); len(selected) > 0 {
		var ids []string
		for _, r := range selected {
			ids = append(ids, identified(r.(map[string]any)))
		}
		slices.Sort(ids)
		out["selectedResources"] = ids
	}
	var clusters []any
	for _, c := range slice(status["placementStatuses"]) {
		clusters = append(clusters, clusterShown(c.(map[string]any), u.GetGeneration()))
	}
	slices.SortFunc(clusters, func(a, b any) int {
		return strings.Compare(fmt.Sprint(a.(map[string]any)["clusterName"]), fmt.Sprint(b.(map[string]any)["clusterName"]))
	})
	out["placementStatuses"] = clusters
	return out
}

func clusterShown(c map[string]any, generation int64) map[string]any {
	out := map[string]any{"conditions": conditionsOf(slice(c["conditions"]), generation)}
	for _, key := range []string{"clusterName", "observedResourceIndex"} {
		if text, _ := c[key].(string); text != "" {
			out[key] = text
		}
	}
	maps.Copy(out, overridesShown(c, "applicableClusterResourceOverrides", "applicableResourceOverrides"))
	for _, key := range []string{"failedPlacements", "driftedPlacements"} {
		if list := slice(c[key]); len(list) > 0 {
			out[key] = list
		}
	}
	var diffs []string
	for _, d := range slice(c["diffedPlacements"]) {
		d := d.(map[string]any)
		text := identified(d)
		for _, o := range slice(d["observedDiffs"]) {
			o := o.(map[string]any)
			text += fmt.Sprintf(" %v %v", o["path"], o["valueInHub"])
			if o["valueInMember"] != nil {
				text += fmt.Sprintf(" and %v there", o["valueInMember"])
			}
		}
		if g := d["targetClusterObservedGeneration"]; g != nil {
			text += fmt.Sprintf(" at %v", g)
		}
		diffs = append(diffs, text)
	}
	if slices.Sort(diffs); len(diffs) > 0 {
		out["diffedPlacements"] = diffs
	}
	return out
}

func overridesShown(c map[string]any, cluster, namespaced string) map[string]any {
	out := map[string]any{}
	if names := slice(c[cluster]); len(names) > 0 {
		out[cluster] = names
	}
	var names []string
	for _, o := range slice(c[namespaced]) {
		o := o.(map[string]any)
		names = append(names, fmt.Sprintf("%v/%v", o["namespace"], o["name"]))
	}
	if len(names) > 0 {
		out[namespaced] = names
	}
	return out
}

func slice(v any) []any { out, _ := v.([]any); return out }

// differ returns an error if the shown and the wanted value differ as JSON.
func differ(want, got map[string]any) error {
	w, err1 := json.Marshal(want)
	g, err2 := json.Marshal(got)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var wanted, shown any
	if err := errors.Join(json.Unmarshal(w, &wanted), json.Unmarshal(g, &shown)); err != nil {
		return err
	}
	if diff := cmp.Diff(wanted, shown); diff != "" {
		return fmt.Errorf("the status is not what is wanted (-want +got):\n%s", diff)
	}
	return nil
}

// outcome is the expected result of a run.
type outcome struct {
	index, policy string
	// stages are the members by stage, and removed the members that are cleaned at the end.
	stages  [][]int
	removed []int
	// cros and ros are the overrides that change an object, by member.
	cros, ros map[int][]string
	// planned reports whether the run should only be initialized.
	planned bool
}

// runStands checks the whole status of a run.
func (s *staged) runStands(run string, o outcome) func() error {
	return func() error {
		u, err := s.get(s.short("csur", "NAME-"+run))
		if err != nil {
			return err
		}
		strategy, err := s.get(s.short("csus", "NAME"))
		if err != nil {
			return err
		}
		return differ(s.runWanted(run, strategy, o), runShown(u))
	}
}

// succeeds waits until a run has the outcome, and logs if that takes longer than within.
func (s *staged) succeeds(run string, within time.Duration, o outcome) {
	s.Helper()
	begun := time.Now()
	s.eventually("run "+run, s.runStands(run, o))
	if took := time.Since(begun); took > within {
		s.Logf("run %s took %v", run, took)
	}
}

func (s *staged) runWanted(run string, strategy *unstructured.Unstructured, o outcome) map[string]any {
	spec, _, _ := unstructured.NestedMap(strategy.Object, "spec")
	kind := "ClientSideApply"
	if s.reports {
		kind = "ReportDiff"
	}
	n := 0
	for _, stage := range o.stages {
		n += len(stage)
	}
	want := map[string]any{
		"policySnapshotIndexUsed": o.policy, "resourceSnapshotIndexUsed": o.index, "policyObservedClusterCount": n,
		"appliedStrategy": map[string]any{
			"type": kind, "comparisonOption": "PartialComparison", "whenToApply": "Always", "whenToTakeOver": "Always",
		},
		"stagedUpdateStrategySnapshot": spec,
		"conditions":                   []string{"Initialized=True UpdateRunInitializedSuccessfully"},
	}
	deletion := map[string]any{"stageName": "kubernetes-fleet.io/deleteStage", "clusters": []any{}}
	for _, i := range o.removed {
		deletion["clusters"] = append(deletion["clusters"].([]any), s.runCluster(i, outcome{planned: o.planned}))
	}
	if !o.planned {
		want["conditions"] = []string{"Initialized=True UpdateRunInitializedSuccessfully", "Progressing=False UpdateRunSucceeded", "Succeeded=True UpdateRunSucceeded"}
		deletion["conditions"] = []string{"Progressing=False StageUpdatingSucceeded", "Succeeded=True StageUpdatingSucceeded"}
	}
	want["deletionStageStatus"] = deletion
	var all []any
	for i, stage := range slice(spec["stages"]) {
		all = append(all, s.runStage(run, stage.(map[string]any), o.stages[i], o))
	}
	want["stagesStatus"] = all
	return want
}

func (s *staged) runStage(run string, stage map[string]any, members []int, o outcome) map[string]any {
	name := stage["name"].(string)
	clusters := []any{}
	for _, i := range members {
		clusters = append(clusters, s.runCluster(i, o))
	}
	want := map[string]any{"stageName": name, "clusters": clusters}
	reason := "StageUpdatingSucceeded"
	if len(members) == 0 {
		reason = "StageUpdatingSkippedNoClusters"
	}
	if !o.planned {
		want["conditions"] = []string{"Progressing=False " + reason, "Succeeded=True " + reason}
	}
	for _, side := range []string{"before", "after"} {
		var tasks []any
		for _, t := range slice(stage[side+"StageTasks"]) {
			task := map[string]any{"type": t.(map[string]any)["type"]}
			done := []string{"WaitTimeElapsed=True AfterStageTaskWaitTimeElapsed"}
			if task["type"] == "Approval" {
				task["approvalRequestName"] = s.own("NAME-" + run + "-" + side + "-" + name)
				done = []string{"ApprovalRequestApproved=True StageTaskApprovalRequestApproved", "ApprovalRequestCreated=True StageTaskApprovalRequestCreated"}
			}
			if !o.planned && len(members) > 0 {
				task["conditions"] = done
			}
			tasks = append(tasks, task)
		}
		if len(tasks) > 0 {
			want[side+"StageTaskStatus"] = tasks
		}
	}
	return want
}

func (s *staged) runCluster(i int, o outcome) map[string]any {
	want := map[string]any{"clusterName": s.nameOf(i)}
	if !o.planned {
		want["conditions"] = []string{"Started=True ClusterUpdatingStarted", "Succeeded=True ClusterUpdatingSucceeded"}
	}
	if names := o.cros[i]; len(names) > 0 {
		want["clusterResourceOverrideSnapshots"] = names
	}
	if names := o.ros[i]; len(names) > 0 {
		want["resourceOverrideSnapshots"] = names
	}
	return want
}

// runShown returns the fields of a run's status that KubeFleet's API has.
func runShown(u *unstructured.Unstructured) map[string]any {
	status, _, _ := unstructured.NestedMap(u.Object, "status")
	out := map[string]any{"conditions": conditionsOf(slice(status["conditions"]), u.GetGeneration())}
	for _, key := range []string{"policySnapshotIndexUsed", "resourceSnapshotIndexUsed", "policyObservedClusterCount", "appliedStrategy", "stagedUpdateStrategySnapshot"} {
		if status[key] != nil {
			out[key] = status[key]
		}
	}
	var all []any
	for _, st := range slice(status["stagesStatus"]) {
		all = append(all, stageShown(st.(map[string]any), u.GetGeneration()))
	}
	out["stagesStatus"] = all
	if st, ok := status["deletionStageStatus"].(map[string]any); ok {
		out["deletionStageStatus"] = stageShown(st, u.GetGeneration())
	}
	return out
}

func stageShown(st map[string]any, generation int64) map[string]any {
	clusters := []any{}
	for _, c := range slice(st["clusters"]) {
		c := c.(map[string]any)
		one := overridesShown(c, "clusterResourceOverrideSnapshots", "resourceOverrideSnapshots")
		one["clusterName"] = c["clusterName"]
		if got := conditionsOf(slice(c["conditions"]), generation); len(got) > 0 {
			one["conditions"] = got
		}
		clusters = append(clusters, one)
	}
	out := map[string]any{"stageName": st["stageName"], "clusters": clusters}
	if got := conditionsOf(slice(st["conditions"]), generation); len(got) > 0 {
		out["conditions"] = got
	}
	for _, side := range []string{"beforeStageTaskStatus", "afterStageTaskStatus"} {
		var tasks []any
		for _, t := range slice(st[side]) {
			t := t.(map[string]any)
			one := map[string]any{"type": t["type"]}
			if name, _ := t["approvalRequestName"].(string); name != "" {
				one["approvalRequestName"] = name
			}
			if got := conditionsOf(slice(t["conditions"]), generation); len(got) > 0 {
				one["conditions"] = got
			}
			tasks = append(tasks, one)
		}
		if len(tasks) > 0 {
			out[side] = tasks
		}
	}
	return out
}

// ends deletes all objects of the story.
func (s *staged) ends(runs ...string) {
	s.Helper()
	s.clears(runs...)
	if s.namespaced {
		s.delete("crp/NAME")
		for i := range 3 {
			s.becomes("the namespace to go", s.gone(s.at(i+1), "ns/NAME"))
		}
	}
}

// clears deletes the placement. Its objects and all of its finalizers except the other client's are
// then removed. After that it deletes the runs with their requests, and the strategy.
func (s *staged) clears(runs ...string) {
	s.Helper()
	placement := s.short("crp", "NAME")
	s.delete(placement)
	s.becomes("what was placed to go", s.holds("", 1, 2, 3))
	s.becomes("the hub to let go of the placement", func() error {
		u, err := s.get(placement)
		if err == nil && !slices.Equal(u.GetFinalizers(), []string{s.keeper}) {
			err = fmt.Errorf("the finalizers are %q", u.GetFinalizers())
		}
		return err
	})
	s.patch(placement, `{metadata: {finalizers: null}}`)
	s.becomes("the placement to go", s.gone(s.admin, placement))
	for _, run := range runs {
		s.delete(s.short("csur", "NAME-"+run))
		s.becomes("run "+run+" to go", func() error {
			items, err := s.labelled("careq", "kubernetes-fleet.io/targetUpdateRun=NAME-"+run)
			if err == nil && len(items) > 0 {
				err = fmt.Errorf("%d requests are there", len(items))
			}
			return errors.Join(err, s.gone(s.admin, s.short("csur", "NAME-"+run))())
		})
	}
	s.delete(s.short("csus", "NAME"))
}
