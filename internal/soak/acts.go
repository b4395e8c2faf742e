package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/soak/environment"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// act draws something that happens.
func (s *scenario) act(n int) act {
	p := s.placements[s.rand.IntN(len(s.placements))]
	switch s.rand.IntN(14) {
	case 0, 1:
		return s.edit(p)
	case 2, 3:
		return s.create(p, nil)
	case 4:
		back := s.rand.IntN(4)
		return s.create(p, &back)
	case 5:
		return s.remove()
	case 6, 7:
		return s.command(n)
	case 8:
		return s.relabel()
	case 9:
		return s.leave()
	case 10:
		return s.makeAgain()
	case 11:
		return s.catchUp()
	default:
		return pauseStep(time.Duration(s.rand.IntN(500)) * time.Millisecond)
	}
}

// willing repeats a step until it succeeds or has failed too often. Then the failure is its
// result, because a random step may make no sense.
func willing(name string, do func(ctx context.Context, env *environment.Environment) error) act {
	tries := 0
	return act{name, func(ctx context.Context, env *environment.Environment) (bool, error) {
		tries++
		return do(ctx, env) == nil || tries >= 30, nil
	}}
}

func (s *scenario) declare(name string) act {
	p := placementOf(name)
	p.HistoryLimit, p.RunHistory = 1+s.rand.IntN(3), 2+s.rand.IntN(4)
	p.Admission = []stages.Admission{stages.QueueRun, stages.QueueRun, stages.SupersedeActive, stages.RejectRun}[s.rand.IntN(4)]
	return act{"declare " + name, func(ctx context.Context, env *environment.Environment) (bool, error) {
		err := env.Workers[0].PutPlacement(ctx, p)
		return err == nil, err
	}}
}

func (s *scenario) edit(placed string) act {
	s.values++
	value := fmt.Sprintf("%s-v%d", s.name, s.values)
	return act{"edit " + value, func(ctx context.Context, env *environment.Environment) (bool, error) {
		err := env.Edit(ctx, placed, value)
		return err == nil, err
	}}
}

// create creates a run of the current content of the hub, or of an earlier snapshot.
func (s *scenario) create(placed string, back *int) act {
	name := fmt.Sprintf("%s-r%d", s.name, len(s.runs))
	s.runs = append(s.runs, name)
	spec := fleet.RunSpec{Name: name, Placement: placed, Strategy: s.strategy(), Hold: s.rand.IntN(10) == 0, Starter: approval.Identity{Name: olga, Groups: []string{"ops"}}}
	return willing("create "+name, func(ctx context.Context, env *environment.Environment) error {
		if back != nil {
			view, err := env.Workers[0].Placement(placed).View(ctx)
			if err != nil {
				return err
			}
			known := view.Snapshots()
			if len(known) == 0 {
				return nil
			}
			spec.Index = &known[max(0, len(known)-1-*back)].Index
		}
		_, err := env.Workers[0].CreateRun(ctx, spec)
		if exists(err) || errors.As(err, new(*stages.RejectedError)) {
			return nil
		}
		return err
	})
}

func (s *scenario) catchUp() act {
	of, name := s.anyRun(), fmt.Sprintf("%s-r%d", s.name, len(s.runs))
	s.runs = append(s.runs, name)
	return willing("catch up with "+of, func(ctx context.Context, env *environment.Environment) error {
		_, err := env.Workers[0].Run(of).CatchUp(ctx, name, approval.Identity{Name: olga})
		if exists(err) {
			return nil
		}
		return err
	})
}

func (s *scenario) anyRun() string { return s.runs[s.rand.IntN(len(s.runs))] }

func (s *scenario) anyCluster() string { return s.clusters[s.rand.IntN(len(s.clusters))].Name }

func (s *scenario) remove() act {
	run := s.anyRun()
	return willing("delete "+run, func(ctx context.Context, env *environment.Environment) error {
		err := env.Workers[0].Run(run).Delete(ctx, true)
		if errors.Is(err, backend.ErrNotFound) {
			return nil
		}
		return err
	})
}

// command sends a random command to a run.
func (s *scenario) command(n int) act {
	run := s.anyRun()
	c := stages.Command{ID: fmt.Sprintf("%s-a%d", s.name, n), By: approval.Identity{Name: olga}}
	switch s.rand.IntN(8) {
	case 0, 1:
		c.Verb = stages.Stop
	case 2, 3:
		c.Verb = stages.Start
	case 4:
		c.Verb = stages.Abort
	case 5:
		c.Verb, c.Scope, c.Name = stages.Skip, stages.SkipCluster, s.anyCluster()
	case 6:
		c.Verb, c.Scope, c.Name = stages.Skip, stages.SkipStage, fmt.Sprint("s", 1+s.rand.IntN(5))
	default:
		c.Verb, c.Scope, c.Name = stages.Skip, stages.SkipAfterWait, fmt.Sprint("s", 1+s.rand.IntN(5))
	}
	return willing(fmt.Sprint(c.Verb, " ", c.Name, " ", run), func(ctx context.Context, env *environment.Environment) error {
		return env.Workers[0].Run(run).Command(ctx, c)
	})
}

func (s *scenario) relabel() act {
	name, labels := s.anyCluster(), s.labels()
	return willing("relabel "+name, func(ctx context.Context, env *environment.Environment) error {
		return env.ChangeMember(ctx, name, func(r *environment.Member) { r.Labels = labels })
	})
}

// leave lets a cluster leave, or come back.
func (s *scenario) leave() act {
	name, absent := s.anyCluster(), s.rand.IntN(3) > 0
	return willing("leave "+name, func(ctx context.Context, env *environment.Environment) error {
		return env.ChangeMember(ctx, name, func(r *environment.Member) { r.Absent = absent })
	})
}

// makeAgain replaces a cluster by an empty one of the same name.
func (s *scenario) makeAgain() act {
	name := s.anyCluster()
	return act{"make " + name + " again", func(ctx context.Context, env *environment.Environment) (bool, error) {
		all, err := env.Fleet(ctx)
		if err != nil {
			return false, err
		}
		for _, r := range all {
			if r.Name == name {
				err := env.Members.Replace(ctx, placement.Cluster{Name: name, Labels: r.Labels})
				s.prepareOne(env, name)
				return err == nil, err
			}
		}
		return true, nil
	}}
}

func pauseStep(d time.Duration) act {
	var until time.Time
	return act{"pause", func(context.Context, *environment.Environment) (bool, error) {
		if until.IsZero() {
			until = time.Now().Add(d)
		}
		return time.Now().After(until), nil
	}}
}
