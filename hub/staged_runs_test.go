package hub_test

import (
	"errors"
	"testing"
	"time"
)

// settled is how long a state must not change.
const settled = 2 * time.Second

// minute is the time limit for a run after its last approval, and parallel for a run of one round.
const (
	minute   = time.Minute
	parallel = 20 * time.Second
)

// begins checks a placement without a run: clusters are picked, no snapshot is taken and nothing is
// brought.
func (s *staged) begins(clusters ...standing) {
	s.Helper()
	s.stays("nothing is brought", settled, s.holds("", 1, 2, 3))
	s.stays("nothing is taken", settled, s.noSnapshot)
	s.decides("0", len(clusters))
	s.stands("a placement without a run", "", false, clusters...)
}

// TestStagedRunsPlaceTheSelectedObjects: two runs without an index each take the objects that are
// selected when they begin, and a run of the first index brings these objects back.
func TestStagedRunsPlaceTheSelectedObjects(t *testing.T) {
	eachScope(t, func(s *staged) {
		s.declare("", "type: External")
		s.plan(canaryThenProd)
		s.begins(waits(1), waits(2), waits(3))
		all := [][]int{{2}, {1, 3}}

		s.start("0", "", "Run")
		s.snapshot("0")
		s.eventually("the canary", s.holds("old", 2))
		s.stays("prod waits", settled, s.holds("", 1, 3))
		s.stands("the canary is done", "", false, waits(1), has(2, "0"), waits(3))
		s.answers("0", "after", "canary")
		s.stays("prod waits for its approval", settled, s.holds("", 1, 3))
		s.answers("0", "before", "prod")
		s.succeeds("0", minute, outcome{index: "0", policy: "0", stages: all})
		s.eventually("all", s.holds("old", 1, 2, 3))
		s.stands("all is done", "0", true, has(1, "0"), has(2, "0"), has(3, "0"))

		s.write("new")
		s.stays("a change waits for a run", settled, func() error {
			return errors.Join(s.holds("old", 1, 2, 3)(), s.isStanding("0", true, has(1, "0"), has(2, "0"), has(3, "0"))(), s.latest("crs", "resource-index", "0")())
		})
		s.start("1", "", "Run")
		s.snapshot("1")
		s.eventually("the canary", s.holds("new", 2))
		s.stays("prod waits", settled, s.holds("old", 1, 3))
		s.stands("the canary is ahead", "", false, has(1, "0"), has(2, "1"), has(3, "0"))
		s.answers("1", "after", "canary")
		s.stays("prod waits for its approval", settled, s.holds("old", 1, 3))
		s.answers("1", "before", "prod")
		s.succeeds("1", minute, outcome{index: "1", policy: "0", stages: all})
		s.stands("all is done", "1", true, has(1, "1"), has(2, "1"), has(3, "1"))

		s.start("2", "0", "Run")
		s.eventually("the canary is back", s.holds("old", 2))
		s.stands("the canary is behind", "", false, has(1, "1"), has(2, "0"), has(3, "1"))
		s.answers("2", "after", "canary")
		s.answers("2", "before", "prod")
		s.succeeds("2", minute, outcome{index: "0", policy: "0", stages: all})
		s.eventually("all are back", s.holds("old", 1, 2, 3))
		s.stands("all is back", "0", true, has(1, "0"), has(2, "0"), has(3, "0"))
		s.ends("0", "1", "2")
	})
}

// TestStagedRunsFollowNamedClusters: clusters that a new policy names wait for a run with that
// policy. Clusters that it no longer names are cleaned by that run, last.
func TestStagedRunsFollowNamedClusters(t *testing.T) {
	eachScope(t, func(s *staged) {
		s.declare("placementType: PickFixed, clusterNames: [NAME-1, NAME-2]", "type: External")
		s.plan(canaryThenProd)
		s.begins(waits(1), waits(2))

		s.start("0", "", "Run")
		s.snapshot("0")
		s.stands("the canary is done", "", false, waits(1), has(2, "0"))
		s.answers("0", "after", "canary")
		s.answers("0", "before", "prod")
		s.succeeds("0", minute, outcome{index: "0", policy: "0", stages: [][]int{{2}, {1}}})
		s.stays("the third is not named", settled, s.holds("", 3))
		s.stands("both are done", "0", true, has(1, "0"), has(2, "0"))

		s.patch(s.short("crp", "NAME"), `{spec: {policy: {clusterNames: [NAME-1, NAME-2, NAME-3]}}}`)
		s.decides("1", 3)
		s.stands("another policy", "", false, waitsAgain(1), waitsAgain(2), waits(3))
		s.start("1", "0", "Run")
		s.stands("the canary is done", "", false, waitsAgain(1), has(2, "0"), waits(3))
		s.stays("the third waits", settled, s.holds("", 3))
		s.answers("1", "after", "canary")
		s.answers("1", "before", "prod")
		s.succeeds("1", minute, outcome{index: "0", policy: "1", stages: [][]int{{2}, {1, 3}}})
		s.stands("all are done", "0", true, has(1, "0"), has(2, "0"), has(3, "0"))

		s.patch(s.short("crp", "NAME"), `{spec: {policy: {clusterNames: [NAME-3]}}}`)
		s.decides("2", 1)
		s.stands("the third alone", "0", false, waitsAgain(3))
		s.start("2", "0", "Run")
		s.stays("nothing is removed", settled, s.holds("old", 1, 2, 3))
		s.stays("the third waits", settled, s.isStanding("0", false, waitsAgain(3)))
		s.answers("2", "before", "prod")
		s.succeeds("2", 2*minute, outcome{index: "0", policy: "2", stages: [][]int{{}, {3}}, removed: []int{1, 2}})
		s.becomes("the others are cleaned", s.holds("", 1, 2))
		s.stays("the third has it", settled, s.holds("old", 3))
		s.stands("the third is done", "0", true, has(3, "0"))
		s.ends("0", "1", "2")
	})
}

// TestStagedRunsFollowTheNumberOfClusters: a change of the number of clusters makes no new policy,
// so the clusters of a run stay done.
func TestStagedRunsFollowTheNumberOfClusters(t *testing.T) {
	eachScope(t, func(s *staged) {
		s.declare("placementType: PickN, numberOfClusters: 1", "type: External")
		s.plan(canaryThenProd)
		s.begins(waits(3))

		s.start("0", "", "Run")
		s.snapshot("0")
		s.stays("the canary is skipped", settled, s.holds("", 1, 2, 3))
		s.stands("it waits", "", false, waits(3))
		s.answers("0", "before", "prod")
		s.succeeds("0", minute, outcome{index: "0", policy: "0", stages: [][]int{{}, {3}}})
		s.stands("the third is done", "0", true, has(3, "0"))

		s.patch(s.short("crp", "NAME"), `{spec: {policy: {numberOfClusters: 3}}}`)
		s.decides("0", 3)
		s.stands("two more", "", false, waits(1), waits(2), has(3, "0"))
		s.start("1", "0", "Run")
		s.stands("the canary is done", "", false, waits(1), has(2, "0"), has(3, "0"))
		s.answers("1", "after", "canary")
		s.stays("the first waits", settled, s.holds("", 1))
		s.answers("1", "before", "prod")
		s.succeeds("1", minute, outcome{index: "0", policy: "0", stages: [][]int{{2}, {1, 3}}})
		s.stands("all are done", "0", true, has(1, "0"), has(2, "0"), has(3, "0"))

		s.patch(s.short("crp", "NAME"), `{spec: {policy: {numberOfClusters: 2}}}`)
		s.decides("0", 2)
		s.stands("one less", "0", true, has(2, "0"), has(3, "0"))
		s.start("2", "0", "Run")
		s.stays("nothing is removed", settled, func() error {
			return errors.Join(s.holds("old", 1, 2, 3)(), s.isStanding("0", true, has(2, "0"), has(3, "0"))())
		})
		s.answers("2", "after", "canary")
		s.stays("nothing is removed before the approval", settled, s.holds("old", 1, 2, 3))
		s.answers("2", "before", "prod")
		s.succeeds("2", 2*minute, outcome{index: "0", policy: "0", stages: [][]int{{2}, {3}}, removed: []int{1}})
		s.becomes("the first is cleaned", s.holds("", 1))
		s.stands("two are done", "0", true, has(2, "0"), has(3, "0"))
		s.ends("0", "1", "2")
	})
}

// TestStagedRunsWithOverrides: runs and placements name the snapshots of the overrides on the
// clusters that they change.
func TestStagedRunsWithOverrides(t *testing.T) {
	eachScope(t, func(s *staged) {
		cros, ros := map[int][]string{}, map[int][]string{2: {s.own("NAME/ro-0")}}
		terms := "{labelSelector: {matchLabels: {region: east, env: canary}}}"
		if s.namespaced {
			terms += ", {labelSelector: {matchLabels: {region: east, env: prod}}}"
			ros[1] = ros[2]
		} else {
			cros[1] = []string{s.own("NAME-0")}
			s.apply(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourceOverride, metadata: {name: NAME}, spec: {
  clusterResourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME}],
  policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {region: east, env: prod}}}]},
    jsonPatchOverrides: [{op: add, path: /metadata/annotations, value: {of: cluster}}]}]}}}`)
		}
		s.apply(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ResourceOverride, metadata: {name: ro, namespace: NAME}, spec: {
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}],
  policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: [` + terms + `]},
    jsonPatchOverrides: [{op: add, path: /metadata/annotations, value: {of: namespace}}]}]}}}`)
		s.declare("placementType: PickAll", "type: External")
		s.plan(canaryThenProd)
		s.begins(waits(1), waits(2), waits(3))

		s.start("0", "", "Run")
		s.snapshot("0")
		s.stands("the canary is done", "", false, waits(1), has(2, "0").changedBy(nil, ros[2]), waits(3))
		s.answers("0", "after", "canary")
		s.answers("0", "before", "prod")
		s.succeeds("0", minute, outcome{index: "0", policy: "0", stages: [][]int{{2}, {1, 3}}, cros: cros, ros: ros})
		s.stands("all are done", "0", true, has(1, "0").changedBy(cros[1], ros[1]), has(2, "0").changedBy(nil, ros[2]), has(3, "0"))
		for i, want := range map[int]string{1: map[bool]string{false: "cluster", true: "namespace"}[s.namespaced], 2: "namespace", 3: ""} {
			u, err := s.read(s.at(i), "cm/NAME/config")
			if err != nil {
				s.Fatal(err)
			}
			if got := u.GetAnnotations()["of"]; got != want {
				s.Errorf("the annotation on member %d is %q, want %q", i, got, want)
			}
		}
		s.ends("0")
	})
}

// TestStagedRunsThatReportDifferences: a run under ReportDiff reaches the clusters stage by stage,
// and brings nothing.
func TestStagedRunsThatReportDifferences(t *testing.T) {
	eachScope(t, func(s *staged) {
		s.reports = true
		s.declare("placementType: PickAll", "type: External, applyStrategy: {type: ReportDiff, comparisonOption: PartialComparison, whenToApply: Always, whenToTakeOver: Always}")
		s.plan(canaryThenProd)
		s.begins(waits(1), waits(2), waits(3))

		s.start("0", "", "Run")
		s.snapshot("0")
		s.stands("the canary is reported", "", false, waits(1), has(2, "0"), waits(3))
		s.answers("0", "after", "canary")
		s.answers("0", "before", "prod")
		s.succeeds("0", minute, outcome{index: "0", policy: "0", stages: [][]int{{2}, {1, 3}}})
		s.stands("all are reported", "0", true, has(1, "0"), has(2, "0"), has(3, "0"))
		s.stays("nothing is brought", settled, s.holds("", 1, 2, 3))
		s.ends("0")
	})
}

// TestStagedRunsAfterARollingUpdate: a placement that becomes External does not change until a run.
func TestStagedRunsAfterARollingUpdate(t *testing.T) {
	eachScope(t, func(s *staged) {
		s.declare("", "type: RollingUpdate")
		s.plan(canaryThenProd)
		s.stands("a rolling update", "0", true, has(1, "0"), has(2, "0"), has(3, "0"))
		s.patch(s.short("crp", "NAME"), `{spec: {strategy: {type: External, rollingUpdate: null, applyStrategy: null}}}`)
		s.stands("it became External", "0", true, has(1, "0"), has(2, "0"), has(3, "0"))
		s.write("new")
		s.stays("a change waits for a run", settled, func() error {
			return errors.Join(s.holds("old", 1, 2, 3)(), s.isStanding("0", true, has(1, "0"), has(2, "0"), has(3, "0"))(), s.latest("crs", "resource-index", "0")())
		})
		s.start("0", "", "Run")
		s.eventually("the canary", s.holds("new", 2))
		s.answers("0", "after", "canary")
		s.answers("0", "before", "prod")
		s.succeeds("0", minute, outcome{index: "1", policy: "0", stages: [][]int{{2}, {1, 3}}})
		s.stands("all are done", "1", true, has(1, "1"), has(2, "1"), has(3, "1"))
		s.ends("0")
	})
}

// TestStagedRunsInParallel: one stage takes all clusters at once, and another one takes two of
// three. Placement and run have the names of deleted ones.
func TestStagedRunsInParallel(t *testing.T) {
	eachScope(t, func(s *staged) {
		for i, most := range []string{"3", `"70%"`} {
			s.declare("", "type: External")
			s.plan("stages: [{name: parallel, labelSelector: {}, maxConcurrency: " + most + "}]")
			s.begins(waits(1), waits(2), waits(3))
			s.start("0", "", "Run")
			s.snapshot("0")
			s.succeeds("0", time.Duration(i+1)*parallel, outcome{index: "0", policy: "0", stages: [][]int{{1, 2, 3}}})
			s.stands("all are done", "0", true, has(1, "0"), has(2, "0"), has(3, "0"))
			s.clears("0")
		}
	})
}

// TestStagedRunsThroughTheirStates: a run is initialized, started, stopped and started again until
// its end. While it is stopped, an approval is given.
func TestStagedRunsThroughTheirStates(t *testing.T) {
	eachScope(t, func(s *staged) {
		s.declare("", "type: External")
		s.plan(canaryThenProd)
		s.begins(waits(1), waits(2), waits(3))
		all := [][]int{{2}, {1, 3}}

		s.start("0", "", "Initialize")
		s.snapshot("0")
		s.becomes("it is initialized", s.runStands("0", outcome{index: "0", policy: "0", stages: all, planned: true}))
		s.stays("nothing is brought", settled, func() error {
			return errors.Join(s.holds("", 1, 2, 3)(), s.runStands("0", outcome{index: "0", policy: "0", stages: all, planned: true})())
		})
		s.patch(s.short("csur", "NAME-0"), `{spec: {state: Run}}`)
		s.eventually("the canary", s.holds("old", 2))
		s.stands("the canary is done", "", false, waits(1), has(2, "0"), waits(3))
		s.answers("0", "after", "canary")
		s.eventually("the request before prod", func() error { _, err := s.get(s.short("careq", "NAME-0-before-prod")); return err })
		s.patch(s.short("csur", "NAME-0"), `{spec: {state: Stop}}`)
		s.stays("prod waits", settled, s.holds("", 1, 3))
		s.stands("the canary is done", "", false, waits(1), has(2, "0"), waits(3))
		s.answers("0", "before", "prod")
		s.stays("prod waits", settled, s.holds("", 1, 3))
		s.patch(s.short("csur", "NAME-0"), `{spec: {state: Run}}`)
		s.eventually("all", s.holds("old", 1, 2, 3))
		s.succeeds("0", minute, outcome{index: "0", policy: "0", stages: all})
		s.stands("all are done", "0", true, has(1, "0"), has(2, "0"), has(3, "0"))
		s.ends("0")
	})
}

// left declares a placement, rolls it out to all members, and then removes the first member from
// the fleet.
func (s *staged) left() {
	s.Helper()
	s.declare("placementType: PickAll", "type: External, applyStrategy: {comparisonOption: PartialComparison, whenToApply: Always, type: ClientSideApply, whenToTakeOver: Always}")
	s.plan("stages: [{name: all, labelSelector: {}}]")
	s.decides("0", 3)
	s.start("0", "", "Run")
	s.snapshot("0")
	s.succeeds("0", minute, outcome{index: "0", policy: "0", stages: [][]int{{1, 2, 3}}})
	s.stands("all are done", "0", true, has(1, "0"), has(2, "0"), has(3, "0"))
	s.delete("mc/NAME-1")
	s.becomes("the first to have left", s.gone(s.admin, "mc/NAME-1"))
	s.stands("two are left", "0", true, has(2, "0"), has(3, "0"))
	s.stays("what it has it keeps", settled, s.holds("old", 1))
}

// TestStagedRunsWithoutAClusterThatLeft: its binding is Unscheduled until a run, which cleans
// nothing on the cluster.
func TestStagedRunsWithoutAClusterThatLeft(t *testing.T) {
	s := newStaged(t, false)
	s.mayWarn(`msg="left behind"`) // at its end, of the cluster
	s.left()
	s.becomes("the bindings", s.isBound("1 Unscheduled", "2 Bound", "3 Bound"))
	s.decides("0", 2)
	s.start("1", "0", "Run")
	s.succeeds("1", minute, outcome{index: "0", policy: "0", stages: [][]int{{2, 3}}, removed: []int{1}})
	s.stands("two are done", "0", true, has(2, "0"), has(3, "0"))
	s.becomes("the bindings", s.isBound("2 Bound", "3 Bound"))
	s.stays("it keeps what it has", settled, s.holds("old", 1, 2, 3))
	s.deleteOn(s.at(1), "ns/NAME")
	s.ends("0", "1")
}

// TestStagedRunsWithAClusterThatCameBack: the cluster is picked again, and a run brings it the
// content, whatever the cluster has kept.
func TestStagedRunsWithAClusterThatCameBack(t *testing.T) {
	for name, meanwhile := range map[string]func(*staged) (index, value string){
		"unchanged": func(*staged) (string, string) { return "0", "old" },
		"changed":   func(s *staged) (string, string) { s.write("new"); return "", "new" },
		"emptied": func(s *staged) (string, string) {
			s.deleteOn(s.at(1), "ns/NAME")
			s.becomes("it is empty", s.holds("", 1))
			return "0", "old"
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStaged(t, false)
			s.left()
			index, value := meanwhile(s)
			s.enter(1)
			s.decides("0", 3)
			s.start("1", index, "Run")
			brought := "0"
			if index == "" {
				brought = "1"
			}
			s.snapshot(brought)
			s.succeeds("1", minute, outcome{index: brought, policy: "0", stages: [][]int{{1, 2, 3}}})
			s.stands("all are done", brought, true, has(1, brought), has(2, brought), has(3, brought))
			s.eventually("all have it", s.holds(value, 1, 2, 3))
			s.becomes("the bindings", s.isBound("1 Bound", "2 Bound", "3 Bound"))
			s.ends("0", "1")
		})
	}
}
