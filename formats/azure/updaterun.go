package azure

import "time"

// UpdateRun is an update run with its status, as az fleet updaterun show prints it.
// [NewUpdateRun] makes one. Encode it with encoding/json.
type UpdateRun struct {
	ID   string `json:"id,omitempty"`
	Name string `json:"name"`
	// Update is what the run does to its members.
	Update           Update  `json:"managedClusterUpdate"`
	ResourceGroup    string  `json:"resourceGroup,omitempty"`
	Status           Status  `json:"status"`
	UpdateStrategyID *string `json:"updateStrategyId"`
	// Strategy is null where members are updated one by one.
	Strategy *Strategy `json:"strategy"`
}

// Status is what a run has come to, in Azure's form.
type Status struct {
	FailureCount int `json:"failureCount"`
	// NodeImages is null but for a selection that is Consistent.
	NodeImages *SelectedImages `json:"nodeImageSelection"`
	Stages     []StageStatus   `json:"stages"`
	Status     UpdateStatus    `json:"status"`
}

// SelectedImages are the images that were chosen for a run, in Azure's form.
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

// Error says what went wrong, in Azure's form.
type Error struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The codes of errors.
const (
	// CodeFailed is that of a run, a stage, a group or a member that has failed.
	CodeFailed = "UpdateFailed"
	// CodePending is that of a member that waits and of which the reason is known.
	CodePending = "UpdatePending"
	// CodeEnded is that of a run that was aborted or superseded, for which Azure has no
	// state.
	CodeEnded = "UpdateEnded"
)

// StageStatus is what a stage has come to, in Azure's form.
type StageStatus struct {
	AfterGates  []GateStatus `json:"afterGates"`
	Wait        *WaitStatus  `json:"afterStageWaitStatus"`
	BeforeGates []GateStatus `json:"beforeGates"`
	// FailureCount is how many members have failed, MaxAllowedFailures how many may: -1
	// where there is no limit. MaxConcurrency is 0 where there is none.
	FailureCount       int           `json:"failureCount"`
	Groups             []GroupStatus `json:"groups"`
	MaxAllowedFailures int           `json:"maxAllowedFailures"`
	MaxConcurrency     int           `json:"maxConcurrency"`
	Name               string        `json:"name"`
	Status             UpdateStatus  `json:"status"`
}

// GroupStatus is what a group has come to, in Azure's form. Numbers are as in
// [StageStatus].
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

// MemberStatus is what a member has come to, in Azure's form.
type MemberStatus struct {
	ClusterResourceID string `json:"clusterResourceId"`
	// Message says why the member failed, was skipped, or waits.
	Message *string      `json:"message"`
	Name    string       `json:"name"`
	Status  UpdateStatus `json:"status"`
}

// WaitStatus is what the wait after a stage has come to, in Azure's form.
type WaitStatus struct {
	Status   UpdateStatus `json:"status"`
	Duration int          `json:"waitDurationInSeconds"`
}

// GateStatus is what a gate has come to, in Azure's form.
type GateStatus struct {
	DisplayName *string `json:"displayName"`
	// GateID is null before the run has come to the gate. It is the name of the request
	// of an Approval; that of a ScheduledStart is what a CompleteGate names, the stage
	// or <stage>/<group>.
	GateID *string      `json:"gateId"`
	Status UpdateStatus `json:"status"`
	// Type is Approval or ScheduledStart; Azure shows it with the gate itself.
	Type string `json:"type"`
}
