package fleet

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// approvalEnv is a run that engines drive, and the host that people use.
type approvalEnv struct {
	t       *testing.T
	store   *memory.Store
	members *memory.Fleet
	host    *Engine
	policy  approval.Policy
	drawn   int
}

func newApprovalEnv(t *testing.T, p approval.Policy) *approvalEnv {
	t.Helper()
	s := &approvalEnv{t: t, store: memory.NewStore(), members: memory.NewFleet(), policy: p}
	for _, name := range []string{"a", "b"} {
		s.members.Add(placement.Cluster{Name: name, Labels: map[string]string{"stage": name}})
	}
	s.host = s.engine(Config{Name: "host"})
	s.must(s.host.PutPlacement(t.Context(), Placement{Name: "p", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "app"}}}))
	return s
}

func (s *approvalEnv) engine(cfg Config) *Engine {
	s.t.Helper()
	if cfg.Store == nil {
		cfg.Store = s.store
	}
	cfg.Inventory, cfg.Dialer, cfg.Source = s.members, s.members, memory.NewSource(namespaceObject("app"))
	e, err := New(cfg)
	s.must(err)
	return e
}

func (s *approvalEnv) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// drive runs an engine until the returned function is called.
func (s *approvalEnv) drive(e *Engine) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Start(ctx) }()
	return func() {
		cancel()
		<-done
	}
}

func (s *approvalEnv) create() step.Run {
	s.t.Helper()
	status, err := s.host.CreateRun(s.t.Context(), RunSpec{
		Name: "r", Placement: "p", Starter: approval.Identity{Name: "sam", Groups: []string{"sre"}}, Strategy: attackStrategy(s.policy),
	})
	s.must(err)
	return status.Run
}

func (s *approvalEnv) stages() []runstate.StageRun {
	run := s.status().Run
	return run.Form(runstate.Key{}).Stages
}

func (s *approvalEnv) status() Status {
	s.t.Helper()
	status, err := s.host.Run("r").Status(s.t.Context())
	s.must(err)
	return status
}

// request waits for the open request and returns it.
func (s *approvalEnv) request(name string) approval.Request {
	s.t.Helper()
	time.Sleep(time.Minute)
	status := s.status()
	open := step.Requests(status.Plan, &status.Run)
	if len(open) != 1 || open[0].Name != name {
		s.t.Fatalf("the run is %s (%s), open are %+v, want %s", status.Run.State, status.Run.Reason, open, name)
	}
	return open[0]
}

func (s *approvalEnv) events() (out []stages.Event) {
	s.t.Helper()
	f, err := s.host.Follow("")
	s.must(err)
	for ev, err := range f.Past(s.t.Context()) {
		s.must(err)
		out = append(out, ev)
	}
	return out
}

func (s *approvalEnv) id() string {
	s.drawn++
	return fmt.Sprintf("command-%06d", s.drawn)
}

// smuggle writes a command past the engines.
func (s *approvalEnv) smuggle(uid, key string, value []byte) {
	s.t.Helper()
	if _, err := s.store.Put(s.t.Context(), record.CommandKey(uid, key), value, ""); !errors.Is(err, backend.ErrConflict) {
		s.must(err)
	}
}

func smuggled(id string, d approval.Decision) []byte {
	c := stages.Command{ID: id, Verb: stages.Decide, By: d.By, At: time.Now(), Decision: &d}
	return record.Encode(record.Command{Format: record.Format, Command: c})
}

// answer gives an answer that counts, and returns its event.
func (s *approvalEnv) answer(d approval.Decision) stages.Event {
	s.t.Helper()
	before := len(s.events())
	request := approval.RequestName("r", d.Binding.Stage, d.Binding.When)
	s.must(s.host.Run("r").Command(s.t.Context(), stages.Command{Verb: stages.Decide, Name: request, By: d.By, Decision: &approval.Decision{Verdict: d.Verdict, Comment: d.Comment, Binding: d.Binding}}))
	time.Sleep(time.Minute)
	for _, ev := range s.events()[before:] {
		if ev.By == d.By.Name && ev.Request == request && ev.Type != stages.CommandRefused {
			return ev
		}
	}
	s.t.Fatalf("the answer of %s was lost", d.By.Name)
	return stages.Event{}
}

// threatened tries a decision as an answer to a request, and as a command in the store that the
// engine carries out. Neither counts, and both are refused with a reason.
func (s *approvalEnv) threatened(what, request string, d approval.Decision) {
	s.t.Helper()
	err := s.host.Run("r").Command(s.t.Context(), stages.Command{Verb: stages.Decide, Name: request, By: d.By, Decision: &approval.Decision{Verdict: d.Verdict, Binding: d.Binding}})
	if kind := kindOf(err); kind != "refused" && kind != "not found" {
		s.t.Errorf("%s: as an answer: %v", what, err)
	}
	id := s.id()
	s.refuses(what, id, smuggled(id, d))
}

// refuses checks that a command in the store is refused with an event.
func (s *approvalEnv) refuses(what, key string, value []byte) {
	s.t.Helper()
	was, before := s.status(), len(s.events())
	s.smuggle(was.Run.UID, key, value)
	time.Sleep(time.Minute)
	events := s.events()[before:]
	if len(events) != 1 || events[0].Type != stages.CommandRefused || events[0].Message == "" {
		s.t.Errorf("%s: the journal tells %+v", what, events)
	}
	now := s.status()
	if len(now.Run.Form(runstate.Key{}).Stages[now.Run.Form(runstate.Key{}).Stage].Gates) != len(was.Run.Form(runstate.Key{}).Stages[was.Run.Form(runstate.Key{}).Stage].Gates) || now.Run.Form(runstate.Key{}).Stage != was.Run.Form(runstate.Key{}).Stage {
		s.t.Errorf("%s: the run went on", what)
	}
}
