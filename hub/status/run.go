// Package status makes what the hub shows: facts in, the status of an object, or the whole object, out. It does no I/O, so
// that the same facts give the same status, whichever hub makes it; times are those of facts, not of now.
//
// The documents have KubeFleet's fields, condition types and reasons, see package hub for what is Slipway's own. Lists are
// bounded: Listed clusters, 30 KiB of a message, 128 KiB of names of overrides.
package status

import (
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// defaultListed is how many clusters a status lists where nothing else is said.
const defaultListed = 100

// RunFacts are what the status of a run is made of: the object, and the run and
// the plan that the engine has for it.
type RunFacts struct {
	// Name, Namespace and Generation are those of the object.
	Name, Namespace string
	Generation      int64
	// State is the object's spec.state.
	State kubefleet.State

	Run  *stages.Run
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
	// Rollback is what is known of taking the run back.
	Rollback RollbackFacts
	// Overrides are those in the snapshots that the plan brings, by index, Members the
	// clusters as they are now, by name; nil where there are none.
	Overrides map[int][]FrozenOverride
	Members   map[string]placement.Cluster

	// Listed is how many clusters are listed at most; 0 is defaultListed. Where
	// the plan has more of them, those are listed that are in trouble or in
	// flight.
	Listed int
	// Now says what has taken too long.
	Now time.Time
}

// RunStatus is the status of a ClusterStagedUpdateRun.
type RunStatus struct {
	Conditions       []metav1.Condition `json:"conditions,omitempty"`
	PolicyIndex      string             `json:"policySnapshotIndexUsed,omitempty"`
	ObservedClusters int                `json:"policyObservedClusterCount,omitempty"`
	ResourceIndex    string             `json:"resourceSnapshotIndexUsed,omitempty"`
	PlanDigest       string             `json:"planDigest,omitempty"`
	StartedBy        *approver          `json:"startedBy,omitempty"`
	Apply            *applyStrategy     `json:"appliedStrategy,omitempty"`
	Strategy         *updateStrategy    `json:"stagedUpdateStrategySnapshot,omitempty"`
	Stages           []stageStatus      `json:"stagesStatus,omitempty"`
	Deletion         *stageStatus       `json:"deletionStageStatus,omitempty"`
	Counts           *clusterCounts     `json:"clusterCounts,omitempty"`
	Listing          *clusterListing    `json:"clusterListing,omitempty"`
	Events           int64              `json:"observedEvents,omitempty"`
	RollbackRun      string             `json:"rollbackRunName,omitempty"`
}

// stageStatus is what a stage has come to.
type stageStatus struct {
	Name       string             `json:"stageName"`
	Clusters   []clusterStatus    `json:"clusters"`
	Before     []taskStatus       `json:"beforeStageTaskStatus,omitempty"`
	After      []taskStatus       `json:"afterStageTaskStatus,omitempty"`
	Start      *metav1.Time       `json:"startTime,omitempty"`
	End        *metav1.Time       `json:"endTime,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Counts     *clusterCounts     `json:"clusterCounts,omitempty"`
}

// clusterStatus is what a cluster has come to.
type clusterStatus struct {
	Name string `json:"clusterName"`
	// Index is that of the snapshot that the cluster goes back to.
	Index string `json:"resourceSnapshotIndex,omitempty"`
	// ClusterOverrides and Overrides name the objects that show the overrides in the
	// snapshot of which a rule selects the cluster.
	ClusterOverrides []string                   `json:"clusterResourceOverrideSnapshots,omitempty"`
	Overrides        []kubefleet.NamespacedName `json:"resourceOverrideSnapshots,omitempty"`
	Conditions       []metav1.Condition         `json:"conditions,omitempty"`
}

// taskStatus is what a task before or after a stage has come to.
type taskStatus struct {
	Type       stages.TaskType    `json:"type"`
	Request    string             `json:"approvalRequestName,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// clusterCounts count every cluster, also where not every one is listed. What
// has not started is what is missing to the total.
type clusterCounts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	InFlight  int `json:"inFlight"`
	Failed    int `json:"failed"`
	Skipped   int `json:"skipped"`
	// Waiting are those that gave their slot back and are tried again later.
	Waiting int `json:"waiting"`
}

func (c *clusterCounts) add(o *clusterCounts) {
	c.Total += o.Total
	c.Completed += o.Completed
	c.InFlight += o.InFlight
	c.Failed += o.Failed
	c.Skipped += o.Skipped
	c.Waiting += o.Waiting
}

// clusterListing says that not every cluster is listed.
type clusterListing struct {
	Listed  int    `json:"listed"`
	Total   int    `json:"total"`
	Message string `json:"message"`
}

// Run is the status of a run. It is the same whenever it is made from the
// same facts, but for what has taken too long: see changesAt. What it costs
// grows with the clusters in flight and the exceptions, not with the fleet.
func Run(f *RunFacts) *RunStatus {
	p := projectionOf(f)
	s := &RunStatus{
		Conditions:       append(p.runConditions(), p.rollbackConditions()...),
		PolicyIndex:      indexText(f.Policy),
		ObservedClusters: p.observed(),
		ResourceIndex:    indexText(brought(f.Plan)),
		PlanDigest:       f.Plan.Digest,
		StartedBy:        startedBy(f.Run),
		Apply:            applyStrategyOf(f.Placement),
		Strategy:         updateStrategyOf(&f.Plan.Strategy),
		Counts:           &clusterCounts{},
		Listing:          p.listing(),
		Events:           f.Events,
		RollbackRun:      f.Rollback.run(),
	}
	for i := range f.Plan.Stages {
		st := p.stage(i)
		s.Counts.add(st.Counts)
		if isLast(f.Plan, i) {
			s.Deletion = &st
		} else {
			s.Stages = append(s.Stages, st)
		}
	}
	if s.Deletion == nil {
		s.Deletion = p.nothingToDelete()
	}
	return s
}

// startedBy is who started a run, nil where that is not known.
func startedBy(run *stages.Run) *approver {
	if run.Starter.Name == "" {
		return nil
	}
	return &approver{Username: run.Starter.Name, Groups: run.Starter.Groups}
}

// InitializeFailed is the status of a run that cannot be planned, for
// whatever is wrong with what it asks for. It is the end of the run.
func InitializeFailed(_ api.Scope, generation int64, at stages.Instant, err error) *RunStatus {
	message := "cannot continue the updateRun: failed to validate the updateRun: " + err.Error()
	return onlyCondition(teller{generation, at}.no(api.ConditionInitialized, api.ReasonInitializeFailed, message, at))
}

// Initializing is the status of a run that cannot be planned yet, because
// something failed that may work the next time.
func Initializing(_ api.Scope, generation int64, at stages.Instant, err error) *RunStatus {
	return onlyCondition(teller{generation, at}.unknown(api.ConditionInitialized, api.ReasonInitializing, "the updateRun is tried again: "+err.Error(), at))
}

// Forgotten is the status of a run whose record is gone before its end was
// told.
func Forgotten(_ api.Scope, generation int64, at stages.Instant, err error) *RunStatus {
	return onlyCondition(teller{generation, at}.unknown(api.ConditionSucceeded, api.ReasonRunForgotten, err.Error(), at))
}

func onlyCondition(c metav1.Condition) *RunStatus {
	return &RunStatus{Conditions: []metav1.Condition{c}}
}

// projection is a run that is being projected.
type projection struct {
	*RunFacts
	teller
	// counts and sights are by stage.
	counts []clusterCounts
	sights [][]sight
	listed int
	// names is the room for names of overrides.
	names int
}

func projectionOf(f *RunFacts) *projection {
	if f.Listed == 0 {
		f.Listed = defaultListed
	}
	if f.History == nil {
		f.History = &RunHistory{}
	}
	p := &projection{RunFacts: f, teller: teller{generation: f.Generation, birth: max(f.Run.Created, 1)}, names: shownOverrides}
	p.count()
	p.see()
	return p
}

func (p *projection) scope() api.Scope { return p.Namespace != "" }

// observed counts the clusters that are updated rather than cleaned.
func (p *projection) observed() int {
	n := p.Plan.Len()
	for i := range p.Plan.Stages {
		if p.Plan.Stages[i].Remove {
			n -= p.counts[i].Total
		}
	}
	return n
}

// listing is nil where every cluster is listed.
func (p *projection) listing() *clusterListing {
	if p.Plan.Len() <= p.Listed {
		return nil
	}
	return &clusterListing{
		Listed: p.listed, Total: p.Plan.Len(),
		Message: "Only clusters that failed, are in flight, wait or were skipped are listed, " + strconv.Itoa(p.Listed) +
			" at most; what became of every other one is in the run's journal: Engine.Explain, Engine.History",
	}
}

// nothingToDelete is the stage of a run that has no cluster to clean.
func (p *projection) nothingToDelete() *stageStatus {
	s := &stageStatus{Name: api.DeleteStage, Clusters: []clusterStatus{}}
	if p.Run.State == stages.Completed {
		s.Start, s.End = secondsOrNil(p.Run.Ended), secondsOrNil(p.Run.Ended)
		s.Conditions = p.stageSucceeded(p.Run.Ended, p.Run.Ended)
	}
	return s
}

// Shown is the name of another run of the placement, as its object has it.
func Shown(run string) string {
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
