package scenario_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

const rolledBackScenario = `
clusters: [{name: c1, had: v3}, {name: c2, new: true}]
count: {prefix: d, n: 2, had: v4}
strategy: {stages: [{name: all, labelSelector: {}}]}
take: 10s
rollback: {causes: [Command], newClusters: Leave, approval: {quorums: [{group: sre, count: 2}], expires: 1h}}
faults:
- {cluster: c1, fail: always}
- {cluster: c1, unreachable: [1m, 2m]}
- {cluster: c1, take: 1m, during: rollback}
- {cluster: d2, fail: 1, during: rollback}
commands: [{at: 1m, do: rollback, by: ann, reason: slow}]
`

// The rollback of a scenario is in the strategy and in the environment.
func TestRollback(t *testing.T) {
	s := read(t, rolledBackScenario)
	want := &stages.RollbackPolicy{
		Causes: []stages.RollbackCause{stages.OnCommand}, New: stages.LeaveNew,
		Approval: &approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 2}}, Expires: metav1.Duration{Duration: time.Hour}},
	}
	if d := cmp.Diff(want, s.Strategy.Rollback); d != "" {
		t.Errorf("rollback (-want +got):\n%s", d)
	}
	away := []simulate.Interval{{From: time.Minute, To: 2 * time.Minute}}
	back := simulate.Return{
		Previous: map[string]stages.Previous{"c1": {Snapshot: "v3", Revision: "v3"}, "d1": {Snapshot: "v4", Revision: "v4"}, "d2": {Snapshot: "v4", Revision: "v4"}},
		Members:  map[string]simulate.Member{"c1": {Take: time.Minute, Unreachable: away}, "d2": {Take: 10 * time.Second, Fail: 1}},
	}
	if d := cmp.Diff(back, s.Environment.Return); d != "" {
		t.Errorf("the way back (-want +got):\n%s", d)
	}
	forth := map[string]simulate.Member{"c1": {Take: 10 * time.Second, Fail: simulate.Always, Unreachable: away}}
	if d := cmp.Diff(forth, s.Environment.Members); d != "" {
		t.Errorf("members (-want +got):\n%s", d)
	}
	if c := s.Environment.Orders[0].Command; c.Verb != stages.RequestRollback || c.By.Name != "ann" || c.Message != "slow" {
		t.Errorf("%+v", c)
	}
	end, err := simulate.Run(s.Plan, s.Environment, nil)
	if err != nil || end.Back == nil {
		t.Errorf("%v %+v", err, end.Back)
	}
}

// A strategy of Azure's stages may have the rollback in slipwayRollback. The rollback waits for
// maintenance windows, too.
func TestRollbackOfAzuresStages(t *testing.T) {
	s := read(t, `
clusters: [{name: c1, windows: [{rrule: "FREQ=DAILY;BYHOUR=2", duration: 2h}]}]
strategy: {stages: [{name: s, groups: [{name: g, memberSelector: {byLabel: "!x"}}]}], slipwayRollback: {}}
profile: ClusterUpdate
faults: [{cluster: c1, fail: always}]
take: 3h
attempts: 1
`)
	if s.Environment.Return.Previous["c1"].Revision != "before" || s.Environment.Return.Calendar == nil {
		t.Fatalf("%+v", s.Environment.Return)
	}
	end, err := simulate.Run(s.Plan, s.Environment, nil)
	if err != nil || end.State != stages.Failed || end.Back.End.State != stages.Completed || end.Back.End.Stages[0].Ended.Duration != 29*time.Hour {
		t.Errorf("%v %+v", err, end.Back)
	}
}

func TestProblemsOfRollbacks(t *testing.T) {
	const base = "clusters: [{name: c1}]\nstrategy: {stages: [{name: all, labelSelector: {}}]}\n"
	problems(t, base+"rollback: {causes: [Command, Command]}", "f.yaml:3: rollback.causes[1]: Duplicate value")
	problems(t, base+"rollback: {causes: [Failure]}", "f.yaml:3: rollback.causes[0]: must be BudgetExceeded or GateRejected or Command")
	problems(t, base+"rollback: {approval: {quorums: [{group: g, count: 1}, {group: g, count: 1}]}}", "rollback.approval.quorums[1]")
	problems(t, "clusters: [{name: c1, had: v1, new: true}]\nrollback: {}\nstrategy: {stages: [{name: all, labelSelector: {}}]}", "clusters[0]: had v1 before, and is new; leave one of the two")
	problems(t, "clusters: [{name: c1, had: V}]\nrollback: {}\nstrategy: {stages: [{name: all, labelSelector: {}}]}", "clusters[0].had: \"V\": a lowercase RFC 1123 label")
	problems(t, "clusters: [{name: c1, had: v1}]\nfaults: [{cluster: c1, fail: 1, during: rollback}]\nstrategy: {stages: [{name: all, labelSelector: {}}]}",
		"f.yaml:1: clusters[0].had: is for a run that is rolled back; write a rollback too", "f.yaml:2: faults[0].during: is for a run that is rolled back")
	problems(t, base+"rollback: {}\nfaults:\n- {cluster: c1, unreachable: [1m, 2m], during: rollback}\n- {cluster: c1, fail: 1, during: back}\n- {cluster: c2, fail: 1, during: rollback}\n- {cluster: c1, fail: 1, during: rollback}\n- {cluster: c1, fail: 2, during: rollback}",
		"f.yaml:5: faults[0].unreachable: is at a time of its own", "f.yaml:6: faults[1].during: must be rollback, not \"back\"", "f.yaml:7: faults[2].cluster: there is no cluster c2", "f.yaml:9: faults[4].fail: cluster c1 has this already, on line 8")
	problems(t, "clusters: [{name: c1}]\nrollback: {}\nstrategy: {stages: [{name: s, groups: [{name: g}]}], slipwayRollback: {}}\nunassigned: Exclude", "f.yaml:2: rollback: is in the strategy already; leave one of the two")
	problems(t, "clusters: [{name: c1}]\nstrategy: {stages: [{name: s, groups: [{name: g}]}], slipwayRollback: {causes: [Command, Command]}}\nunassigned: Exclude", "f.yaml:2: strategy.slipwayRollback.causes[1]: Duplicate")
}
