package stages

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
)

// Rollback says when a run takes back what it brought, and how. What takes it
// back is a run of its own, of the plan that [RollBack] makes.
type Rollback struct {
	// Causes are what makes a run take back what it brought, besides the command
	// [TakeBack], which always may; none means BudgetExceeded and GateRejected.
	Causes []RollbackCause `json:"causes,omitempty"`
	// New says what becomes of clusters that had nothing of the placement before;
	// RemoveNew when empty.
	New NewClusters `json:"newClusters,omitempty"`
	// Approval, where not nil, is asked for before the first cluster goes back.
	Approval *approval.Policy `json:"approval,omitempty"`
}

// RollbackCause is why a run takes back what it brought.
type RollbackCause string

// The causes.
const (
	// BudgetExceeded: more clusters have failed than a stage or a group may have.
	BudgetExceeded RollbackCause = "BudgetExceeded"
	// GateRejected: somebody rejected a request of the run.
	GateRejected RollbackCause = "GateRejected"
	// OnCommand: somebody asked for it. As the only one in [Rollback].Causes it means
	// that nothing is taken back otherwise.
	OnCommand RollbackCause = "Command"
)

// NewClusters says what becomes of clusters that had nothing before a run.
type NewClusters string

// What may become of them.
const (
	// RemoveNew cleans them, as clusters that left the placement.
	RemoveNew NewClusters = "Remove"
	// LeaveNew leaves them as they are.
	LeaveNew NewClusters = "Leave"
)

// Undo says of a run that what it brought is to be taken back. Such a run ends
// as Failed, in every profile, and is never started again; who drives it then
// plans a run by [RollBack]. A run that is superseded or aborted before it has
// come to that takes nothing back.
type Undo struct {
	Cause RollbackCause `json:"cause"`
	// Run is the name that was asked for of the run which takes back; empty means
	// that whoever plans it chooses one.
	Run string `json:"run,omitempty"`
	// By is who asked; of a cause other than OnCommand, who started the run.
	By approval.Identity `json:"by,omitzero"`
	// Message says what happened, at most 256 bytes.
	Message string `json:"message,omitempty"`
}

// PlannedRollback tells of a plan that it takes back what a run brought.
type PlannedRollback struct {
	// Run, UID and Plan are the name, the UID and the plan's digest of that run.
	Run  string `json:"run"`
	UID  string `json:"uid"`
	Plan string `json:"plan"`
	// Indexes are those of the snapshots that the elements of Plan.Revisions are
	// made of. Where several are the same for a cluster it is the newest.
	Indexes []int `json:"indexes,omitempty"`
	// Kept are the clusters that the run may have changed and that stay as they
	// are, by the reason.
	Kept []KeptClusters `json:"kept,omitempty"`
}

// KeptClusters are clusters that stay as they are for a reason.
type KeptClusters struct {
	Reason string `json:"reason"`
	// Count is how many there are, Clusters the first 500 of them by name.
	Count    int      `json:"count"`
	Clusters []string `json:"clusters"`
}

// maxKept is how many clusters are named that stay as they are for one reason.
const maxKept = 500

// IndexAt returns the index of the snapshot that the cluster at pos gets, -1 for
// one that is cleaned. It is p.Index, but in a plan that takes back.
func (p *Plan) IndexAt(pos int) int {
	switch r := p.Clusters[pos].Revision; {
	case r < 0:
		return -1
	case p.Rollback != nil:
		return p.Rollback.Indexes[r]
	default:
		return p.Index
	}
}

// by tells whether a cause makes a run of the strategy take back what it brought.
func (b *Rollback) by(c RollbackCause) bool {
	switch {
	case b == nil:
		return false
	case c == OnCommand, len(b.Causes) == 0:
		return true
	default:
		return slices.Contains(b.Causes, c)
	}
}

func (b *Rollback) problems(at *field.Path) (errs field.ErrorList) {
	if b == nil {
		return nil
	}
	causes := []RollbackCause{BudgetExceeded, GateRejected, OnCommand}
	for i, c := range b.Causes {
		at := at.Child("causes").Index(i)
		if !slices.Contains(causes, c) {
			errs = append(errs, field.NotSupported(at, c, causes))
		}
		if slices.Contains(b.Causes[:i], c) {
			errs = append(errs, field.Duplicate(at, c))
		}
	}
	if b.New != "" && b.New != RemoveNew && b.New != LeaveNew {
		errs = append(errs, field.NotSupported(at.Child("newClusters"), b.New, []NewClusters{RemoveNew, LeaveNew}))
	}
	if b.Approval != nil {
		errs = append(errs, b.Approval.Problems(at.Child("approval"))...)
	}
	return errs
}

// absent says why a plan does not have a cluster.
func (b *PlannedRollback) absent(cluster string) string {
	if b == nil {
		return "it joined or was picked after the plan was made, and a catch-up run takes it"
	}
	for _, k := range b.Kept {
		if slices.Contains(k.Clusters, cluster) {
			return "it stays as run " + b.Run + " left it: " + k.Reason
		}
	}
	return "run " + b.Run + ", which is taken back, did not change it, or what it had is there again"
}

// asBefore ends the sentence about a cluster that has gone back.
func (b *PlannedRollback) asBefore() string {
	if b == nil {
		return ""
	}
	return ", as before run " + b.Run
}

// follows ends the sentence about a cluster that the run may have changed.
func (u *Undo) follows() string {
	if u == nil {
		return ""
	}
	return "; what the run brought is taken back: " + u.Message
}
