package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	approvals "github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// TestCrashAtEveryWriteOfTheObjectOfARollback requests the rollback of a run by spec.state. The hub
// dies at one of its writes, to its store or to the API server, before or after the write; the test
// repeats that for every write. The next hub ends with one rollback, one object and one request, as
// if no hub had died.
func TestCrashAtEveryWriteOfTheObjectOfARollback(t *testing.T) {
	t.Parallel()
	s := newTakingBack(t)
	for _, lands := range []bool{false, true} {
		for at, over := int64(1), false; !over; at++ {
			run := fmt.Sprintf("%s-%v-%d", s.name, lands, at)
			s.roll(run, rolledBackBy())
			f := &fuse{at: at, lands: lands, paths: []string{"stagedupdateruns", "approvalrequests"}}
			s.showsRollback(s.hubWith(f), run, func() bool { return f.count.Load() >= at })
			over = f.count.Load() < at
			s.showsRollback(s.hubWith(&fuse{}), run, func() bool { return false })
			s.wantOneRollback(run)
			if over && at < 5 {
				t.Errorf("only %d writes were made", at-1)
			}
		}
	}
}

// TestARollbackThatEndedUnreportedIsReported: a hub dies after it has requested the rollback from
// the engine, and is started again after the end of the rollback. It sees the rollback and does not
// request it again.
func TestARollbackThatEndedUnreportedIsReported(t *testing.T) {
	s := newTakingBack(t)
	strategy := rolledBackBy()
	strategy.Rollback.Approval = nil
	run := s.name + "-run"
	s.roll(run, strategy)
	if _, err := s.engine.Run(run).Rollback(t.Context(), fleet.RollbackOptions{Reason: "spec.state of generation 2"}); err != nil {
		t.Fatal(err)
	}
	s.completed(run + "-rollback")
	s.showsRollback(s.hubWith(&fuse{}), run, func() bool { return false })
	s.wantRollback(run)
}

// newTakingBack returns a stale hub whose engine runs on one cluster in memory. The cluster has the
// first of two snapshots.
func newTakingBack(t *testing.T) *stale {
	t.Helper()
	w := newHubEnv(t, 0)
	cfg := w.config("driver")
	s := &stale{hubEnv: w, store: memory.NewStore()}
	members := memory.NewFleet()
	members.Add(placement.Cluster{Name: "one"})
	cfg.Store, cfg.Inventory, cfg.Dialer = s.store, members, members
	h, err := hub.New(cfg)
	if err == nil {
		s.Stale, err = hub.NewStale(h)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.engine = h.Engine()
	s.drive()
	s.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	s.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: v1}}`)
	err = s.engine.PutPlacement(t.Context(), fleet.Placement{Name: s.name, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: s.name}}})
	if err != nil {
		t.Fatal(err)
	}
	s.captured(0)
	s.eventually("the policies to be old enough", func() error { return s.Settled(t.Context()) })
	s.ranTo(fleet.RunSpec{Name: s.name + "-first", Placement: s.name, Strategy: rolledBackBy()})
	s.change("v2")
	s.captured(1)
	return s
}

// rolledBackBy returns a strategy whose rollback needs an approval.
func rolledBackBy() stages.Strategy {
	return stages.Strategy{
		Name: "all", Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}},
		Rollback: &stages.RollbackPolicy{Approval: &approvals.Policy{}},
	}
}

// captured waits until the source yields the snapshot with an index.
func (s *stale) captured(index int) {
	s.t.Helper()
	s.eventually(fmt.Sprint("snapshot ", index), func() error {
		snap, err := s.engine.Placement(s.name).Capture(s.t.Context())
		if err == nil && snap.Index != index {
			err = fmt.Errorf("the snapshot is %d", snap.Index)
		}
		return err
	})
}

// ranTo runs a run to its end.
func (s *stale) ranTo(spec fleet.RunSpec) {
	s.t.Helper()
	if _, err := s.engine.CreateRun(s.t.Context(), spec); err != nil {
		s.t.Fatal(err)
	}
	s.completed(spec.Name)
}

func (s *stale) completed(run string) {
	s.t.Helper()
	s.eventually(run+" to end", func() error {
		status, err := s.engine.Run(run).Status(s.t.Context())
		if err == nil && status.Run.State != stages.Completed {
			err = fmt.Errorf("it is %s: %s", status.Run.State, status.Run.Reason)
		}
		return err
	})
}

// roll rolls out the second snapshot with a run that has an object. The second generation of its
// spec then requests a rollback.
func (s *stale) roll(run string, strategy stages.Strategy) {
	s.t.Helper()
	obj := s.create(s.runOf(run, ""))
	second := 1
	s.ranTo(fleet.RunSpec{Name: run, Owner: string(obj.GetUID()), Placement: s.name, Index: &second, Strategy: strategy})
	s.patch("csur", run, `{"spec":{"state":"Rollback"}}`)
}

// showsRollback lets a hub work until it is dead or both objects show the rollback.
func (s *stale) showsRollback(h *hub.Stale, run string, dead func() bool) {
	s.t.Helper()
	back := run + "-rollback"
	s.eventually("the rollback of "+run+" to be shown", func() error {
		for _, name := range []string{run, back} {
			if dead() {
				return nil
			}
			if err := s.look(h, name); err != nil {
				return err
			}
			if err := h.SyncRun(s.t.Context(), name); err != nil && !errors.Is(err, errFuse) && !strings.Contains(err.Error(), errFuse.Error()) && !errors.Is(err, backend.ErrConflict) {
				return err
			}
		}
		if dead() {
			return nil
		}
		return errors.Join(s.tells(run, "RollbackStarted", "True"), s.tells(back, "Progressing", "False"))
	})
}

// look shows the current objects of a run and its requests to a hub.
func (s *stale) look(h *hub.Stale, run string) error {
	obj, err := s.at("csur").Get(s.t.Context(), run, getOptions())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = h.See(obj)
	}
	requests, lerr := s.at("careq").List(s.t.Context(), metav1.ListOptions{})
	if err = errors.Join(err, lerr); err != nil {
		return err
	}
	for i := range requests.Items {
		err = errors.Join(err, h.See(&requests.Items[i]))
	}
	return err
}

// tells checks that a run has a condition.
func (s *stale) tells(run, kind, status string) error {
	obj, err := s.at("csur").Get(s.t.Context(), run, getOptions())
	if err != nil {
		return err
	}
	if got, text := conditionOf(obj, kind); got != status {
		return fmt.Errorf("%s of %s is %q: %s", kind, run, got, text)
	}
	return nil
}

// wantRollback fails unless a run has exactly one rollback, with one object.
func (s *stale) wantRollback(run string) {
	s.t.Helper()
	back := run + "-rollback"
	runs, err := s.engine.Placement(s.name).RunNames(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var takers []string
	for _, name := range runs {
		if status, err := s.engine.Run(name).Status(s.t.Context()); err == nil && status.Plan.Rollback != nil && status.Plan.Rollback.Run == run {
			takers = append(takers, name)
		}
	}
	if len(takers) != 1 || takers[0] != back {
		s.t.Errorf("run %s is taken back by %v", run, takers)
	}
	objects, err := s.at("csur").List(s.t.Context(), metav1.ListOptions{LabelSelector: "slipway.dev/rollback-of=" + run})
	if err != nil || len(objects.Items) != 1 || objects.Items[0].GetName() != back || len(objects.Items[0].GetFinalizers()) != 1 {
		s.t.Errorf("the objects of the rollback of %s are %v: %v", run, objects, err)
	}
}

// wantOneRollback is wantRollback for a rollback that has a request, which it approves.
func (s *stale) wantOneRollback(run string) {
	s.t.Helper()
	s.wantRollback(run)
	back := run + "-rollback"
	requests, err := s.at("careq").List(s.t.Context(), metav1.ListOptions{LabelSelector: "kubernetes-fleet.io/targetUpdateRun=" + back})
	if err != nil || len(requests.Items) != 1 || requests.Items[0].GetName() != back+"-before-all" {
		s.t.Errorf("the requests of the rollback of %s are %v: %v", run, requests, err)
	}
	if err := s.engine.Run(back).Command(s.t.Context(), stages.Command{Verb: stages.Decide, Name: back + "-before-all", By: approvals.Identity{Name: "ann"}, Decision: &approvals.Decision{Verdict: approvals.Approve}}); err != nil {
		s.t.Fatal(err)
	}
	s.completed(back)
}
