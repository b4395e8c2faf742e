// Package status builds the documents that the hub shows: the status of an object, or a whole
// object, from facts. It does no I/O and takes times from the facts instead of the clock, so that
// every hub builds the same status from the same facts.
//
// The documents have KubeFleet's fields, condition types and reasons; package hub lists Slipway's
// own. Lists are limited: Listed clusters, 30 KiB for a message, 128 KiB for the names of
// overrides.
//
// The documents are the Go types of the Fleet API. A status that other clients write too is changed
// as a map, and the spec of an override is copied as a map, because fields without a Go type must
// stay.
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

// defaultListed is the default number of clusters that a status lists.
const defaultListed = 100

// RunFacts are the input of [Run]: facts of the object, and the engine's run and plan.
type RunFacts struct {
	// Name, Namespace and Generation are fields of the object.
	Name, Namespace string
	Generation      int64
	// Made is when the object was created; zero if unknown.
	Made time.Time
	// State is the object's spec.state.
	State v1beta1.State

	Run  *step.Run
	Plan *stages.Plan
	// History is built from the run's events.
	History *RunHistory
	// Events is the number of the run's events that were reported as Kubernetes Events.
	Events int64
	// Policy is the index of the policy snapshot that the plan was made from; -1 if unknown.
	Policy int
	// Placement has the apply strategy.
	Placement *fleet.Placement
	// Blocked are the requests that have no object yet because their name is taken.
	Blocked []BlockedRequest
	// Setting is the compatibility setting of the hub.
	Setting compat.Setting
	// Rollback has the facts about the rollback of the run.
	Rollback RollbackFacts
	// Overrides are the overrides in the snapshots of the plan, by index. Members are the clusters
	// with their current labels, by name. Both are nil if there are no overrides.
	Overrides map[int][]FrozenOverride
	Members   map[string]placement.Cluster

	// Snapshots are the kept snapshots of the placement, ascending.
	Snapshots []snapshot.Snapshot

	// Listed is the maximum number of listed clusters; 0 is defaultListed. If the plan has more
	// clusters, the status lists the clusters that are in trouble or in flight.
	Listed int
	// Now is the current time. It decides which clusters have taken too long.
	Now time.Time
}

// Run returns the status of a run. It depends on Now only for clusters that have taken too long:
// see [ChangesAt]. The time that it takes grows with the clusters in flight and the unsuccessful
// clusters, not with the fleet.
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
		ClusterListing:             p.listing.note(),
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

// startedBy returns the identity that started a run, nil if unknown.
func startedBy(run *step.Run) *v1beta1.Identity {
	if run.Starter.Name == "" {
		return nil
	}
	return &v1beta1.Identity{Username: run.Starter.Name, Groups: run.Starter.Groups}
}

// The messages about a run begin with invalidRun if the run cannot be planned, and with triedAgain
// if it cannot be planned yet.
const (
	invalidRun = "cannot continue the updateRun: failed to validate the updateRun: "
	triedAgain = "the updateRun is tried again: "
)

// InitializeFailed returns the final status of a run that cannot be planned because its spec is
// wrong.
func InitializeFailed(_ api.Scope, generation int64, at stages.Instant, err error) *v1beta1.UpdateRunStatus {
	return refused(generation, at, invalidRun+err.Error())
}

// Refused returns the status of a run that was refused in an earlier generation, with the condition
// told.
func Refused(generation int64, told api.Condition) *v1beta1.UpdateRunStatus {
	return refused(generation, stages.At(told.Since), told.Message)
}

func refused(generation int64, at stages.Instant, message string) *v1beta1.UpdateRunStatus {
	s := onlyCondition(stages.Failed, conditions{generation, at}.isFalse(api.ConditionInitialized, api.ReasonInitializeFailed, message, at))
	s.Summary.EndTime = &s.Conditions[0].LastTransitionTime
	return s
}

// Initializing returns the status of a run that cannot be planned yet, because of an error that may
// not occur at the next attempt.
func Initializing(_ api.Scope, generation int64, at stages.Instant, err error) *v1beta1.UpdateRunStatus {
	return onlyCondition(stages.NotStarted, conditions{generation, at}.isUnknown(api.ConditionInitialized, api.ReasonInitializing, triedAgain+err.Error(), at))
}

// Forgotten returns the status of a run whose record was deleted before the status showed its end.
func Forgotten(_ api.Scope, generation int64, at stages.Instant, err error) *v1beta1.UpdateRunStatus {
	return onlyCondition("", conditions{generation, at}.isUnknown(api.ConditionSucceeded, api.ReasonRunForgotten, err.Error(), at))
}

func onlyCondition(state stages.State, c metav1.Condition) *v1beta1.UpdateRunStatus {
	return &v1beta1.UpdateRunStatus{Conditions: []metav1.Condition{c}, Summary: &v1beta1.UpdateRunSummary{State: string(state), Message: c.Message}}
}

// runBuilder builds the status of a run.
type runBuilder struct {
	*RunFacts
	conditions
	// counts are by stage.
	counts  []clusterCounts
	listing *listing
	// overriding has the overrides in the snapshots of the plan.
	overriding overriding
}

func newRunBuilder(f *RunFacts) *runBuilder {
	if f.Listed == 0 {
		f.Listed = defaultListed
	}
	if f.History == nil {
		f.History = &RunHistory{}
	}
	return &runBuilder{
		RunFacts: f, conditions: conditions{observedGeneration: f.Generation, created: max(f.Run.Created, 1)},
		counts: countClusters(f.Plan, f.Run.Form(runstate.Key{})), listing: newListing(f.Plan, f.Run, f.Listed),
		overriding: newOverriding(f.Overrides, f.Members),
	}
}

// observed returns the number of clusters that are updated and not cleaned.
func (p *runBuilder) observed() int {
	n := p.Plan.Len()
	for i := range p.Plan.Stages {
		if p.Plan.Stages[i].Remove {
			n -= p.counts[i].total
		}
	}
	return n
}

// skippedDeleteStage returns the removal stage of a run that has no cluster to clean.
func (p *runBuilder) skippedDeleteStage() *v1beta1.StageUpdatingStatus {
	s := &v1beta1.StageUpdatingStatus{StageName: api.DeleteStage, Clusters: []v1beta1.ClusterUpdatingStatus{}}
	if p.Run.State == stages.Completed {
		s.StartTime, s.EndTime = api.SecondsOrNil(p.Run.Ended), api.SecondsOrNil(p.Run.Ended)
		s.Conditions = p.stageSucceeded(p.Run.Ended, p.Run.Ended)
	}
	return s
}

// addLeft adds to the removal stage the clusters that had left the fleet when the plan was made.
// The run does nothing on them. Their conditions appear once the run has completed, like
// KubeFleet's conditions about deleted bindings.
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

// RunName returns the name of the object of another run of the placement.
func RunName(run string) string {
	if _, name, ok := kubefleet.ObjectName(run); ok {
		return name
	}
	return run
}

// indexText returns the API's text for an index, empty for none.
func indexText(index int) string {
	if index < 0 {
		return ""
	}
	return strconv.Itoa(index)
}

// ChangesAt returns when the status of a run changes without an event: when a cluster will have
// taken too long. It is zero if none will.
func ChangesAt(f *RunFacts) time.Time {
	if f.Run.State != stages.Running {
		return time.Time{}
	}
	var at stages.Instant
	eachBegun(f.Run, func(_ int, since stages.Instant) {
		if late := since.Add(stuckAfter); late > stages.At(f.Now) && (at == 0 || late < at) {
			at = late
		}
	})
	return at.Time()
}

// RollbackPoll is the interval between checks whether the engine has started a requested rollback.
const RollbackPoll = time.Second

// RollbackFacts are the facts about the rollback of a run.
type RollbackFacts struct {
	// Engine is the engine's answer; the zero value if it was not asked.
	Engine fleet.Rollback
	// Of is the object, Told its condition about the rollback, and ToldRun the rollback run in its
	// status.
	Of      api.Key
	Told    api.Condition
	ToldRun string
	// Refusal is the reason why the engine now refuses the rollback that spec.state asks for.
	Refusal string
	// Hidden is the reason why the rollback run has no object; empty if it has one.
	Hidden string
}

// Read copies the facts that the object has.
func (b *RollbackFacts) Read(obj *unstructured.Unstructured) {
	b.Of, b.Told = api.KeyOf(obj), api.ConditionOf(obj, api.ConditionRollback)
	b.ToldRun, _, _ = unstructured.NestedString(obj.Object, "status", "rollbackRunName")
}

// run returns the name of the rollback run's object, "" if there is no such run yet.
func (b *RollbackFacts) run() string {
	if b.Engine.By == "" || b.Engine.Pending {
		return ""
	}
	return api.RollbackShown(b.Of, b.Engine.By)
}

// refusedBefore reports whether the rollback that this generation of the spec asks for was refused.
func (b *RollbackFacts) refusedBefore(generation int64) bool {
	return b.Told.Is("False", generation) && b.Told.Reason == api.ReasonRollbackRefused
}

// isUnderway reports whether a rollback was requested and the engine has not decided or started it.
func (b *RollbackFacts) isUnderway(run *step.Run) bool {
	return b.Engine.Pending || run.Form(runstate.Key{}).RollbackRequest != nil && b.Engine.By == "" && b.Engine.Refused == ""
}

// Asks reports whether the hub must ask the engine for a rollback: once for each generation of a
// spec with state Rollback, and again if the run ended before it processed the request. If the
// status does not show the rollback run yet, the hub writes that first, because it may have died
// between the request and that write.
func (b *RollbackFacts) Asks(state v1beta1.State, generation int64, s *fleet.Status) bool {
	switch {
	case state != v1beta1.StateRollback || b.isUnderway(&s.Run):
		return false
	case b.Told.Is("Unknown", generation):
		return s.Run.Final(s.Plan) && b.Engine.By == ""
	case b.run() != "" && b.run() != b.ToldRun:
		return false
	default:
		return b.Told.ObservedGeneration != generation
	}
}

// rollbackConditions returns the condition about the rollback of the run, none if there is no
// rollback and no request for one.
func (p *runBuilder) rollbackConditions() []metav1.Condition {
	b := &p.Rollback
	switch asked := p.State == v1beta1.StateRollback; {
	case b.Refusal != "":
		return p.rollback("False", api.ReasonRollbackRefused, NotRolledBack+b.Refusal)
	case asked && b.refusedBefore(p.Generation) && !b.isUnderway(p.Run):
		return p.rollback("False", api.ReasonRollbackRefused, b.Told.Message)
	case b.isUnderway(p.Run):
		return p.rollback("Unknown", api.ReasonRollbackRequested, "The update run is about to be rolled back")
	case p.Rollback.run() != "":
		return p.rollback("True", api.ReasonRollbackStarted, "The update run is rolled back by updateRun "+p.Rollback.run()+b.Hidden)
	case b.Engine.Refused != "":
		return p.rollback("False", api.ReasonRollbackRefused, NotRolledBack+b.Engine.Refused)
	case asked:
		return p.rollback("Unknown", api.ReasonRollbackRequested, "The update run is about to be rolled back")
	default:
		return nil
	}
}

// rollback returns the condition. If its status has not changed, it keeps its time.
func (p *runBuilder) rollback(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	since := stages.At(p.Now)
	if p.Rollback.Told.Status == string(status) && !p.Rollback.Told.Since.IsZero() {
		since = stages.At(p.Rollback.Told.Since)
	}
	return []metav1.Condition{p.condition(api.ConditionRollback, status, reason, message, since)}
}

// RollbackNow returns the condition about the rollback of the run, or none.
func (f *RunFacts) RollbackNow() []metav1.Condition {
	p := runBuilder{RunFacts: f, conditions: conditions{observedGeneration: f.Generation}}
	return p.rollbackConditions()
}

// RollbackAgain returns the time after which the run must be reconciled again because of its
// rollback, 0 if that is unnecessary. A requested rollback is polled: its outcome is in the record
// of the placement, and no watch of that record wakes the run.
func (f *RunFacts) RollbackAgain() time.Duration {
	now := f.RollbackNow()
	if len(now) > 0 && now[0].Status == metav1.ConditionUnknown {
		return RollbackPoll
	}
	return 0
}

// RollbackIsTold reports whether the object already has the current condition about the rollback.
func (f *RunFacts) RollbackIsTold() bool {
	now := f.RollbackNow()
	if len(now) == 0 {
		return f.Rollback.Told.Status == ""
	}
	b := &f.Rollback.Told
	return b.Is(string(now[0].Status), f.Generation) && b.Reason == now[0].Reason && b.Message == now[0].Message
}

// brought returns the shown index of the snapshot that a run brings; -1 if a rollback run returns
// clusters to several snapshots or to none.
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

// isLast reports whether the stage is the removal stage. A rollback plan has none: it cleans
// clusters in its ordinary stages.
func isLast(p *stages.Plan, stage int) bool { return p.Stages[stage].Remove && p.Rollback == nil }

// eachBegun calls do for each cluster that has started and not ended, with its start. It omits
// soaking clusters, because a healthy cluster soaks as long as its strategy says.
func eachBegun(of *step.Run, do func(pos int, since stages.Instant)) {
	run := of.Form(runstate.Key{})
	for i := range run.InFlight {
		if f := &run.InFlight[i]; f.Attempt != 0 && f.Phase != stages.Soaking {
			do(f.Pos, f.Started)
		}
	}
	for i := range run.Waiting {
		if y := &run.Waiting[i]; y.Since != 0 {
			do(y.Pos, y.Since)
		}
	}
}

// NotRolledBack begins the message of the condition RollbackStarted if a rollback is refused.
const NotRolledBack = "The update run is not rolled back: "
