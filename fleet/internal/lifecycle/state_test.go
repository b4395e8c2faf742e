package lifecycle

import (
	"encoding/json"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

// The placement's record embeds the state, so the names of the stored fields are names in that
// record.
func TestTheStoredFormOfAState(t *testing.T) {
	index, limit := 1, intstr.FromInt32(50)
	s := State{
		UID: "p", Epoch: 2, NextIndex: 3, Selection: &Selection{0, "policy", "digest", 2, 1}, InUse: []int{1}, Whole: &index, Previous: &index,
		Bindings: Generation{1, "id", 1}, Queue: Queue{Waiting: []Entry{{UID: "u", Run: "a", Index: 1}}},
		Runs: []Run{{"a", "u", 1, "plan", stages.Failed, 2, 1, "x", "b", "why", []string{"m"}}}, Ended: 1, Retired: []Run{{Name: "r", UID: "v"}},
		Deleting: &Deletion{"ann", 1, metav1.Duration{Duration: 5 * time.Second}, &limit, DeleteObjects, "deletion"}, GCGeneration: 4, Base: &Base{"u", "a", Generation{1, "id", 1}, []int{1}},
		Rollback: &PendingRollback{"u", "a", "b", "w", stages.RollbackRequest{Cause: stages.OnCommand}, 7}, Irreversible: []int{1},
	}
	const want = `{"uid":"p","epoch":2,"nextIndex":3,"selection":{"index":0,"policyDigest":"policy","digest":"digest","clusters":2,"pages":1},` +
		`"inUse":[1],"whole":1,"previous":1,"bindings":{"generation":1,"id":"id","pages":1},"queue":{"waiting":[{"uid":"u","run":"a","index":1}]},` +
		`"runs":[{"name":"a","uid":"u","index":1,"plan":"plan","ended":"Failed","restart":2,"nth":1,"rollbackOf":"x","rolledBackBy":"b","rollbackRefused":"why","evicts":["m"]}],` +
		`"ended":1,"retired":[{"name":"r","uid":"v","index":0,"plan":""}],` +
		`"deleting":{"by":"ann","since":1,"deadline":"5s","maxConcurrency":50,"end":"Delete","run":"deletion"},"gcGeneration":4,` +
		`"base":{"uid":"u","run":"a","bindings":{"generation":1,"id":"id","pages":1},"inUse":[1]},` +
		`"rollback":{"of":"u","ofRun":"a","run":"b","uid":"w","request":{"cause":"Command"},"since":7},"irreversible":[1]}`
	got, err := json.Marshal(s)
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	b, err := json.Marshal(Binding{ProvenIndex: 1, Attempted: 2, Revision: "r", Policy: 3})
	if want := `{"provenIndex":1,"attempted":2,"revision":"r","policy":3}`; err != nil || string(b) != want {
		t.Errorf("%v %s, want %s", err, b, want)
	}
}

func TestValidateRefusesImpossibleStates(t *testing.T) {
	run := Run{Name: "a", UID: "u"}
	active := Queue{Active: &Entry{UID: "u", Run: "a"}}
	for name, s := range map[string]State{
		"an unknown run in the queue":  {Queue: active},
		"an ended run in the queue":    {Queue: active, Runs: []Run{{Name: "a", UID: "u", Ended: stages.Failed}}},
		"a run that waits for itself":  {Queue: Queue{Active: active.Active, Waiting: []Entry{*active.Active}}, Runs: []Run{run}},
		"a run twice":                  {Runs: []Run{run}, Retired: []Run{run}},
		"a run without a UID":          {Runs: []Run{{Name: "a"}}},
		"more runs than have ended":    {Runs: []Run{{Name: "a", UID: "u", Ended: stages.Failed, Nth: 1}}},
		"an index that is to come":     {InUse: []int{0}},
		"indexes out of order":         {NextIndex: 3, InUse: []int{2, 1}},
		"a generation without an ID":   {Bindings: Generation{Generation: 1}},
		"a base of an unknown run":     {Base: &Base{UID: "u"}},
		"a base of later bindings":     {Runs: []Run{run}, Base: &Base{UID: "u", Bindings: Generation{Generation: 2, ID: "x"}}},
		"a rollback without its place": {Rollback: &PendingRollback{Of: "v", UID: "u", Run: "a"}},
		"a rollback of nothing":        {Queue: active, Rollback: &PendingRollback{UID: "u", Run: "a"}},
		"a rollback that is admitted":  {Queue: active, Runs: []Run{run}, Rollback: &PendingRollback{Of: "v", UID: "u", Run: "a"}},
		"a deletion without a run":     {NextIndex: 1, Deleting: &Deletion{}},
	} {
		if s.Validate() == nil {
			t.Errorf("%s is valid", name)
		}
	}
	if err := (&State{Queue: active, Runs: []Run{run}}).Validate(); err != nil {
		t.Error(err)
	}
}

// A result has the same outcome for each cluster as step.Step, and a result for an unknown run too.
func TestResultOf(t *testing.T) {
	strategy := stages.Strategy{Name: "all", Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	target := stages.Target{
		Placement: "web", Index: 3, Snapshot: "s3", Selection: "d1", Default: "rev-3", Revision: map[string]string{}, Remove: map[string]string{"old": ""}, Part: true,
	}
	p, err := planner.Plan(strategy, target, []placement.Cluster{{Name: "m1", UID: "u1"}, {Name: "m2", UID: "u2"}})
	if err != nil {
		t.Fatal(err)
	}
	unknown := ResultOf(p, nil)
	if got := unknown.Clusters[0]; got != (Reached{"m1", 3, "rev-3", Attempted}) || unknown.Changed != 3 || !unknown.Started || !unknown.NoRollback {
		t.Errorf("of a run that is not known: %+v", unknown)
	}
	if got := unknown.Clusters[2]; got != (Reached{"old", None, "", Attempted}) {
		t.Errorf("of a cluster that is cleaned: %+v", got)
	}
	r := step.NewRun(p, "a", "uid-a", approval.Identity{Name: "ann"}, false, stages.Instant(startOfTime).Time())
	fresh := ResultOf(p, &r)
	if got := fresh.Clusters[0].Got; got != Untouched || fresh.Changed != 0 || fresh.Started || fresh.Complete {
		t.Errorf("of a run that has not started: %+v", fresh)
	}
	r = step.Step(p, r, stages.Input{Now: stages.Instant(startOfTime).Time()}).Run
	begun := ResultOf(p, &r)
	if got := begun.Clusters[0].Got; got != Attempted || !begun.Started || begun.Attempt != 1 {
		t.Errorf("of a run that has begun: %+v", begun)
	}
	r = step.Step(p, r, stages.Input{Now: stages.Instant(startOfTime + 1000).Time(), Gone: []string{"m1", "m2", "old"}}).Run
	gone := ResultOf(p, &r)
	if gone.State != stages.Completed || !gone.Complete || gone.Clusters[0].Got != Gone || gone.Clusters[2].Got != Gone {
		t.Errorf("of a run whose clusters have left: %+v", gone)
	}
}
