package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/internal/soak/environment"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// The people of the story: olga starts the runs, ann and bob approve.
const (
	olga = "olga"
	ann  = "ann"
	bob  = "bob"
)

// story is three stages of ten clusters: a first run everywhere, one to the
// next snapshot with failures, a stop, a resume and approvals by two people,
// and one back.
func story() script {
	return script{
		name: "story", clusters: storyClusters(), prepare: refuseValue2, patience: 2 * time.Minute,
		steps: slices.Concat(
			[]act{declareStep("web", 0), editStep("web", "value1"), captureStep("web", 0), createStep("web", "first", 0, everywhere(10)), endStep("first", stages.Completed)},
			[]act{editStep("web", "value2"), captureStep("web", 1), createStep("web", "forth", 1, threeStages())},
			[]act{skipStep("forth", "s1-05"), refusedStep("forth", "s1"), approveStep("forth", "s1", ann), approveStep("forth", "s1", bob)},
			[]act{someStep("forth", "s2"), commandStep("forth", stages.Stop, stages.Stopped), commandStep("forth", stages.Start, stages.Running)},
			[]act{skipStep("forth", "s2-07"), approveStep("forth", "s2", bob), approveStep("forth", "s2", ann), endStep("forth", stages.Completed)},
			[]act{createStep("web", "back", 0, threeStages()), approveStep("back", "s1", ann), approveStep("back", "s1", bob)},
			[]act{approveStep("back", "s2", ann), approveStep("back", "s2", bob), endStep("back", stages.Completed), tidyStep()},
		),
	}
}

func storyClusters() (out []environment.Member) {
	for s := 1; s <= 3; s++ {
		for i := range 10 {
			out = append(out, environment.Member{Name: fmt.Sprintf("s%d-%02d", s, i), Labels: map[string]string{"stage": fmt.Sprint(s)}})
		}
	}
	return out
}

// refuseValue2 makes three clusters refuse the first attempt at value2, and two
// every attempt. The attempt is in the ledger, so a restart changes nothing.
func refuseValue2(env *environment.Environment) {
	for _, r := range storyClusters() {
		c, most := env.Members.Cluster(r.Name), 0
		switch {
		case r.Name == "s1-05" || r.Name == "s2-07":
			most = 1 << 30
		case strings.HasSuffix(r.Name, "3"):
			most = 1
		}
		c.Refuse(func(obj *unstructured.Unstructured) error {
			value, _, _ := unstructured.NestedString(obj.Object, "spec", "value")
			if value == "value2" && environment.LedgerOf(c, "web").Attempt <= most {
				return errors.New("not admitted")
			}
			return nil
		})
	}
}

func everywhere(n int32) stages.Strategy {
	most := intstr.FromInt32(n)
	return stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &most}}}
}

func threeStages() stages.Strategy {
	three := intstr.FromInt32(3)
	policy := approval.Policy{Quorums: []approval.Quorum{{Count: 2}}, ForbidStarter: true}
	stage := func(n string, after ...stages.Task) stages.Stage {
		return stages.Stage{
			Name: "s" + n, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"stage": n}}, MaxConcurrency: &three, After: after,
		}
	}
	return stages.Strategy{
		Name: "long", Backoff: metav1.Duration{Duration: 100 * time.Millisecond}, MaxBackoff: metav1.Duration{Duration: 200 * time.Millisecond},
		Stages: []stages.Stage{
			stage("1", stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 300 * time.Millisecond}}, stages.Task{Type: stages.Approval, Approval: &policy}),
			stage("2", stages.Task{Type: stages.Approval, Approval: &policy}),
			stage("3"),
		},
	}
}

func placementOf(name string) fleet.Placement {
	return fleet.Placement{Name: name, Selectors: []snapshot.Selector{{Group: "example.com", Version: "v1", Kind: environment.SettingKind, Name: name}}}
}

func declareStep(name string, history int) act {
	return act{"declare " + name, func(ctx context.Context, env *environment.Environment) (bool, error) {
		p := placementOf(name)
		p.HistoryLimit = history
		return true, env.Workers[0].PutPlacement(ctx, p)
	}}
}

func editStep(placed, value string) act {
	return act{"edit " + value, func(ctx context.Context, env *environment.Environment) (bool, error) {
		return true, env.Edit(ctx, placed, value)
	}}
}

func captureStep(placed string, index int) act {
	return act{fmt.Sprint("capture ", index), func(ctx context.Context, env *environment.Environment) (bool, error) {
		s, err := env.Workers[0].Placement(placed).Capture(ctx)
		if err == nil && s.Index != index {
			env.Violations.Add("snapshot %d of %s was taken, want %d", s.Index, placed, index)
		}
		return err == nil, err
	}}
}

func createStep(placed, run string, index int, s stages.Strategy) act {
	return act{"create " + run, func(ctx context.Context, env *environment.Environment) (bool, error) {
		_, err := env.Workers[0].CreateRun(ctx, fleet.RunSpec{Name: run, Placement: placed, Index: &index, Strategy: s, Starter: approval.Identity{Name: olga}})
		if exists(err) {
			return true, nil
		}
		return err == nil, err
	}}
}

// exists reports whether a run was there already.
func exists(err error) bool {
	return errors.Is(err, backend.ErrConflict) && strings.Contains(err.Error(), "exists already")
}

// endStep waits for the end of a run, and until no engine has it any more.
func endStep(run string, want stages.State) act {
	return act{"end of " + run, func(ctx context.Context, env *environment.Environment) (bool, error) {
		s, err := env.Observer.Run(run).Status(ctx)
		if err == nil && s.Run.IsEnded() && s.Run.State != want {
			env.Violations.Add("run %s is %s (%s), want %s", run, s.Run.State, s.Run.Reason, want)
		}
		return err == nil && s.Run.IsEnded() && s.Holder == "", err
	}}
}

// skipStep skips a cluster that was refused twice.
func skipStep(run, cluster string) act {
	return act{"skip " + cluster, func(ctx context.Context, env *environment.Environment) (bool, error) {
		e, err := env.Observer.Run(run).Explain(ctx, cluster)
		if err != nil || e.State == stages.Skipped {
			return err == nil, err
		}
		if e.Attempt < 2 {
			return false, nil
		}
		return false, env.Workers[0].Run(run).Command(ctx, stages.Command{ID: "skip-" + cluster, Verb: stages.Skip, Scope: stages.SkipCluster, Name: cluster})
	}}
}

// someStep waits until a cluster of a stage is done.
func someStep(run, stage string) act {
	return act{"some of " + stage, func(ctx context.Context, env *environment.Environment) (bool, error) {
		s, err := env.Observer.Run(run).Status(ctx)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(s.Plan.Stages, func(p stages.PlannedStage) bool { return p.Name == stage })
		return len(s.Run.Form(runstate.Key{}).Stages[i].Groups) > 0 && s.Run.Form(runstate.Key{}).Stages[i].Groups[0].Completed > 0, nil
	}}
}

// commandStep sends a command to a run until it has taken effect. It checks the commands of the
// run and not the state, because a state may be short.
func commandStep(run string, v stages.Verb, want stages.State) act {
	id := strings.ToLower(string(v)) + "-" + run
	return act{string(v) + " " + run, func(ctx context.Context, env *environment.Environment) (bool, error) {
		s, err := env.Observer.Run(run).Status(ctx)
		if err != nil {
			return false, err
		}
		if slices.Contains(s.Run.Form(runstate.Key{}).Seen, id) {
			return s.Run.State == want, nil
		}
		return false, env.Workers[0].Run(run).Command(ctx, stages.Command{ID: id, Verb: v})
	}}
}

// approveStep approves as a random identity, and waits until that is in the run.
func approveStep(run, stage, by string) act {
	request := approval.RequestName(run, stage, approval.After)
	return act{by + " approves " + request, func(ctx context.Context, env *environment.Environment) (bool, error) {
		s, err := env.Observer.Run(run).Status(ctx)
		if err != nil || decided(s, stage, by) {
			return err == nil, err
		}
		err = env.Workers[0].Run(run).Command(ctx, stages.Command{
			Verb: stages.Decide, ID: by + "-" + request, Name: request, By: approval.Identity{Name: by}, Decision: &approval.Decision{Verdict: approval.Approve, Comment: "by " + by},
		})
		if errors.Is(err, backend.ErrNotFound) {
			return false, nil // not yet, or this answer just closed it
		}
		return false, err
	}}
}

func decided(s fleet.Status, stage, by string) bool {
	i := slices.IndexFunc(s.Plan.Stages, func(p stages.PlannedStage) bool { return p.Name == stage })
	for _, g := range s.Run.Form(runstate.Key{}).Stages[i].Gates {
		if slices.ContainsFunc(g.Decisions, func(d approval.Decision) bool { return d.By.Name == by }) {
			return true
		}
	}
	return false
}

// refusedStep answers as the starter of the run, which must be refused.
func refusedStep(run, stage string) act {
	request := approval.RequestName(run, stage, approval.After)
	return act{"olga is refused", func(ctx context.Context, env *environment.Environment) (bool, error) {
		err := env.Workers[0].Run(run).Command(ctx, stages.Command{Verb: stages.Decide, Name: request, By: approval.Identity{Name: olga}, Decision: &approval.Decision{Verdict: approval.Approve}})
		switch {
		case errors.Is(err, approval.ErrRefused):
			return true, nil
		case errors.Is(err, backend.ErrNotFound):
			return false, nil
		case err == nil:
			env.Violations.Add("the starter approved %s", request)
		}
		return false, err
	}}
}

// tidyStep waits until the records that only active runs need are deleted.
func tidyStep() act {
	return act{"tidy", func(ctx context.Context, env *environment.Environment) (bool, error) {
		left, err := leftovers(ctx, env)
		return len(left) == 0, err
	}}
}

// leftovers returns the keys of records that only active runs need.
func leftovers(ctx context.Context, env *environment.Environment) (out []string, err error) {
	for _, prefix := range []string{"inflight/", "command/"} {
		for r, err := range env.Store.List(ctx, prefix) {
			if err != nil {
				return nil, err
			}
			out = append(out, r.Key)
		}
	}
	return out, nil
}

func awaitedOf(s fleet.Status) (out []string) {
	for _, a := range step.Waiting(s.Plan, &s.Run) {
		out = append(out, fmt.Sprint(a.Kind, " ", a.Name, " ", a.Message))
	}
	return out
}
