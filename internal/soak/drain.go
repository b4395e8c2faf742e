package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/soak/environment"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// healStep brings every cluster back.
func healStep(clusters []environment.Member) act {
	return act{"heal", func(ctx context.Context, env *environment.Environment) (bool, error) {
		for _, r := range clusters {
			env.Members.SetDown(r.Name, false)
			if err := env.ChangeMember(ctx, r.Name, func(r *environment.Member) { r.Absent = false }); err != nil {
				return false, err
			}
		}
		return true, nil
	}}
}

// each calls do with every run that is there.
func each(ctx context.Context, env *environment.Environment, do func(fleet.Status) error) error {
	placements, err := env.Observer.Placements(ctx)
	if err != nil {
		return err
	}
	for _, p := range placements {
		runs, err := env.Observer.Placement(p).RunNames(ctx)
		if err != nil {
			return err
		}
		for _, name := range runs {
			s, err := env.Observer.Run(name).Status(ctx)
			if errors.Is(err, backend.ErrNotFound) {
				continue
			}
			if err == nil {
				err = do(s)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// endAllStep waits until every run has ended. It starts runs that are held or stopped, and aborts
// all runs after some time.
func endAllStep(scenario string) act {
	began, n := time.Time{}, 0
	return act{"end all", func(ctx context.Context, env *environment.Environment) (bool, error) {
		if began.IsZero() {
			began = time.Now()
		}
		n++
		left := 0
		err := each(ctx, env, func(s fleet.Status) error {
			if s.Run.IsEnded() && s.Holder == "" {
				return nil
			}
			left++
			c := stages.Command{ID: fmt.Sprintf("%s-end-%d-%d", scenario, began.UnixMilli(), n), Verb: stages.Start}
			switch late := time.Since(began) > 8*time.Second; {
			case late && n%50 == 0:
				c.Verb = stages.Abort
			case n%50 != 1 || s.Run.State != stages.Stopped && !s.Run.Hold:
				return nil
			}
			return ignoreNotFound(env.Workers[0].Run(s.Run.Name).Command(ctx, c))
		})
		return left == 0, err
	}}
}

func ignoreNotFound(err error) error {
	if errors.Is(err, backend.ErrNotFound) {
		return nil
	}
	return err
}

// retireStep takes a placement away from every cluster, by a run.
func retireStep(scenario, placed string) act {
	all := intstr.FromString("100%")
	run := scenario + "-retire-" + placed
	spec := fleet.RunSpec{Name: run, Placement: placed, Strategy: everywhere(1), Starter: approval.Identity{Name: olga}}
	spec.Strategy.Removal.MaxConcurrency = &all
	return act{"retire " + placed, func(ctx context.Context, env *environment.Environment) (bool, error) {
		s, err := env.Observer.Run(run).Status(ctx)
		switch {
		case err == nil && s.Run.IsEnded() && s.Run.State != stages.Completed:
			env.Violations.Add("run %s is %s (%s), want %s", run, s.Run.State, s.Run.Reason, stages.Completed)
			return true, nil
		case err == nil:
			return s.Run.IsEnded() && s.Holder == "", nil
		case !errors.Is(err, backend.ErrNotFound):
			return false, err
		}
		p := placementOf(placed)
		p.Policy = placement.Policy{Required: []placement.Term{{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"retired": "never"}}}}}
		if err := env.Workers[0].PutPlacement(ctx, p); err != nil {
			return false, err
		}
		_, err = env.Workers[0].CreateRun(ctx, spec)
		return false, err
	}}
}

// cleanStep checks that nothing is left on the members.
func cleanStep(placements []string) act {
	return act{"check what is left", func(ctx context.Context, env *environment.Environment) (bool, error) {
		for c, err := range env.Members.Clusters(ctx) {
			if err != nil {
				return false, err
			}
			for _, p := range placements {
				m := env.Members.Cluster(c.Name)
				_, err := m.Get(snapshot.ID{Group: "example.com", Version: "v1", Kind: environment.SettingKind, Name: p})
				if l := environment.LedgerOf(m, p); err == nil {
					env.Violations.Add("cluster %s has an object of placement %s after that was retired: %+v", c.Name, p, l)
				}
			}
		}
		return true, env.CheckAudit(ctx)
	}}
}

// deleteAllStep deletes every run, and waits until nothing is left of them.
func deleteAllStep() act {
	return act{"delete all", func(ctx context.Context, env *environment.Environment) (bool, error) {
		n, err := deleteRuns(ctx, env, env.Workers[0])
		if err != nil || n > 0 {
			return false, err
		}
		left, err := leftovers(ctx, env)
		if len(left) > 0 && err == nil {
			err = collect(ctx, env, env.Workers[0]) // a collection finds the remains of kills
		}
		return len(left) == 0, err
	}}
}
