package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ClusterApprovalRequest asks people whether a ClusterStagedUpdateRun may pass a gate. The hub creates it when the run
// reaches the gate. The condition Approved or Rejected in its status answers it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=clusterapprovalrequests,scope=Cluster,shortName=careq,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Update-Run",type=string,JSONPath=`.spec.parentStageRollout`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.spec.targetStage`
// +kubebuilder:printcolumn:name="Approved",type=string,JSONPath=`.status.conditions[?(@.type=="Approved")].status`
// +kubebuilder:printcolumn:name="ApprovalAccepted",type=string,JSONPath=`.status.conditions[?(@.type=="ApprovalAccepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Rejected",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Rejected")].status`
// +kubebuilder:printcolumn:name="Approved-By",type=string,priority=1,JSONPath=`.status.approvedBy.username`
// +kubebuilder:printcolumn:name="Attempt",type=integer,priority=1,JSONPath=`.spec.attempt`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'ApprovalAccepted' && c.status == 'True') || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'ApprovalAccepted' && c.status == 'True') && self.status.conditions.filter(c, c.type == 'Approved' || c.type == 'Rejected') == oldSelf.status.conditions.filter(c, c.type == 'Approved' || c.type == 'Rejected'))",message="the approval has been accepted and cannot be reverted"
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.conditions) || self.status.conditions.filter(c, (c.type == 'Approved' || c.type == 'Rejected') && c.status == 'True').size() < 2",message="a request cannot be both Approved and Rejected"
type ClusterApprovalRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The question. It cannot be changed.
	Spec ApprovalRequestSpec `json:"spec"`
	// The answers. The API server's admission writes who gave them, whatever a client says.
	Status ApprovalRequestStatus `json:"status,omitzero"`
}

// ClusterApprovalRequestList is a list of ClusterApprovalRequests.
//
// +kubebuilder:object:root=true
type ClusterApprovalRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ClusterApprovalRequest `json:"items"`
}

// ApprovalRequest asks people whether a StagedUpdateRun may pass a gate. The hub creates it when the run reaches the
// gate. The condition Approved or Rejected in its status answers it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=approvalrequests,scope=Namespaced,shortName=areq,categories={fleet,fleet-placement}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Update-Run",type=string,JSONPath=`.spec.parentStageRollout`
// +kubebuilder:printcolumn:name="Stage",type=string,JSONPath=`.spec.targetStage`
// +kubebuilder:printcolumn:name="Approved",type=string,JSONPath=`.status.conditions[?(@.type=="Approved")].status`
// +kubebuilder:printcolumn:name="ApprovalAccepted",type=string,JSONPath=`.status.conditions[?(@.type=="ApprovalAccepted")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Rejected",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Rejected")].status`
// +kubebuilder:printcolumn:name="Approved-By",type=string,priority=1,JSONPath=`.status.approvedBy.username`
// +kubebuilder:printcolumn:name="Attempt",type=integer,priority=1,JSONPath=`.spec.attempt`
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.conditions) || !oldSelf.status.conditions.exists(c, c.type == 'ApprovalAccepted' && c.status == 'True') || (has(self.status) && has(self.status.conditions) && self.status.conditions.exists(c, c.type == 'ApprovalAccepted' && c.status == 'True') && self.status.conditions.filter(c, c.type == 'Approved' || c.type == 'Rejected') == oldSelf.status.conditions.filter(c, c.type == 'Approved' || c.type == 'Rejected'))",message="the approval has been accepted and cannot be reverted"
// +kubebuilder:validation:XValidation:rule="!has(self.status) || !has(self.status.conditions) || self.status.conditions.filter(c, (c.type == 'Approved' || c.type == 'Rejected') && c.status == 'True').size() < 2",message="a request cannot be both Approved and Rejected"
type ApprovalRequest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The question. It cannot be changed.
	Spec ApprovalRequestSpec `json:"spec"`
	// The answers. The API server's admission writes who gave them, whatever a client says.
	Status ApprovalRequestStatus `json:"status,omitzero"`
}

// ApprovalRequestList is a list of ApprovalRequests.
//
// +kubebuilder:object:root=true
type ApprovalRequestList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []ApprovalRequest `json:"items"`
}

// ApprovalRequestSpec names the gate, and everything that an approval covers.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="The spec field is immutable"
type ApprovalRequestSpec struct {
	// The name of the run.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	TargetUpdateRun string `json:"parentStageRollout"`
	// The stage of the gate.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	TargetStage string `json:"targetStage"`
	// Whether the gate is before or after the stage. Not in KubeFleet.
	When ApprovalTime `json:"when,omitempty"`
	// The UID of the run. It differs if a run of the same name is created again. Not in KubeFleet.
	// +kubebuilder:validation:MaxLength=128
	RunUID string `json:"runUID,omitempty"`
	// The attempt of the run that reached the gate. Not in KubeFleet.
	// +kubebuilder:validation:Minimum=0
	Attempt int32 `json:"attempt,omitempty"`
	// The digest of the plan, which covers everything that will be applied. Not in KubeFleet.
	// +kubebuilder:validation:MaxLength=128
	PlanDigest string `json:"planDigest,omitempty"`
	// The placement. Not in KubeFleet.
	// +kubebuilder:validation:MaxLength=255
	PlacementName string `json:"placementName,omitempty"`
	// The index of the snapshot that is rolled out. Not in KubeFleet.
	// +kubebuilder:validation:MaxLength=10
	ResourceSnapshotIndex string `json:"resourceSnapshotIndex,omitempty"`
	// The user who created the run, if known. Not in KubeFleet.
	StartedBy *Identity `json:"startedBy,omitempty"`
	// Who must approve. Not in KubeFleet.
	Policy *ApprovalPolicy `json:"policy,omitempty"`
	// When the request expires. Without it the request never expires. Not in KubeFleet.
	Expires *metav1.Time `json:"expires,omitempty"`
}

// ApprovalTime says whether a gate stands before or after its stage. Not in KubeFleet.
//
// +kubebuilder:validation:Enum=Before;After
type ApprovalTime string

// The sides of a stage.
const (
	// ApprovalBefore is before the first cluster of the stage.
	ApprovalBefore ApprovalTime = "Before"
	// ApprovalAfter is after the last cluster of the stage.
	ApprovalAfter ApprovalTime = "After"
)

// ApprovalPolicy says who must approve. Without a policy, one person who may approve requests must,
// and that may be the person who started the run. Not in KubeFleet.
type ApprovalPolicy struct {
	// The numbers of people that must approve, by group. All quorums must be met. A person counts once in each,
	// unless distinctApprovers is true.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, (has(a.group) ? a.group : '') == (has(b.group) ? b.group : '')))",message="the groups of quorums must be unique"
	Quorums []ApprovalQuorum `json:"quorums,omitempty"`
	// If true, the starter of the run must not approve, and no approval counts if the starter is unknown.
	ForbidStarter bool `json:"forbidStarter,omitempty"`
	// If true, a person counts in one quorum only, so that nobody approves for two groups.
	DistinctApprovers bool `json:"distinctApprovers,omitempty"`
	// How long a request may be answered, at most 8760h. Without it a request never expires.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(?:(?:0|[1-9][0-9]*)(\.[0-9]+)?(?:s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('8760h')",message="expires must be at most 8760h"
	Expires *metav1.Duration `json:"expires,omitempty"`
	// Whether an answer must name the generation of the request that it is about.
	RequireBinding bool `json:"requireBinding,omitempty"`
}

// ApprovalQuorum says how many people of a group must approve. Not in KubeFleet.
type ApprovalQuorum struct {
	// The group of the people; empty for everybody.
	// +kubebuilder:validation:MaxLength=512
	Group string `json:"group,omitempty"`
	// How many different people must approve.
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`
}

// Identity is a user whom the API server authenticated. Not in KubeFleet.
type Identity struct {
	// The name of the user.
	Username string `json:"username"`
	// The unique identifier, if the authenticator knows one.
	UID string `json:"uid,omitempty"`
	// The groups of the user.
	// +listType=atomic
	Groups []string `json:"groups,omitempty"`
}

// ApprovalRequestStatus has the answers to a request.
type ApprovalRequestStatus struct {
	// The author of the condition Approved while it is True. Not in KubeFleet.
	ApprovedBy *Identity `json:"approvedBy,omitempty"`
	// The author of the condition Rejected while it is True. Not in KubeFleet.
	RejectedBy *Identity `json:"rejectedBy,omitempty"`
	// The answers in their order: the first approval and the first rejection of each person. Several people may have
	// to approve. Not in KubeFleet.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Decisions []ApprovalDecision `json:"decisions,omitempty"`
	// Approved and Rejected by people, ApprovalAccepted by the hub.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ApprovalDecision is the answer of a person. Not in KubeFleet.
type ApprovalDecision struct {
	// The answer.
	Verdict ApprovalVerdict `json:"verdict"`
	// The author of the answer.
	By Identity `json:"by"`
	// The message of the condition, cut to this length.
	// +kubebuilder:validation:MaxLength=1024
	Comment string `json:"comment,omitempty"`
	// The reason of the condition.
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
}

// ApprovalVerdict is an answer to a request. Not in KubeFleet.
//
// +kubebuilder:validation:Enum=Approve;Reject
type ApprovalVerdict string

// The answers.
const (
	ApprovalApprove ApprovalVerdict = "Approve"
	ApprovalReject  ApprovalVerdict = "Reject"
)
