// Package rollback answers how the files that Slipway reads say when a run takes back
// what it brought, which none of the systems has whose files they are. It is the
// same object in all of them:
//
//	causes: [BudgetExceeded, GateRejected]   # or Command alone; these two where absent
//	newClusters: Remove                      # or Leave
//	approval:                                # without it nobody is asked
//	  quorums: [{group: sre, count: 2}]      # without them anybody, once
//	  forbidStarter: true
//	  expires: 24h
//	  requireBinding: true
package rollback

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
)

// Form is a rollback as it is written.
type Form struct {
	Causes      []stages.RollbackCause `json:"causes,omitempty"`
	NewClusters stages.NewClusters     `json:"newClusters,omitempty"`
	Approval    *Approval              `json:"approval,omitempty"`
}

// Approval is who is asked before the first cluster goes back, as it is written.
type Approval struct {
	Quorums       []approval.Quorum `json:"quorums,omitempty"`
	ForbidStarter bool              `json:"forbidStarter,omitempty"`
	// Expires is a duration such as 24h0m0s.
	Expires        string `json:"expires,omitempty"`
	RequireBinding bool   `json:"requireBinding,omitempty"`
}

// FormOf returns the form of a rollback, nil for nil.
func FormOf(b *stages.Rollback) *Form {
	if b == nil {
		return nil
	}
	f := &Form{Causes: b.Causes, NewClusters: b.New}
	if p := b.Approval; p != nil {
		f.Approval = &Approval{Quorums: p.Quorums, ForbidStarter: p.ForbidStarter, RequireBinding: p.RequireBinding}
		if p.Expires != 0 {
			f.Approval.Expires = p.Expires.String()
		}
	}
	return f
}

type (
	value  = yamldoc.Value
	fields = yamldoc.Fields
)

// Read reads a rollback. What a strategy checks by itself is left to it: causes that
// stand there twice, the bounds of numbers.
func Read(v yamldoc.Value) *stages.Rollback {
	var b stages.Rollback
	v.Object(fields{
		"causes": func(v value) { b.Causes = causes(v) },
		"newClusters": func(v value) {
			b.New = stages.NewClusters(v.OneOf(string(stages.RemoveNew), string(stages.LeaveNew)))
		},
		"approval": func(v value) { b.Approval = policy(v) },
	})
	return &b
}

func causes(v value) []stages.RollbackCause {
	list := yamldoc.List(v, func(v value) stages.RollbackCause {
		return stages.RollbackCause(v.OneOf(string(stages.BudgetExceeded), string(stages.GateRejected), string(stages.OnCommand)))
	})
	if v.IsList() && len(list) == 0 {
		v.Fail("must name a cause; leave it out for %s and %s", stages.BudgetExceeded, stages.GateRejected)
	}
	return slices.DeleteFunc(list, func(c stages.RollbackCause) bool { return c == "" })
}

func policy(v value) *approval.Policy {
	var p approval.Policy
	v.Object(fields{
		"quorums":        func(v value) { p.Quorums = yamldoc.List(v, quorum) },
		"forbidStarter":  func(v value) { p.ForbidStarter = v.Boolean() },
		"expires":        func(v value) { p.Expires = v.Period() },
		"requireBinding": func(v value) { p.RequireBinding = v.Boolean() },
	})
	return &p
}

func quorum(v value) approval.Quorum {
	q := approval.Quorum{Count: 1}
	v.Object(fields{
		"group": func(v value) { q.Group = v.Str() },
		"count": func(v value) { q.Count = v.AtLeast(1) },
	})
	return q
}

// Check returns what a strategy finds wrong with a rollback, for those who have no
// strategy yet. Paths begin with rollback.
func Check(b *stages.Rollback) error {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "x"}}, Rollback: b}
	return s.Validate()
}

// Report is told of a problem: its line, its path, and what is wrong and what would
// be right.
type Report func(line int, path, text string)

// ReadNode reads a rollback from a part of a document that stands at path.
func ReadNode(n *yaml.Node, path string, report Report) *stages.Rollback {
	d := yamldoc.New("")
	d.Open(n, path)
	var b *stages.Rollback
	if !d.IsEmpty() {
		b = Read(d.Root())
	}
	for _, p := range d.Problems() {
		report(p.Line, p.Field, p.Text)
	}
	return b
}
