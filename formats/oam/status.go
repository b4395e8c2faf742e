package oam

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/formats/problem"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// The phases of an application.
const (
	Starting           = "starting"
	RunningWorkflow    = "runningWorkflow"
	WorkflowSuspending = "workflowSuspending"
	WorkflowTerminated = "workflowTerminated"
	WorkflowFailed     = "workflowFailed"
	ApplicationRunning = "running"
)

// The phases of a workflow and of its steps. A step is never initializing,
// executing or terminated, a workflow never pending, running or skipped.
const (
	Initializing = "initializing"
	Executing    = "executing"
	Suspending   = "suspending"
	Terminated   = "terminated"
	PhaseFailed  = "failed"
	Succeeded    = "succeeded"
	PhasePending = "pending"
	PhaseRunning = "running"
	PhaseSkipped = "skipped"
)

// The reasons of a step's phase.
const (
	ReasonWait         = "Wait"
	ReasonSkip         = "Skip"
	ReasonExecute      = "Execute"
	ReasonSuspend      = "Suspend"
	ReasonTerminate    = "Terminate"
	ReasonFailedAfter  = "FailedAfterRetries"
	ReasonTimeout      = "Timeout"
	reasonReconcileErr = "ReconcileError"
)

// AppStatus is the status of an Application. Encode it with encoding/json.
type AppStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// Phase is the phase of the application.
	Phase string `json:"status,omitempty"`
	// Services are the components on the clusters that the run has reached, unhealthy ones first, at
	// most [MaxServices].
	Services       []Service       `json:"services,omitempty"`
	Workflow       *WorkflowStatus `json:"workflow,omitempty"`
	LatestRevision *Revision       `json:"latestRevision,omitempty"`
}

// MaxServices is the greatest number of services in a status.
const MaxServices = 100

// Service is a component on a cluster.
type Service struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// WorkloadDefinition is the kind of the component's first object.
	WorkloadDefinition WorkloadDefinition `json:"workloadDefinition,omitzero"`
	Healthy            bool               `json:"healthy"`
	Message            string             `json:"message,omitempty"`
}

// WorkloadDefinition is a kind.
type WorkloadDefinition struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// Revision is a frozen release.
type Revision struct {
	Name string `json:"name"`
	// Revision is the index of the snapshot plus 1, RevisionHash the digest of the plan.
	Revision     int64  `json:"revision"`
	RevisionHash string `json:"revisionHash,omitempty"`
}

// WorkflowStatus is the status of a workflow.
type WorkflowStatus struct {
	AppRevision string      `json:"appRevision,omitempty"`
	Mode        string      `json:"mode"`
	Phase       string      `json:"status"`
	Message     string      `json:"message,omitempty"`
	Suspend     bool        `json:"suspend"`
	Terminated  bool        `json:"terminated"`
	Finished    bool        `json:"finished"`
	StartTime   *time.Time  `json:"startTime,omitempty"`
	EndTime     *time.Time  `json:"endTime,omitempty"`
	Steps       []StepState `json:"steps,omitempty"`
}

// StepState is the status of a step, with the steps of a step-group.
type StepState struct {
	StepStatus
	SubSteps []StepStatus `json:"subSteps,omitempty"`
}

// StepStatus is the status of a step.
type StepStatus struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"type"`
	Phase   string `json:"phase"`
	Message string `json:"message,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// FirstExecuteTime is when the run reached the step. LastExecuteTime is when the step ended, or
	// when the run was last saved.
	FirstExecuteTime *time.Time `json:"firstExecuteTime,omitempty"`
	LastExecuteTime  *time.Time `json:"lastExecuteTime,omitempty"`
}

// Record is the data for the status of an application: its release, and its run with the plan, as
// in a fleet.Status. Run and Plan are nil if there is no run yet. The functions of this package do
// not change it.
type Record struct {
	Release *Release
	Run     *step.Run
	Plan    *stages.Plan
}

// NewStatus returns the status of an application.
func NewStatus(rec Record) AppStatus {
	if rec.Run == nil || rec.Plan == nil {
		return AppStatus{Phase: Starting}
	}
	w := newWalk(rec)
	out := AppStatus{Phase: rec.appPhase(), Services: rec.services(), Workflow: w.status()}
	out.LatestRevision = &Revision{
		Name: rec.Run.Name, Revision: int64(rec.Plan.Index) + 1, RevisionHash: rec.Plan.Digest[:min(16, len(rec.Plan.Digest))],
	}
	return out
}

// Refused returns the status of an application that cannot begin, with the error of [Publish] or of
// the engine, and the time of the error. It keeps the status of an older version.
func Refused(old AppStatus, err error, at time.Time) AppStatus {
	message := err.Error()
	var problems problem.List
	if errors.As(err, &problems) && len(problems) > 0 {
		message = problems.Error()
	}
	old.Conditions = []metav1.Condition{{
		Type: "Parsed", Status: metav1.ConditionFalse, Reason: reasonReconcileErr, Message: message, LastTransitionTime: metav1.NewTime(at),
	}}
	if old.Phase == "" {
		old.Phase = Starting
	}
	return old
}

// workflowPhase returns the phase of the workflow.
func (rec Record) workflowPhase() string {
	switch r := rec.Run; r.State {
	case stages.NotStarted, stages.Pending:
		return Initializing
	case stages.Completed:
		return Succeeded
	case stages.Failed:
		return PhaseFailed
	case stages.Aborted, stages.Superseded:
		return Terminated
	default:
		if rec.suspended() {
			return Suspending
		}
		return Executing
	}
}

func (rec Record) appPhase() string {
	switch rec.workflowPhase() {
	case Initializing:
		return Starting
	case Suspending:
		return WorkflowSuspending
	case Terminated:
		return WorkflowTerminated
	case PhaseFailed:
		return WorkflowFailed
	case Succeeded:
		return ApplicationRunning
	default:
		return RunningWorkflow
	}
}

// suspended reports whether the workflow waits only for a resume or for a suspend step.
func (rec Record) suspended() bool {
	r := rec.Run
	switch {
	case r.State == stages.Stopped, r.State == stages.Stopping && r.Ending == stages.Stopped:
		return true
	case r.State != stages.Running || len(rec.gates()) == 0:
		return false
	}
	for i := range r.Form(runstate.Key{}).InFlight {
		if r.Form(runstate.Key{}).InFlight[i].Attempt != 0 {
			return false
		}
	}
	return true
}

// terminated reports whether the workflow has ended, except for steps that always run.
func (rec Record) terminated() bool {
	switch rec.Run.State {
	case stages.Failed, stages.Aborted, stages.Superseded:
		return true
	case stages.Stopping:
		return rec.Run.Ending != stages.Stopped
	default:
		return rec.Run.Form(runstate.Key{}).Closing != nil
	}
}

// services returns the components on the clusters that the run has reached.
func (rec Record) services() []Service {
	slots := map[int]*runstate.InFlight{}
	for i := range rec.Run.Form(runstate.Key{}).InFlight {
		if f := &rec.Run.Form(runstate.Key{}).InFlight[i]; f.Attempt != 0 {
			slots[f.Pos] = f
		}
	}
	var sick, well []Service
	for pos, state := range rec.Run.States(rec.Plan) {
		if stage, _ := rec.Plan.StageOf(pos); rec.Plan.Stages[stage].Remove {
			break
		}
		healthy, message := true, ""
		switch f := slots[pos]; {
		case f != nil:
			healthy, message = f.Phase == stages.Soaking, f.Message
		case state == stages.Failed:
			healthy = false
			if e, err := step.Explain(rec.Plan, rec.Run, rec.Plan.Clusters[pos].Name); err == nil {
				message = e.Reason
			}
		case state != stages.Completed:
			continue
		}
		if !healthy && len(sick) < MaxServices {
			sick = append(sick, rec.on(pos, healthy, message)...)
		} else if healthy && len(well) < MaxServices {
			well = append(well, rec.on(pos, healthy, message)...)
		}
	}
	all := append(sick, well...)
	return all[:min(len(all), MaxServices)]
}

// on returns the components on a cluster.
func (rec Record) on(pos int, healthy bool, message string) (list []Service) {
	for _, c := range rec.Release.Components {
		s := Service{Name: c.Name, Namespace: rec.Release.Namespace, Cluster: rec.Plan.Clusters[pos].Name, Healthy: healthy, Message: message}
		if len(c.Objects) > 0 {
			gvk := c.Objects[0].gvk()
			s.WorkloadDefinition = WorkloadDefinition{gvk.GroupVersion().String(), gvk.Kind}
		}
		list = append(list, s)
	}
	return list
}
