package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// laws holds an environment to what the engine promises. What is violated is kept, the
// first few times.
type laws struct {
	mu        sync.Mutex
	broken    []string
	histories map[string]*history
	states    map[string]*stages.Run
	follower  *fleet.Follower
	// checks counts the comparisons.
	checks int64
}

func newLaws() *laws {
	return &laws{histories: map[string]*history{}, states: map[string]*stages.Run{}}
}

// errBroken reports whether a law was violated.
var errBroken = errors.New("a law was violated")

// violated keeps what is wrong.
func (l *laws) violated(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := fmt.Sprintf(format, args...); len(l.broken) < 20 && !slices.Contains(l.broken, text) {
		l.broken = append(l.broken, text)
	}
}

// err returns what was violated so far.
func (l *laws) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.broken) == 0 {
		return nil
	}
	err := errBroken
	for _, text := range l.broken {
		err = fmt.Errorf("%w\n  %s", err, text)
	}
	return err
}

// watch checks everything repeatedly until ctx ends.
func (w *environment) watch(ctx context.Context) {
	t := time.NewTicker(25 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := w.check(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
			w.laws.violated("the engines' records cannot be read: %v", err)
		}
	}
}

// check holds the states of all runs, their events, and the members to the laws.
func (w *environment) check(ctx context.Context) error {
	w.laws.checks++
	if err := w.lookAtRuns(ctx); err != nil {
		return err
	}
	if err := w.lookAtEvents(ctx); err != nil {
		return err
	}
	return w.lookAtMembers(ctx)
}

func (w *environment) lookAtRuns(ctx context.Context) error {
	placements, err := w.eyes.Placements(ctx)
	if err != nil {
		return err
	}
	for _, p := range placements {
		runs, err := w.eyes.Runs(ctx, p)
		if err != nil {
			return err
		}
		for _, name := range runs {
			s, err := w.eyes.Status(ctx, name)
			switch {
			case errors.Is(err, backend.ErrNotFound):
				continue // deleted meanwhile
			case err != nil:
				return err
			}
			for _, text := range stateProblems(s.Plan, w.laws.states[s.Run.UID], &s.Run) {
				w.laws.violated("%s", text)
			}
			w.laws.states[s.Run.UID] = &s.Run
		}
	}
	return nil
}

func (w *environment) lookAtEvents(ctx context.Context) (err error) {
	if w.laws.follower == nil {
		if w.laws.follower, err = w.eyes.Follow("", ""); err != nil {
			return err
		}
	}
	for ev, err := range w.laws.follower.Past(ctx) {
		if err != nil {
			return err
		}
		if err := w.tell(ctx, ev); err != nil {
			return err
		}
	}
	return nil
}

// tell holds an event to the laws.
func (w *environment) tell(ctx context.Context, ev stages.Event) error {
	if ev.Run == "" || ev.Type == stages.RunCreated || ev.Type == stages.RunDeleted {
		return nil
	}
	h := w.laws.histories[ev.Run]
	if h == nil {
		s, err := w.eyes.Status(ctx, ev.Run)
		if errors.Is(err, backend.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		h = newHistory(ev.Run, s.Plan)
		w.laws.histories[ev.Run] = h
	}
	for _, text := range h.take(ev) {
		w.laws.violated("%s", text)
	}
	return nil
}

// lookAtMembers holds what the members record to the plans.
func (w *environment) lookAtMembers(ctx context.Context) error {
	placements, err := w.eyes.Placements(ctx)
	if err != nil {
		return err
	}
	statuses := map[string]fleet.Status{}
	for c, err := range w.members.Clusters(ctx) {
		if err != nil {
			return err
		}
		for _, placed := range placements {
			if err := w.compareMember(ctx, c.Name, placed, statuses); err != nil {
				return err
			}
		}
	}
	return nil
}

// compareMember holds what one member records of a placement to the plan of the run
// that wrote it; statuses are those of the runs that were read before. A run or a
// placement that was deleted meanwhile proves nothing.
func (w *environment) compareMember(ctx context.Context, cluster, placed string, statuses map[string]fleet.Status) error {
	l := ledgerOf(w.members.Cluster(cluster), placed)
	if l.Run == "" {
		return nil
	}
	s, known := statuses[l.Run]
	if !known {
		var err error
		if s, err = w.eyes.Status(ctx, l.Run); err != nil && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		statuses[l.Run] = s
	}
	if s.Run.UID != l.RunUID {
		return nil
	}
	l, err := w.opened(ctx, placed, l)
	if errors.Is(err, backend.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if memberProblem(s.Plan, &s.Run, cluster, l) != "" {
		// The run was read before the member may have been.
		w.confirm(ctx, cluster, l)
	}
	return nil
}

// confirm reads again what a member records, with the run as it is now.
func (w *environment) confirm(ctx context.Context, cluster string, l ledger) {
	s, err := w.eyes.Status(ctx, l.Run)
	if err != nil || s.Run.UID != l.RunUID {
		return
	}
	if text := memberProblem(s.Plan, &s.Run, cluster, l); text != "" {
		w.laws.violated("%s", text)
	}
}

// memberProblem says what is wrong with what a member records of a run: it must
// be what an approved plan named for this cluster.
func memberProblem(p *stages.Plan, r *stages.Run, cluster string, l ledger) string {
	if text := objection(p, r, cluster); text != "" {
		return text
	}
	pos, _ := p.Position(cluster)
	want := ""
	if i := p.Clusters[pos].Revision; i >= 0 {
		want = p.Revisions[i]
	}
	if got := l.Revision + l.Target; got != want {
		return fmt.Sprintf("cluster %s is at revision %.12q for run %s, whose plan names %.12q", cluster, got, r.Name, want)
	}
	return ""
}
