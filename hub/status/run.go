// Package status makes what the hub shows: facts in, the status of an object, or the whole object, out. It does no I/O, so
// that the same facts give the same status, whichever hub makes it; times are those of facts, not of now.
//
// The documents have KubeFleet's fields, condition types and reasons, see package hub for what is Slipway's own. Lists are
// bounded: Listed clusters, 30 KiB of a message, 128 KiB of names of overrides.
package status

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// defaultListed is how many clusters a status lists where nothing else is said.
const defaultListed = 100

// RunFacts are what the status of a run is made of: the object, and the run and
// the plan that the engine has for it.
type RunFacts struct {
	// Name, Namespace and Generation are those of the object.
	Name, Namespace string
	Generation      int64
	// Made is when the object was created; zero if that is not known.
	Made time.Time
	// State is the object's spec.state.
	State kubefleet.State

	Run  *step.Run
	Plan *stages.Plan
	// History is what the run's events tell.
	History *RunHistory
	// Events is how many of those were told as events of Kubernetes.
	Events int64
	// Policy is the index of the policy snapshot that the plan is made of, -1
	// where it is not known.
	Policy int
	// Placement says how objects are applied.
	Placement *fleet.Placement
	// Held are the requests that have no object yet, because their name is taken.
	Held []HeldRequest
	// Setting is the compatibility setting of the hub.
	Setting compat.Setting
	// Rollback is what is known of taking the run back.
	Rollback RollbackFacts
	// Overrides are those in the snapshots that the plan brings, by index, Members the
	// clusters as they are now, by name; nil where there are none.
	Overrides map[int][]FrozenOverride
	Members   map[string]placement.Cluster

	// Snapshots are those of the placement that are kept, ascending.
	Snapshots []snapshot.Snapshot

	// Listed is how many clusters are listed at most; 0 is defaultListed. Where
	// the plan has more of them, those are listed that are in trouble or in
	// flight.
	Listed int
	// Now says what has taken too long.
	Now time.Time
}

// clusterCounts count all clusters, even if a status lists only some. The others up to the total have not started.
type clusterCounts struct {
	total, completed, inFlight, failed, skipped int
	// waiting counts the clusters that released their slot and are tried again later.
	waiting int
}

func (c *clusterCounts) add(o *clusterCounts) {
	c.total += o.total
	c.completed += o.completed
	c.inFlight += o.inFlight
	c.failed += o.failed
	c.skipped += o.skipped
	c.waiting += o.waiting
}

// form returns the counts as the API has them.
func (c *clusterCounts) form() *v1beta1.ClusterCounts {
	return &v1beta1.ClusterCounts{
		Total: int32(c.total), Completed: int32(c.completed), InFlight: int32(c.inFlight), Failed: int32(c.failed), Skipped: int32(c.skipped),
		Waiting: int32(c.waiting),
	}
}

// Run is the status of a run. It is the same whenever it is made from the
// same facts, but for what has taken too long: see changesAt. What it costs
// grows with the clusters in flight and the exceptions, not with the fleet.
func Run(f *RunFacts) *v1beta1.UpdateRunStatus {
	p := newRunBuilder(f)
	s := &v1beta1.UpdateRunStatus{
		Conditions:                 append(p.runConditions(), p.rollbackConditions()...),
		PolicySnapshotIndexUsed:    indexText(f.Policy),
		PolicyObservedClusterCount: p.observed(),
		ResourceSnapshotIndexUsed:  indexText(brought(f.Plan, f.Snapshots)),
		PlanDigest:                 f.Plan.Digest,
		StartedBy:                  startedBy(f.Run),
		ApplyStrategy:              applyStrategyOf(f.Placement),
		UpdateStrategySnapshot:     updateStrategyOf(&f.Plan.Strategy),
		ClusterListing:             p.listing(),
		ObservedEvents:             f.Events,
		RollbackRunName:            f.Rollback.run(),
	}
	var all clusterCounts
	for i := range f.Plan.Stages {
		st := p.stage(i)
		all.add(&p.counts[i])
		if isLast(f.Plan, i) {
			s.DeletionStageStatus = &st
		} else {
			s.StagesStatus = append(s.StagesStatus, st)
		}
	}
	s.ClusterCounts = all.form()
	if s.DeletionStageStatus == nil {
		s.DeletionStageStatus = p.skippedDeleteStage()
	}
	p.addLeft(s.DeletionStageStatus)
	s.Summary = p.summary(s.Conditions)
	return s
}

// startedBy is who started a run, nil where that is not known.
func startedBy(run *step.Run) *v1beta1.Identity {
	if run.Starter.Name == "" {
		return nil
	}
	return &v1beta1.Identity{Username: run.Starter.Name, Groups: run.Starter.Groups}
}

// InitializeFailed is the status of a run that cannot be planned, for
// whatever is wrong with what it asks for. It is the end of the run.
func InitializeFailed(_ api.Scope, generation int64, at stages.Instant, err error) *v1beta1.UpdateRunStatus {
	message := "cannot continue the updateRun: failed to validate the updateRun: " + err.Error()
	s := onlyCondition(stages.Failed, conditions{generation, at}.isFalse(api.ConditionInitialized, api.ReasonInitializeFailed, message, at))
	s.Summary.EndTime = &s.Conditions[0].LastTransitionTime
	return s
}

// Initializing is the status of a run that cannot be planned yet, because
// something failed that may work the next time.
func Initializing(_ api.Scope, generation int64, at stages.Instant, err error) *v1beta1.UpdateRunStatus {
	return onlyCondition(stages.NotStarted, conditions{generation, at}.isUnknown(api.ConditionInitialized, api.ReasonInitializing, "the updateRun is tried again: "+err.Error(), at))
}

// Forgotten is the status of a run whose record is gone before its end was
// told.
func Forgotten(_ api.Scope, generation int64, at stages.Instant, err error) *v1beta1.UpdateRunStatus {
	return onlyCondition("", conditions{generation, at}.isUnknown(api.ConditionSucceeded, api.ReasonRunForgotten, err.Error(), at))
}

func onlyCondition(state stages.State, c metav1.Condition) *v1beta1.UpdateRunStatus {
	return &v1beta1.UpdateRunStatus{Conditions: []metav1.Condition{c}, Summary: &v1beta1.UpdateRunSummary{State: string(state), Message: c.Message}}
}

// runBuilder is a run that is being projected.
type runBuilder struct {
	*RunFacts
	conditions
	// counts and sights are by stage.
	counts []clusterCounts
	sights [][]listedCluster
	listed int
	// overriding is what the plan's snapshots have for the clusters.
	overriding overriding
}

func newRunBuilder(f *RunFacts) *runBuilder {
	if f.Listed == 0 {
		f.Listed = defaultListed
	}
	if f.History == nil {
		f.History = &RunHistory{}
	}
	p := &runBuilder{
		RunFacts: f, conditions: conditions{observedGeneration: f.Generation, created: max(f.Run.Created, 1)},
		overriding: newOverriding(f.Overrides, f.Members),
	}
	p.count()
	p.listClusters()
	return p
}

// observed counts the clusters that are updated rather than cleaned.
func (p *runBuilder) observed() int {
	n := p.Plan.Len()
	for i := range p.Plan.Stages {
		if p.Plan.Stages[i].Remove {
			n -= p.counts[i].total
		}
	}
	return n
}

// listing is nil where every cluster is listed.
func (p *runBuilder) listing() *v1beta1.ClusterListing {
	if p.Plan.Len() <= p.Listed {
		return nil
	}
	return &v1beta1.ClusterListing{
		Listed: int32(p.listed), Total: int32(p.Plan.Len()),
		Message: "Only clusters that failed, are in flight, wait or were skipped are listed, " + strconv.Itoa(p.Listed) +
			" at most; the run's journal has the result of every other cluster",
	}
}

// skippedDeleteStage is the stage of a run that has no cluster to clean.
func (p *runBuilder) skippedDeleteStage() *v1beta1.StageUpdatingStatus {
	s := &v1beta1.StageUpdatingStatus{StageName: api.DeleteStage, Clusters: []v1beta1.ClusterUpdatingStatus{}}
	if p.Run.State == stages.Completed {
		s.StartTime, s.EndTime = api.SecondsOrNil(p.Run.Ended), api.SecondsOrNil(p.Run.Ended)
		s.Conditions = p.stageSucceeded(p.Run.Ended, p.Run.Ended)
	}
	return s
}

// addLeft adds the clusters that had left when the plan was made to the stage that cleans clusters. Nothing is done there, and
// that is told once the run has completed, as KubeFleet tells of the bindings that it deletes.
func (p *runBuilder) addLeft(s *v1beta1.StageUpdatingStatus) {
	room := p.Listed - p.Plan.Len()
	if room <= 0 || len(p.Plan.Left) == 0 {
		return
	}
	for _, name := range p.Plan.Left[:min(len(p.Plan.Left), room)] {
		c := v1beta1.ClusterUpdatingStatus{ClusterName: name}
		if at := p.Run.Ended; p.Run.State == stages.Completed {
			const message = "The cluster has left: what it has is left there"
			c.Conditions = []metav1.Condition{
				p.isTrue(api.ConditionStarted, api.ReasonClusterStarted, message, at), p.isTrue(api.ConditionSucceeded, api.ReasonClusterSucceeded, message, at),
			}
		}
		s.Clusters = append(s.Clusters, c)
	}
	slices.SortStableFunc(s.Clusters, func(a, b v1beta1.ClusterUpdatingStatus) int { return strings.Compare(a.ClusterName, b.ClusterName) })
}

// RunName is the name of another run of the placement, as its object has it.
func RunName(run string) string {
	if _, name, ok := kubefleet.ObjectName(run); ok {
		return name
	}
	return run
}

// indexText is an index as the API writes it; none is empty.
func indexText(index int) string {
	if index < 0 {
		return ""
	}
	return strconv.Itoa(index)
}

// ChangesAt is when time alone next changes the status of a run: when a cluster
// will have taken too long. It is zero where nothing does.
func ChangesAt(f *RunFacts) time.Time {
	if f.Run.State != stages.Running {
		return time.Time{}
	}
	var at stages.Instant
	p := runBuilder{RunFacts: f}
	p.eachBegun(func(_ int, since stages.Instant) {
		if late := since.Add(stuckAfter); late > stages.At(f.Now) && (at == 0 || late < at) {
			at = late
		}
	})
	return at.Time()
}

// RollbackPoll is how often it is looked whether a run that is to be taken back is.
const RollbackPoll = time.Second

// RollbackFacts are what is known of taking a run back.
type RollbackFacts struct {
	// Engine is what the engine says; the zero value is that it was not asked.
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
func (b *RollbackFacts) isUnderway(run *step.Run) bool {
	return b.Engine.Pending || run.Form(runstate.Key{}).RollbackRequest != nil && b.Engine.By == "" && b.Engine.Refused == ""
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
func (p *runBuilder) rollbackConditions() []metav1.Condition {
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
func (p *runBuilder) rollback(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	since := stages.At(p.Now)
	if p.Rollback.Told.Status == string(status) && !p.Rollback.Told.Since.IsZero() {
		since = stages.At(p.Rollback.Told.Since)
	}
	return []metav1.Condition{p.condition(api.ConditionRollback, status, reason, message, since)}
}

// RollbackNow are the conditions that say whether the run is taken back.
func (f *RunFacts) RollbackNow() []metav1.Condition {
	p := runBuilder{RunFacts: f, conditions: conditions{observedGeneration: f.Generation}}
	return p.rollbackConditions()
}

// RollbackAgain is when the run has to be reconciled again for its rollback, 0 for not on
// that account. While the engine is about to roll back it is polled: the outcome is in the record of
// the placement, of which no watch wakes the run.
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

// brought is the index, as it is shown, of the snapshot that a run brings, -1 where it takes
// clusters back to several or to none.
func brought(p *stages.Plan, kept []snapshot.Snapshot) int {
	if p.Rollback == nil {
		return ShownIndex(kept, p.Index)
	}
	shown := make([]int, 0, len(p.Rollback.Indexes))
	for _, index := range p.Rollback.Indexes {
		shown = append(shown, ShownIndex(kept, index))
	}
	slices.Sort(shown)
	if shown = slices.Compact(shown); len(shown) != 1 {
		return -1
	}
	return shown[0]
}

// isLast tells of a stage that it is the one which cleans the clusters that left
// the placement. One that takes back cleans where it is.
func isLast(p *stages.Plan, stage int) bool { return p.Stages[stage].Remove && p.Rollback == nil }

// eachBegun calls do for each cluster that has begun and not ended, with since
// when. One that is healthy and observed to stay so takes as long as it is to.
func (p *runBuilder) eachBegun(do func(pos int, since stages.Instant)) {
	for i := range p.Run.Form(runstate.Key{}).InFlight {
		if f := &p.Run.Form(runstate.Key{}).InFlight[i]; f.Attempt != 0 && f.Phase != stages.Soaking {
			do(f.Pos, f.Started)
		}
	}
	for i := range p.Run.Form(runstate.Key{}).Waiting {
		if y := &p.Run.Form(runstate.Key{}).Waiting[i]; y.Since != 0 {
			do(y.Pos, y.Since)
		}
	}
}
