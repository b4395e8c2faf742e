package hub_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// sequence is the list of the requests of a hub to its API server and of the calls to its store, in
// the order of their starts.
type sequence struct {
	mu    sync.Mutex
	calls []string
}

func (q *sequence) add(call string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.calls = append(q.calls, call)
}

// taken returns the calls since the last call of taken.
func (q *sequence) taken() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	calls := q.calls
	q.calls = nil
	return calls
}

func (q *sequence) Wrap(next http.RoundTripper) http.RoundTripper {
	return tallied(func(r *http.Request) (*http.Response, error) {
		call := kubeenv.CallOf(r)
		q.add(call.Verb + " " + call.Resource)
		return next.RoundTrip(r)
	})
}

// sequenced is a store whose calls are in a sequence.
type sequenced struct {
	backend.Store
	q *sequence
}

func (s sequenced) Get(ctx context.Context, key string) (backend.Record, error) {
	s.q.add("get " + key)
	return s.Store.Get(ctx, key)
}

func (s sequenced) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	s.q.add("put " + key)
	return s.Store.Put(ctx, key, value, prev)
}

func newSequence(t *testing.T) (*stale, *sequence) {
	t.Helper()
	q, store := &sequence{}, memory.NewStore()
	return staleOn(newHubEnv(t, 0), "stale", store, sequenced{store, q}, func(c *hub.Config) { c.Rest.Wrap(q.Wrap) }), q
}

// wantOrder fails the test unless the calls with these names exist and begin in this order.
func wantOrder(t *testing.T, calls []string, names ...string) {
	t.Helper()
	at := 0
	for _, name := range names {
		n := slices.Index(calls[at:], name)
		if n < 0 {
			t.Fatalf("%q does not follow in this order: %q\n%s", name, names, strings.Join(calls, "\n"))
		}
		at += n + 1
	}
}

// TestARunIsInitializedInOneRound: the hub creates the run of the engine, ties the object to it and
// writes the status in one round. It writes each after the previous one is stored. It reads neither
// the record of the run again nor the content of a snapshot without overrides.
func TestARunIsInitializedInOneRound(t *testing.T) {
	s, q := newSequence(t)
	s.place("v1")
	s.staged("")
	s.sync("crp", s.name, s.SyncPlacement)
	run := s.runOf(s.name, "")
	run.Object["spec"].(map[string]any)["state"] = "Initialize"
	s.create(run)
	s.eventually("a round without an error", func() error {
		s.seen("csur", s.name)
		q.taken()
		return s.SyncRun(t.Context(), s.name)
	})
	calls := q.taken()
	if err := s.condition("csur", s.name, "Initialized", "True"); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(calls, "\n"))
	}
	admission := "put placement/" + s.name
	wantOrder(t, calls, "put run/"+s.name, admission, "patch clusterstagedupdateruns", "update clusterstagedupdateruns/status")
	for _, call := range calls[slices.Index(calls, admission):] {
		if call == "get run/"+s.name || strings.HasPrefix(call, "get content/") {
			t.Errorf("%s\n%s", call, strings.Join(calls, "\n"))
		}
	}
	// The status is complete: another round has nothing to add.
	s.seen("csur", s.name)
	if err := s.SyncRun(t.Context(), s.name); err != nil {
		t.Fatal(err)
	}
	if again := q.taken(); slices.Contains(again, "update clusterstagedupdateruns/status") {
		t.Errorf("the status is written again:\n%s", strings.Join(again, "\n"))
	}
}

// TestAnOutcomeIsReportedFirst: when the record of a run has the answer to a request, the hub writes
// the outcome into the request before the status of the run.
func TestAnOutcomeIsReportedFirst(t *testing.T) {
	s, q := newSequence(t)
	s.place("v1")
	s.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: $NAME}
spec: {stages: [{name: canary, labelSelector: {matchLabels: {stage: canary}}, beforeStageTasks: [{type: Approval}]}]}`)
	s.sync("crp", s.name, s.SyncPlacement)
	s.eventually("the policies to be old enough", func() error { return s.Settled(t.Context()) })
	s.drive()
	s.create(s.runOf(s.name, ""))
	request := s.name + "-before-canary"
	round := func() error {
		s.seen("csur", s.name)
		if _, err := s.at("careq").Get(t.Context(), request, getOptions()); err == nil {
			s.seen("careq", request)
		}
		q.taken()
		return s.SyncRun(t.Context(), s.name)
	}
	s.eventually("the request", func() error {
		_, err := s.at("careq").Get(t.Context(), request, getOptions())
		return errors.Join(round(), err)
	})
	s.approve(request)
	var calls []string
	s.eventually("the outcome", func() error {
		err := round()
		calls = q.taken()
		return errors.Join(err, s.condition("careq", request, "ApprovalAccepted", "True"))
	})
	wantOrder(t, calls, "get run/"+s.name, "update clusterapprovalrequests/status", "update clusterstagedupdateruns/status")
}

// TestAPlacementIsReadOnceForEachAnswer: a round without changes reads the record of the placement
// twice: for the selection, and for the view that everything else uses. It reads the names of the
// selected clusters once, the drift not at all if none was recorded, and writes nothing.
func TestAPlacementIsReadOnceForEachAnswer(t *testing.T) {
	s, q := newSequence(t)
	s.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	s.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}]
  policy: {placementType: PickAll}
  strategy: {type: RollingUpdate}`)
	for range 3 { // the first rounds create the run and the objects
		s.sync("crp", s.name, func(ctx context.Context, name string) error {
			q.taken()
			return s.SyncPlacement(ctx, name)
		})
	}
	calls := q.taken()
	placements, selections := 0, 0
	for _, call := range calls {
		verb, about, _ := strings.Cut(call, " ")
		switch {
		case about == "placement/"+s.name && verb == "get":
			placements++
		case strings.HasPrefix(about, "selection/"):
			selections++
		case verb != "get" && verb != "list":
			t.Errorf("the round writes: %s", call)
		}
	}
	if placements != 2 || selections != 1 {
		t.Errorf("the record is read %d times, the selection %d times:\n%s", placements, selections, strings.Join(calls, "\n"))
	}
}
