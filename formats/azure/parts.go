package azure

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Part is a part of an update run: the run itself, a stage, a group, a member, a gate,
// or the wait after a stage.
type Part struct {
	// Stage, Group and Member are the position of the part. The levels below it are empty; for the
	// run all three are.
	Stage, Group, Member string
	// Gate is set only if the part is a gate, and Timing is then Before or After.
	Gate   *GateStatus
	Timing string
	Status UpdateStatus
	// Reason says why the part is in its state, or names the gate or the wait.
	Reason string
}

// Parts yields the parts of a run in the order of execution, each group with its gates and members,
// for a table that shows the run.
func (u *UpdateRun) Parts(yield func(Part) bool) {
	var all []Part
	add := func(p Part) {
		if p.Status.Error != nil {
			p.Reason = cmp.Or(p.Reason, p.Status.Error.Message)
		}
		all = append(all, p)
	}
	gates := func(in Part, timing string, list []GateStatus) {
		for i := range list {
			in.Gate, in.Timing, in.Status = &list[i], timing, list[i].Status
			in.Reason = strings.TrimSpace(list[i].Type + " " + orEmpty(list[i].DisplayName))
			add(in)
		}
	}
	add(Part{Status: u.Status.Status})
	for _, st := range u.Status.Stages {
		add(Part{Stage: st.Name, Status: st.Status})
		gates(Part{Stage: st.Name}, "Before", st.BeforeGates)
		for _, g := range st.Groups {
			add(Part{Stage: st.Name, Group: g.Name, Status: g.Status})
			gates(Part{Stage: st.Name, Group: g.Name}, "Before", g.BeforeGates)
			for _, m := range g.Members {
				add(Part{Stage: st.Name, Group: g.Name, Member: m.Name, Status: m.Status, Reason: orEmpty(m.Message)})
			}
			gates(Part{Stage: st.Name, Group: g.Name}, "After", g.AfterGates)
		}
		gates(Part{Stage: st.Name}, "After", st.AfterGates)
		if st.Wait != nil {
			add(Part{Stage: st.Name, Status: st.Wait.Status, Reason: fmt.Sprintf("wait of %s", time.Duration(st.Wait.Duration)*time.Second)})
		}
	}
	for _, p := range all {
		if !yield(p) {
			return
		}
	}
}

// orEmpty returns the text at p, or "" for nil.
func orEmpty(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}
