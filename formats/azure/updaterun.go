package azure

import "time"

// UpdateRun is an update run with its status, in the form of az fleet updaterun show.
// [NewUpdateRun] makes one. Encode it with encoding/json.
type UpdateRun struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Update is the update of the run's members.
	Update           Update  `json:"managedClusterUpdate"`
	ResourceGroup    string  `json:"resourceGroup,omitempty"`
	Status           Status  `json:"status"`
	UpdateStrategyID *string `json:"updateStrategyId"`
	// Strategy is null if members are updated one by one.
	Strategy *Strategy `json:"strategy"`
}

// Status is the status of a run, in Azure's form.
type Status struct {
	FailureCount int `json:"failureCount"`
	// NodeImages is null unless the selection is Consistent.
	NodeImages *SelectedImages `json:"nodeImageSelection"`
	Stages     []StageStatus   `json:"stages"`
	Status     UpdateStatus    `json:"status"`
}

// SelectedImages are the chosen images of a run, in Azure's form.
type SelectedImages struct {
	Versions []NodeImageVersion `json:"selectedNodeImageVersions"`
}

// UpdateStatus is the state of a run or of a part of it, in Azure's form.
type UpdateStatus struct {
	CompletedTime *time.Time `json:"completedTime"`
	Error         *Error     `json:"error"`
	StartTime     *time.Time `json:"startTime"`
	// State is NotStarted, Pending, Running, Stopping, Stopped, Skipped, Failed or
	// Completed.
	State string `json:"state"`
}

// Error is the reason of a failure, in Azure's form.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The codes of errors.
const (
	// CodeFailed is the code of a failed run, stage, group or member.
	CodeFailed = "UpdateFailed"
	// CodePending is the code of a waiting member with a known reason.
	CodePending = "UpdatePending"
	// CodeEnded is the code of a run that was aborted or superseded, for which Azure has no state.
	CodeEnded = "UpdateEnded"
)

// StageStatus is the status of a stage, in Azure's form.
type StageStatus struct {
	AfterGates  []GateStatus `json:"afterGates"`
	Wait        *WaitStatus  `json:"afterStageWaitStatus"`
	BeforeGates []GateStatus `json:"beforeGates"`
	// FailureCount is the number of failed members, MaxAllowedFailures the allowed number: -1 if
	// there is no limit. MaxConcurrency is 0 if there is no limit.
	FailureCount       int           `json:"failureCount"`
	Groups             []GroupStatus `json:"groups"`
	MaxAllowedFailures int           `json:"maxAllowedFailures"`
	MaxConcurrency     int           `json:"maxConcurrency"`
	Name               string        `json:"name"`
	Status             UpdateStatus  `json:"status"`
}

// GroupStatus is the status of a group, in Azure's form. Numbers are as in [StageStatus].
type GroupStatus struct {
	AfterGates         []GateStatus   `json:"afterGates"`
	BeforeGates        []GateStatus   `json:"beforeGates"`
	FailureCount       int            `json:"failureCount"`
	MaxAllowedFailures int            `json:"maxAllowedFailures"`
	MaxConcurrency     int            `json:"maxConcurrency"`
	Members            []MemberStatus `json:"members"`
	Name               string         `json:"name"`
	Status             UpdateStatus   `json:"status"`
}

// MemberStatus is the status of a member, in Azure's form.
type MemberStatus struct {
	ClusterResourceID string `json:"clusterResourceId"`
	// Message says why the member failed, was skipped, or waits.
	Message *string      `json:"message"`
	Name    string       `json:"name"`
	Status  UpdateStatus `json:"status"`
}

// WaitStatus is the status of the wait after a stage, in Azure's form.
type WaitStatus struct {
	Status   UpdateStatus `json:"status"`
	Duration int          `json:"waitDurationInSeconds"`
}

// GateStatus is the status of a gate, in Azure's form.
type GateStatus struct {
	DisplayName *string `json:"displayName"`
	// GateID is null before the run has reached the gate. For an Approval it is the name of the
	// request; for a ScheduledStart it is the target of a CompleteGate, which is the stage or
	// <stage>/<group>.
	GateID *string      `json:"gateId"`
	Status UpdateStatus `json:"status"`
	// Type is Approval or ScheduledStart; Azure shows it with the gate itself.
	Type string `json:"type"`
}
