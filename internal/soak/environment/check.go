package environment

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/soak/laws"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// checker contains the state that earlier checks have read.
type checker struct {
	histories map[string]*laws.History
	states    map[string]*step.Run
	follower  *fleet.Follower
	checks    int64
}

func newChecker() *checker {
	return &checker{histories: map[string]*laws.History{}, states: map[string]*step.Run{}}
}

// Checks returns how often Check was called.
func (env *Environment) Checks() int64 { return env.checker.checks }

// Watch checks everything repeatedly until ctx ends.
func (env *Environment) Watch(ctx context.Context) {
	t := time.NewTicker(25 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := env.Check(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			env.Violations.Add("the engines' records cannot be read: %v", err)
		}
	}
}

// Check holds the states of all runs, their events, and the members to the laws.
func (env *Environment) Check(ctx context.Context) error {
	env.checker.checks++
	if err := env.checkRuns(ctx); err != nil {
		return err
	}
	if err := env.checkEvents(ctx); err != nil {
		return err
	}
	return env.checkMembers(ctx)
}

func (env *Environment) checkRuns(ctx context.Context) error {
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
			switch {
			case errors.Is(err, backend.ErrNotFound):
				continue // deleted meanwhile
			case err != nil:
				return err
			}
			for _, text := range laws.StateProblems(s.Plan, env.checker.states[s.Run.UID], &s.Run) {
				env.Violations.Add("%s", text)
			}
			env.checker.states[s.Run.UID] = &s.Run
		}
	}
	return nil
}

func (env *Environment) checkEvents(ctx context.Context) (err error) {
	if env.checker.follower == nil {
		if env.checker.follower, err = env.Observer.Follow(""); err != nil {
			return err
		}
	}
	for ev, err := range env.checker.follower.Past(ctx) {
		if err != nil {
			return err
		}
		if err := env.checkEvent(ctx, ev); err != nil {
			return err
		}
	}
	return nil
}

// checkEvent holds an event to the laws.
func (env *Environment) checkEvent(ctx context.Context, ev stages.Event) error {
	if ev.Run == "" || ev.Type == stages.RunCreated || ev.Type == stages.RunDeleted {
		return nil
	}
	h := env.checker.histories[ev.Run]
	if h == nil {
		s, err := env.Observer.Run(ev.Run).Status(ctx)
		if errors.Is(err, backend.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		h = laws.NewHistory(ev.Run, s.Plan)
		env.checker.histories[ev.Run] = h
	}
	for _, text := range h.Take(ev) {
		env.Violations.Add("%s", text)
	}
	return nil
}

// checkMembers compares the records of members with the plans.
func (env *Environment) checkMembers(ctx context.Context) error {
	placements, err := env.Observer.Placements(ctx)
	if err != nil {
		return err
	}
	statuses := map[string]fleet.Status{}
	for c, err := range env.Members.Clusters(ctx) {
		if err != nil {
			return err
		}
		for _, placed := range placements {
			if err := env.checkMember(ctx, c.Name, placed, statuses); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkMember compares a member's record of a placement with the plan of the run that wrote it.
// statuses are the statuses of the runs that were read before. If the run or the placement was
// deleted in between, the check has no result.
func (env *Environment) checkMember(ctx context.Context, cluster, placed string, statuses map[string]fleet.Status) error {
	l := LedgerOf(env.Members.Cluster(cluster), placed)
	if l.Run == "" {
		return nil
	}
	s, known := statuses[l.Run]
	if !known {
		var err error
		if s, err = env.Observer.Run(l.Run).Status(ctx); err != nil && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		statuses[l.Run] = s
	}
	if s.Run.UID != l.RunUID {
		return nil
	}
	l, err := env.OpenLedger(ctx, placed, l)
	if errors.Is(err, backend.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if laws.MemberProblem(s.Plan, &s.Run, cluster, l.Revision+l.Target) != "" {
		// The run was read before the member may have been.
		env.confirmProblem(ctx, cluster, l)
	}
	return nil
}

// confirmProblem reads a member's record again, with the current state of the run.
func (env *Environment) confirmProblem(ctx context.Context, cluster string, l Ledger) {
	s, err := env.Observer.Run(l.Run).Status(ctx)
	if err != nil || s.Run.UID != l.RunUID {
		return
	}
	if text := laws.MemberProblem(s.Plan, &s.Run, cluster, l.Revision+l.Target); text != "" {
		env.Violations.Add("%s", text)
	}
}
