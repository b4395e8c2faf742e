// Package rollback reads and writes rollback policies in the files of other systems, which have
// no rollback of their own. It is the same object in all of them:
//
//	causes: [BudgetExceeded, GateRejected]   # or Command alone; these two where absent
//	newClusters: Remove                      # or Leave
//	approval:                                # without it no approval is requested
//	  quorums: [{group: sre, count: 2}]      # without them anybody, once
//	  forbidStarter: true
//	  distinctApprovers: true
//	  expires: 24h
//	  requireBinding: true
package rollback

import (
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
)

// Form is the written form of a rollback.
type Form struct {
	Causes      []stages.RollbackCause `json:"causes,omitempty"`
	NewClusters stages.NewClusters     `json:"newClusters,omitempty"`
	Approval    *Approval              `json:"approval,omitempty"`
}

// Approval is the written form of the approval before the first cluster is rolled back.
type Approval struct {
	Quorums           []approval.Quorum `json:"quorums,omitempty"`
	ForbidStarter     bool              `json:"forbidStarter,omitempty"`
	DistinctApprovers bool              `json:"distinctApprovers,omitempty"`
	// Expires is a duration such as 24h0m0s.
	Expires        string `json:"expires,omitempty"`
	RequireBinding bool   `json:"requireBinding,omitempty"`
}

// FormOf returns the form of a rollback, nil for nil.
func FormOf(b *stages.RollbackPolicy) *Form {
	if b == nil {
		return nil
	}
	f := &Form{Causes: b.Causes, NewClusters: b.New}
	if p := b.Approval; p != nil {
		f.Approval = &Approval{Quorums: p.Quorums, ForbidStarter: p.ForbidStarter, DistinctApprovers: p.DistinctApprovers, RequireBinding: p.RequireBinding}
		if p.Expires.Duration != 0 {
			f.Approval.Expires = p.Expires.Duration.String()
		}
	}
	return f
}

type (
	value  = yamldoc.Value
	fields = yamldoc.Fields
)

// Read reads a rollback. It leaves duplicate causes to the strategy's own check. Only the fields
// of each quorum are required.
func Read(v yamldoc.Value, required ...string) *stages.RollbackPolicy {
	var b stages.RollbackPolicy
	v.Object(fields{
		"causes":      func(v value) { b.Causes = causes(v) },
		"newClusters": func(v value) { b.New = yamldoc.OneOf(v, stages.RemoveNew, stages.LeaveNew) },
		"approval":    func(v value) { b.Approval = Policy(v, required...) },
	})
	return &b
}

func causes(v value) []stages.RollbackCause {
	list := yamldoc.List(v, func(v value) stages.RollbackCause {
		return yamldoc.OneOf(v, stages.BudgetExceeded, stages.GateRejected, stages.OnCommand)
	})
	if v.IsList() && len(list) == 0 {
		v.Fail("must name a cause; leave it out for %s and %s", stages.BudgetExceeded, stages.GateRejected)
	}
	return list
}

// Policy reads an approval policy; only the fields of each quorum are required.
func Policy(v yamldoc.Value, required ...string) *approval.Policy {
	var p approval.Policy
	quorum := func(v value) approval.Quorum { return quorum(v, required) }
	v.Object(fields{
		"quorums":           func(v value) { p.Quorums = yamldoc.List(v, quorum) },
		"forbidStarter":     func(v value) { p.ForbidStarter = v.Boolean() },
		"distinctApprovers": func(v value) { p.DistinctApprovers = v.Boolean() },
		"expires":           func(v value) { p.Expires.Duration = v.Period() },
		"requireBinding":    func(v value) { p.RequireBinding = v.Boolean() },
	})
	return &p
}

func quorum(v value, required []string) approval.Quorum {
	q := approval.Quorum{Count: 1}
	v.Object(fields{
		"group": func(v value) { q.Group = v.Str() },
		"count": func(v value) { q.Count = v.AtLeast(1) },
	}, required...)
	return q
}

// Check returns a strategy's errors about a rollback, for callers without a strategy. Paths begin
// with rollback.
func Check(b *stages.RollbackPolicy) error {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "x"}}, Rollback: b}
	return s.Validate()
}
