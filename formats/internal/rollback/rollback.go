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
	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
)

// FormOf returns the written form of a rollback, nil for nil.
func FormOf(b *stages.RollbackPolicy) *v1beta1.RollbackConfig {
	if b == nil {
		return nil
	}
	f := &v1beta1.RollbackConfig{NewClusters: v1beta1.RollbackOfNewClusters(b.New), Approval: ApprovalOf(b.Approval)}
	for _, cause := range b.Causes {
		f.Causes = append(f.Causes, v1beta1.RollbackCause(cause))
	}
	return f
}

// ApprovalOf returns the written form of an approval policy, nil for nil.
func ApprovalOf(p *approval.Policy) *v1beta1.ApprovalPolicy {
	if p == nil {
		return nil
	}
	out := &v1beta1.ApprovalPolicy{ForbidStarter: p.ForbidStarter, DistinctApprovers: p.DistinctApprovers, RequireBinding: p.RequireBinding}
	if p.Expires.Duration != 0 {
		out.Expires = &p.Expires
	}
	for _, q := range p.Quorums {
		out.Quorums = append(out.Quorums, v1beta1.ApprovalQuorum{Group: q.Group, Count: int32(q.Count)})
	}
	return out
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
