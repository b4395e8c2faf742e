package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/soak/environment"
	"github.com/slipway-dev/slipway/stages"
)

// strategy draws a strategy that can be planned for any labels.
func (s *scenario) strategy() stages.Strategy {
	out := stages.Strategy{
		Name: "drawn", Unassigned: stages.UnassignedFinalStage,
		Profile: []stages.Profile{stages.Staged, stages.Staged, stages.ClusterUpdate, stages.Workflow}[s.rand.IntN(4)],
		Backoff: metav1.Duration{Duration: 50 * time.Millisecond}, MaxBackoff: metav1.Duration{Duration: 200 * time.Millisecond},
		Attempts: []int{0, 1, 2, 3}[s.rand.IntN(4)],
	}
	if s.rand.IntN(3) == 0 {
		out.MinHealthy.Duration = s.short(100)
	}
	if s.rand.IntN(3) == 0 {
		out.ProgressDeadline.Duration = time.Second + s.short(2000)
	}
	if s.rand.IntN(4) == 0 {
		out.UnreachableDeadline.Duration = time.Second + s.short(2000)
	}
	if s.rand.IntN(5) == 0 {
		out.Unassigned = stages.UnassignedExclude
	}
	for i := range 1 + s.rand.IntN(5) {
		out.Stages = append(out.Stages, s.stage(i+1))
	}
	return out
}

func (s *scenario) stage(n int) stages.Stage {
	st := stages.Stage{
		Name: fmt.Sprint("s", n), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": fmt.Sprint(n)}},
		MaxConcurrency: s.number(5, 1), Before: s.tasks(), After: s.tasks(),
	}
	if s.rand.IntN(2) == 0 {
		st.MaxFailures = s.number(4, 0)
	}
	if s.rand.IntN(2) == 0 {
		st.SortKey = "order"
	}
	if s.rand.IntN(3) == 0 {
		for _, g := range []string{"a", "b"} {
			st.Groups = append(st.Groups, stages.Group{
				Name: g, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"group": g}}, MaxConcurrency: s.number(3, 1),
			})
		}
	}
	return st
}

// number draws a number or a percentage.
func (s *scenario) number(most, least int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(least + s.rand.IntN(most)))
	if s.rand.IntN(3) == 0 {
		v = intstr.FromString(fmt.Sprint(least+s.rand.IntN(100), "%"))
	}
	return &v
}

func (s *scenario) short(most int) time.Duration {
	return time.Duration(1+s.rand.IntN(most)) * time.Millisecond
}

func (s *scenario) tasks() (out []stages.Task) {
	if s.rand.IntN(4) == 0 {
		out = append(out, stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: s.short(300)}})
	}
	if s.rand.IntN(4) == 0 {
		p := approval.Policy{ForbidStarter: s.rand.IntN(2) == 0, RequireBinding: s.rand.IntN(3) == 0}
		if s.rand.IntN(2) == 0 {
			p.Quorums = []approval.Quorum{{Group: "ops", Count: 1 + s.rand.IntN(2)}}
		}
		if s.rand.IntN(4) == 0 {
			p.Expires.Duration = 500*time.Millisecond + s.short(1000)
		}
		out = append(out, stages.Task{Type: stages.Approval, Approval: &p})
	}
	return out
}

// answerAll answers every request that is open.
func answerAll(ctx context.Context, env *environment.Environment, r *rand.Rand) {
	placements, _ := env.Observer.Placements(ctx)
	for _, p := range placements {
		runs, _ := env.Observer.Placement(p).RunNames(ctx)
		for _, run := range runs {
			open, _ := env.Observer.Run(run).Requests(ctx)
			for _, q := range open {
				answer(ctx, env, r, q)
			}
		}
	}
}

// answer lets one of several people answer, now and then for something else.
func answer(ctx context.Context, env *environment.Environment, r *rand.Rand, q approval.Request) {
	who := []approval.Identity{
		{Name: ann, Groups: []string{"ops"}}, {Name: bob, Groups: []string{"ops"}}, {Name: olga, Groups: []string{"ops"}}, {Name: "eve"},
	}[r.IntN(4)]
	a := stages.Command{Verb: stages.Decide, Name: q.Name, By: who, Decision: &approval.Decision{Verdict: approval.Approve, Binding: q.Binding}}
	if r.IntN(40) == 0 {
		a.Decision.Verdict = approval.Reject
	}
	other := r.IntN(10) == 0
	if other {
		a.Decision.Binding.Plan = "another"
	}
	err := env.Workers[r.IntN(len(env.Workers))].Run(q.Run).Command(ctx, a)
	if err == nil && (other || q.Policy.ForbidStarter && who.Name == q.Starter.Name) {
		env.Violations.Add("an answer of %s to %s was taken that must not be: %+v", who.Name, q.Name, a.Decision.Binding)
	}
	if err != nil && !other && errors.Is(err, context.Canceled) {
		return
	}
}
