package status

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// RollbackPoll is how often it is looked whether a run that is to be taken back is.
const RollbackPoll = time.Second

// RollbackFacts are what is known of taking a run back.
type RollbackFacts struct {
	// Engine is what the engine says; the zero value is that nobody asked.
	Engine fleet.Rollback
	// Of is the object, Told the condition that it has of it, and ToldRun the run which
	// it says takes it back.
	Of      api.Key
	Told    api.Condition
	ToldRun string
	// Refusal is why the engine refuses now what spec.state asks for.
	Refusal string
	// Hidden is why the run that takes back has no object, where it has none.
	Hidden string
}

// Read takes in what the object says.
func (b *RollbackFacts) Read(obj *unstructured.Unstructured) {
	b.Of, b.Told = api.KeyOf(obj), api.ConditionOf(obj, api.ConditionRollback)
	b.ToldRun, _, _ = unstructured.NestedString(obj.Object, "status", "rollbackRunName")
}

// run is the run that takes this one back, as its object is called.
func (b *RollbackFacts) run() string {
	if b.Engine.By == "" || b.Engine.Pending {
		return ""
	}
	return api.RollbackShown(b.Of, b.Engine.By)
}

// refusedBefore reports whether what this generation of the spec asks for was refused.
func (b *RollbackFacts) refusedBefore(generation int64) bool {
	return b.Told.Is("False", generation) && b.Told.Reason == api.ReasonRollbackRefused
}

// isUnderway reports whether the engine is about to take the run back.
func (b *RollbackFacts) isUnderway(run *stages.Run) bool {
	return b.Engine.Pending || run.RollbackRequest != nil && b.Engine.By == "" && b.Engine.Refused == ""
}

// Asks reports whether the engine has to be asked to take a run back: once for each
// generation of a spec that says so, and again where a run that was asked had
// ended before it came to that. That it was taken back is told before it is asked
// to be once more: the hub may have died between asking and telling.
func (b *RollbackFacts) Asks(state kubefleet.State, generation int64, s *fleet.Status) bool {
	switch {
	case state != kubefleet.Rollback || b.isUnderway(&s.Run):
		return false
	case b.Told.Is("Unknown", generation):
		return s.Run.Final(s.Plan) && b.Engine.By == ""
	case b.run() != "" && b.run() != b.ToldRun:
		return false
	default:
		return b.Told.ObservedGeneration != generation
	}
}

// rollbackConditions say whether the run is taken back, where it was asked for
// it.
func (p *projection) rollbackConditions() []metav1.Condition {
	b := &p.Rollback
	switch asked := p.State == kubefleet.Rollback; {
	case b.Refusal != "":
		return p.rollback("False", api.ReasonRollbackRefused, "The update run is not rolled back: "+b.Refusal)
	case asked && b.refusedBefore(p.Generation) && !b.isUnderway(p.Run):
		return p.rollback("False", api.ReasonRollbackRefused, b.Told.Message)
	case b.isUnderway(p.Run):
		return p.rollback("Unknown", api.ReasonRollbackRequested, "The update run is about to be rolled back")
	case p.Rollback.run() != "":
		return p.rollback("True", api.ReasonRollbackStarted, "The update run is rolled back by updateRun "+p.Rollback.run()+b.Hidden)
	case b.Engine.Refused != "":
		return p.rollback("False", api.ReasonRollbackRefused, "The update run is not rolled back: "+b.Engine.Refused)
	case asked:
		return p.rollback("Unknown", api.ReasonRollbackRequested, "The update run is about to be rolled back")
	default:
		return nil
	}
}

// rollback is the condition, with the time since when its status is so.
func (p *projection) rollback(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	since := stages.At(p.Now)
	if p.Rollback.Told.Status == string(status) && !p.Rollback.Told.Since.IsZero() {
		since = stages.At(p.Rollback.Told.Since)
	}
	return []metav1.Condition{p.tell(api.ConditionRollback, status, reason, message, since)}
}

// RollbackNow are the conditions that say whether the run is taken back.
func (f *RunFacts) RollbackNow() []metav1.Condition {
	p := projection{RunFacts: f, teller: teller{generation: f.Generation}}
	return p.rollbackConditions()
}

// RollbackAgain is when to look again whether the run is taken back, 0 for not on its
// own account. While the engine is about to it is looked at again and again, whatever
// was told: what it comes to stands in the record of the placement, and nothing tells
// the run of that.
func (f *RunFacts) RollbackAgain() time.Duration {
	now := f.RollbackNow()
	if len(now) > 0 && now[0].Status == metav1.ConditionUnknown {
		return RollbackPoll
	}
	return 0
}

// RollbackIsTold reports whether the object says what there is to say of taking the run back.
func (f *RunFacts) RollbackIsTold() bool {
	now := f.RollbackNow()
	if len(now) == 0 {
		return f.Rollback.Told.Status == ""
	}
	b := &f.Rollback.Told
	return b.Is(string(now[0].Status), f.Generation) && b.Reason == now[0].Reason && b.Message == now[0].Message
}

// brought is the index of the snapshot that a run brings, -1 where it takes
// clusters back to several or to none.
func brought(p *stages.Plan) int {
	if p.Rollback == nil {
		return p.Index
	}
	all := slices.Compact(slices.Sorted(slices.Values(p.Rollback.Indexes)))
	if len(all) != 1 {
		return -1
	}
	return all[0]
}

// isLast tells of a stage that it is the one which cleans the clusters that left
// the placement. One that takes back cleans where it is.
func isLast(p *stages.Plan, stage int) bool { return p.Stages[stage].Remove && p.Rollback == nil }
