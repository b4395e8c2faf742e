package simulate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// rollbackEnvironment is an environment where c1 to c3 had something and one attempt fails.
func rollbackEnvironment(fails string) simulate.Environment {
	had := stages.Previous{Snapshot: "s", Revision: "before"}
	return simulate.Environment{
		Default: simulate.Member{Take: minute}, Members: map[string]simulate.Member{fails: {Take: minute, Fail: simulate.Always}},
		Return: simulate.Return{Previous: map[string]stages.Previous{"c1": had, "c2": had, "c3": had}},
	}
}

func backStrategy(edit func(*stages.Strategy)) stages.Strategy {
	return strategy(3, func(s *stages.Strategy) {
		s.Attempts, s.Rollback = 1, &stages.RollbackPolicy{}
		if edit != nil {
			edit(s)
		}
	})
}

// A failed run is immediately followed by its rollback, the latest stage first. Later orders
// apply to the rollback run, and the faults of the first run do not.
func TestARunThatFailsIsRolledBack(t *testing.T) {
	s := backStrategy(func(s *stages.Strategy) { s.Rollback.Approval = &approval.Policy{} })
	w := rollbackEnvironment("c2")
	w.Return.Members = map[string]simulate.Member{"c2": {Take: 2 * minute}}
	w.Orders = []simulate.Order{decide(5*minute, approval.Approve, "s2"), order(6*minute, stages.RequestRollback)}
	end := script(t, plan(t, s, fleet(1, 1, 1)), w, `
		0s RunStarted
		0s StageStarted s1
		0s ClusterStarted s1 c1
		1m0s ClusterApplied s1 c1
		1m0s ClusterCompleted s1 c1
		1m0s StageCompleted s1
		1m0s StageStarted s2
		1m0s ClusterStarted s2 c2
		2m0s ClusterFailed s2 c2: attempt 1 fails
		2m0s RollbackRequested: 1 cluster of stage s2 has failed, and none may
		2m0s RunStopping: 1 cluster of stage s2 has failed, and none may
		2m0s RunFailed: 1 cluster of stage s2 has failed, and none may
		2m0s RunStarted
		2m0s ApprovalRequested s2
		5m0s ApprovalAccepted s2
		5m0s StageStarted s2
		5m0s ClusterStarted s2 c2
		6m0s CommandRefused TakeBack: its strategy has no rollback: roll out the snapshot that the clusters should have, by a run with its index
		7m0s ClusterApplied s2 c2
		7m0s ClusterCompleted s2 c2
		7m0s StageCompleted s2
		7m0s StageStarted s1
		7m0s ClusterStarted s1 c1
		8m0s ClusterApplied s1 c1
		8m0s ClusterCompleted s1 c1
		8m0s StageCompleted s1
		8m0s RunCompleted`)
	back := end.Back
	if end.State != stages.Failed || back == nil || back.End.State != stages.Completed || back.Started.Duration != 2*minute || back.End.At.Duration != 8*minute {
		t.Fatalf("%s, %+v", end.State, back)
	}
	if back.Plan.Rollback.Run != simulate.RunName || back.End.Run.Name != simulate.BackName || len(back.End.Clusters) != 2 {
		t.Errorf("%+v of %s", back.Plan.Rollback, back.End.Run.Name)
	}
}

// An order rolls back a run that has ended or is under way. A failure stops the rollback run, and
// the rollback run itself is not rolled back.
func TestARunIsRolledBackByACommand(t *testing.T) {
	for name, orders := range map[string][]simulate.Order{
		"under way": {order(5*minute/2, stages.RequestRollback)},
		"stopped":   {order(5*minute/2, stages.Stop), order(10*minute, stages.RequestRollback)},
		"ended":     {order(10*minute, stages.RequestRollback)},
	} {
		t.Run(name, func(t *testing.T) {
			w := rollbackEnvironment("missing")
			w.Orders = orders
			w.Return.Members = map[string]simulate.Member{"c1": {Fail: simulate.Always}}
			got, end := play(t, plan(t, backStrategy(nil), fleet(1, 1, 1)), w)
			if end.Back == nil || end.Back.End.State != stages.Failed || end.Back.End.Run.Form(runstate.Key{}).RollbackRequest != nil {
				t.Fatalf("%+v\n%s", end.Back, got)
			}
			if strings.Count(got, "RollbackRequested") != 1 {
				t.Errorf("events:\n%s", got)
			}
		})
	}
}

// A run that cannot be rolled back reports the reason, and later orders apply to the run.
func TestARunThatIsNotRolledBack(t *testing.T) {
	s := backStrategy(func(s *stages.Strategy) { s.Rollback.New = stages.LeaveNew })
	w := rollbackEnvironment("c1")
	w.Return.Previous = map[string]stages.Previous{}
	w.Orders = []simulate.Order{order(5*minute, stages.Start)}
	got, end := play(t, plan(t, s, fleet(1, 1, 1)), w)
	const why = "no cluster changes: 1 because the cluster had nothing before, and newClusters is Leave"
	if end.Back == nil || end.Back.Refused != why || end.Back.Plan != nil {
		t.Fatalf("%+v", end.Back)
	}
	for _, want := range []string{"1m0s RollbackRefused: " + why, "5m0s CommandRefused Start: the run has ended as Failed"} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	w.Return.Previous = nil
	if got, end := play(t, plan(t, s, fleet(1)), w); end.Back.Refused != "the earlier revisions of the clusters are not known" {
		t.Errorf("%+v\n%s", end.Back, got)
	}
	w = rollbackEnvironment("c1")
	broken := errors.New("no windows")
	w.Return.Calendar = func(*stages.Plan) (stages.Calendar, error) { return nil, broken }
	if _, err := simulate.Run(plan(t, backStrategy(nil), fleet(1)), w, nil); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	w.Return = simulate.Return{Members: map[string]simulate.Member{"c1": {Take: -1}}}
	if err := w.Validate(); err == nil || !strings.Contains(err.Error(), "return.members[c1].take") {
		t.Errorf("the error is %v", err)
	}
}

// The rollback names clusters that left the inventory before it as gone.
func TestClustersThatLeftAreNotRolledBack(t *testing.T) {
	w := rollbackEnvironment("c3")
	w.Churn = []simulate.Change{{At: 3 * minute / 2, Cluster: "c1"}}
	_, end := play(t, plan(t, backStrategy(nil), fleet(1, 1, 1)), w)
	want := []simulate.ClusterEnd{{Name: "c3", Stage: "s3", State: stages.Completed}, {Name: "c2", Stage: "s2", State: stages.Completed}, {Name: "c1", Stage: "s1", State: stages.Skipped}}
	if end.Back == nil || cmp.Diff(want, end.Back.End.Clusters) != "" {
		t.Errorf("%+v", end.Back)
	}
}
