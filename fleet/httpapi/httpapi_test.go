package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

var update = flag.Bool("update", false, "write the golden files")

// ann is the identity of all requests of the tests.
var ann = approval.Identity{Name: "ann", Groups: []string{"ops"}}

// env is an engine that runs on memory backends: shop-1 has ended, and the canary of shop-2 waits
// for an approval.
type env struct {
	t       *testing.T
	engine  *fleet.Engine
	store   *memory.Store
	members *memory.Fleet
	source  *memory.Source
}

func object(kind, namespace, name, value string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}}
	if namespace != "" {
		obj.SetNamespace(namespace)
		obj.Object["data"] = map[string]any{"key": value}
	}
	return obj
}

func strategy(after ...stages.Task) stages.Strategy {
	ring := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"ring": name}}
	}
	return stages.Strategy{Rollback: &stages.RollbackPolicy{}, Stages: []stages.Stage{
		{Name: "canary", Selector: ring("canary"), After: after}, {Name: "rest", Selector: ring("rest")},
	}}
}

func newEnv(t *testing.T) *env {
	t.Helper()
	ring := func(name string) map[string]string { return map[string]string{"ring": name} }
	v := &env{
		t: t, store: memory.NewStore(),
		members: memory.NewFleet(
			placement.Cluster{Name: "eu-1", Labels: ring("canary")},
			placement.Cluster{Name: "eu-2", Labels: ring("rest")}, placement.Cluster{Name: "eu-3", Labels: ring("rest")},
		),
		source: memory.NewSource(object("Namespace", "", "shop", ""), object("ConfigMap", "shop", "web", "v1")),
	}
	var err error
	v.engine, err = fleet.New(fleet.Config{Store: v.store, Name: "engine", Inventory: v.members, Dialer: v.members, Source: v.source})
	v.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = v.engine.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	v.must(v.engine.PutPlacement(ctx, fleet.Placement{Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}}))
	for _, name := range []string{"shop-1", "shop-2"} {
		s := strategy()
		if name == "shop-2" {
			s = strategy(stages.Task{Type: stages.Approval})
			v.must(v.source.Put(object("ConfigMap", "shop", "web", "v2")))
		}
		_, err := v.engine.CreateRun(ctx, fleet.RunSpec{Name: name, Placement: "shop", Strategy: s, Starter: ann})
		v.must(err)
		if name == "shop-1" {
			_, err = v.engine.Run(name).Wait(ctx)
			v.must(err)
		}
	}
	v.event("shop-2", stages.ApprovalRequested)
	return v
}

func (v *env) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

// event waits for an event of a run.
func (v *env) event(run string, want stages.EventType) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), 20*time.Second)
	defer cancel()
	f, err := v.engine.Run(run).Follow("")
	v.must(err)
	for ev, err := range f.Events(ctx) {
		v.must(err)
		if ev.Type == want {
			return
		}
	}
	v.t.Fatalf("run %s has ended without %s", run, want)
}

func (v *env) handler() http.Handler {
	v.t.Helper()
	h, err := httpapi.NewHandler(v.engine, httpapi.Options{Authenticate: func(*http.Request) (approval.Identity, error) { return ann, nil }})
	v.must(err)
	return h
}

// bothWays calls test with a client of the handler through a server, and with one in process.
func bothWays(t *testing.T, test func(t *testing.T, v *env, c *httpapi.Client)) {
	for _, way := range []string{"server", "in process"} {
		t.Run(way, func(t *testing.T) {
			v := newEnv(t)
			base, via := "http://engine", httpapi.InProcess(v.handler())
			if way == "server" {
				server := httptest.NewServer(v.handler())
				t.Cleanup(server.Close)
				base, via = server.URL, server.Client().Transport
			}
			c, err := httpapi.NewClient(base, httpapi.ClientOptions{Transport: via})
			v.must(err)
			test(t, v, c)
		})
	}
}

func collect[T any](t *testing.T, all func(func(T, error) bool)) (out []T) {
	t.Helper()
	for one, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, one)
	}
	return out
}

// equal compares a result of a client with the engine's result.
func equal[T any](t *testing.T, what string, got T, err error, want T, werr error) {
	t.Helper()
	if err != nil || werr != nil {
		t.Fatalf("%s: %v, of the engine %v", what, err, werr)
	}
	if diff := cmp.Diff(jsonOf(t, want), jsonOf(t, got)); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestClientReturnsTheAnswersOfTheEngine(t *testing.T) {
	bothWays(t, func(t *testing.T, v *env, c *httpapi.Client) {
		ctx, e := t.Context(), v.engine
		view, err := e.Placement("shop").View(ctx)
		v.must(err)
		placements, err := c.Placements(ctx)
		v.must(err)
		want, err := e.Placement("shop").Get(ctx)
		equal(t, "Placements", placements[0].Placement, nil, want, err)
		if p := placements[0]; p.Snapshots != 2 || p.Runs != 2 || p.Latest.Index != 1 {
			t.Errorf("Placements: %d snapshots, %d runs, latest %v", p.Snapshots, p.Runs, p.Latest)
		}
		one, err := c.Placement("shop").Get(ctx)
		equal(t, "Placement", one, err, placements[0], nil)
		snapshots, err := c.Placement("shop").Snapshots(ctx)
		equal(t, "Snapshots", snapshots, err, view.Snapshots(), nil)
		items, err := view.Items(ctx, 0)
		var brought []httpapi.SnapshotObject
		for _, item := range items {
			brought = append(brought, httpapi.SnapshotObject{ID: item.ID, Envelope: item.Envelope})
		}
		objects, served := c.Placement("shop").SnapshotObjects(ctx, 0)
		equal(t, "SnapshotObjects", objects, served, brought, err)
		if _, err := c.Placement("shop").SnapshotObjects(ctx, 9); !errors.Is(err, backend.ErrNotFound) || len(brought) == 0 {
			t.Errorf("of %d objects, those of a snapshot that is not there: %v", len(brought), err)
		}
		placed, err := c.Placement("shop").Placed(ctx)
		equal(t, "Placed", placed, err, collect(t, view.Placed(ctx)), nil)
		runs, err := c.Runs(ctx)
		all, werr := e.Runs(ctx)
		equal(t, "RunSummaries", runs, err, all, werr)
		status, err := c.Run("shop-2").Status(ctx)
		wantStatus, werr := e.Run("shop-2").Status(ctx)
		equal(t, "Status", status, err, wantStatus, werr)
		history, err := c.Run("shop-2").History(ctx, 1)
		wantHistory, werr := e.Run("shop-2").History(ctx, 1)
		equal(t, "History", history, err, wantHistory, werr)
		history, err = c.Run("shop-1").History(ctx, 0)
		wantHistory, werr = e.Run("shop-1").History(ctx, 0)
		equal(t, "History", history, err, wantHistory, werr)
		history, err = c.Placement("shop").History(ctx, 0)
		wantHistory, werr = e.Placement("shop").History(ctx, 0)
		equal(t, "PlacementHistory", history, err, wantHistory, werr)
		requests, err := c.Run("shop-2").Requests(ctx)
		wantRequests, werr := e.Run("shop-2").Requests(ctx)
		equal(t, "Requests", requests, err, wantRequests, werr)
		requests, err = c.Requests(ctx)
		equal(t, "AllRequests", requests, err, wantRequests, werr)
		waiting, err := c.Run("shop-2").Waiting(ctx)
		equal(t, "Waiting", waiting, err, step.Waiting(wantStatus.Plan, &wantStatus.Run), nil)
		outline, err := c.Run("shop-2").Outline(ctx)
		equal(t, "Outline", outline, err, wantStatus.Run.Outline(wantStatus.Plan), nil)
		why, err := c.Run("shop-2").Explain(ctx, "eu-2")
		wantWhy, werr := e.Run("shop-2").Explain(ctx, "eu-2")
		equal(t, "Explain", why, err, wantWhy, werr)
		back, err := c.Run("shop-2").RollbackStatus(ctx)
		wantBack, werr := e.Run("shop-2").RollbackStatus(ctx)
		equal(t, "RollbackOf", back, err, wantBack, werr)
		plan, err := c.Run("shop-2").PreviewRollback(ctx)
		wantPlan, werr := e.Run("shop-2").PreviewRollback(ctx)
		equal(t, "PreviewRollback", plan, err, wantPlan, werr)
		leases, err := c.Leases(ctx)
		wantLeases, werr := e.Leases(ctx)
		for i := range wantLeases { // a lease may be renewed between the calls
			wantLeases[i].Until, leases[i].Until = time.Time{}, time.Time{}
		}
		equal(t, "Leases", leases, err, wantLeases, werr)

		spec := fleet.RunSpec{Placement: "shop", Strategy: strategy(), Starter: ann}
		plan, err = c.Preview(ctx, spec)
		preview, werr := e.Preview(ctx, spec)
		v.must(werr)
		equal(t, "Preview", plan, err, preview.Plan, werr)
		start := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		forecast, err := c.Forecast(ctx, spec, fleet.Assumptions{Start: start})
		wantForecast, werr := preview.Forecast(ctx, fleet.Assumptions{Start: start})
		equal(t, "Forecast", forecast, err, wantForecast, werr)
		ends, err := c.Run("shop-2").ForecastEnd(ctx, fleet.Assumptions{})
		wantForecast, werr = e.Run("shop-2").Forecast(ctx, fleet.Assumptions{})
		if err != nil || werr != nil || len(ends.Stages) != 2 || ends.Ends.Sub(wantForecast.Ends).Abs() > time.Minute || ends.Plan != nil || ends.Events != nil {
			t.Errorf("ForecastEnd: %v, %+v", err, ends)
		}
		forecast, err = c.Run("shop-2").Forecast(ctx, fleet.Assumptions{})
		if err != nil || forecast.Plan.Digest != wantForecast.Plan.Digest || len(forecast.Events) != len(wantForecast.Events) {
			t.Errorf("Forecast: %v, %+v", err, forecast)
		}
		selection, err := c.Placement("shop").PreviewResolve(ctx, &placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"eu-2"}})
		v.must(err)
		if got := selection.Clusters; !cmp.Equal(got, []string{"eu-2"}) {
			t.Errorf("PreviewSelection: %v", got)
		}
		differs := map[string]int{}
		for _, d := range collect(t, c.Diff(ctx, spec)) {
			differs[d.Cluster] = len(d.Objects)
		}
		if !cmp.Equal(differs, map[string]int{"eu-1": 0, "eu-2": 1, "eu-3": 1}) {
			t.Errorf("Diff: %v", differs)
		}
		zero := 0
		drift := collect(t, c.Placement("shop").Drift(ctx, fleet.DriftOptions{Clusters: []string{"eu-1"}, Index: &zero}))
		if len(drift) != 1 || len(drift[0].Objects) != 1 {
			t.Errorf("Drift: %+v", drift)
		}
	})
}

func TestAClientDirectsTheEngine(t *testing.T) {
	bothWays(t, func(t *testing.T, v *env, c *httpapi.Client) {
		ctx := t.Context()
		v.must(c.SetCap(ctx, "all", 7))
		caps, err := c.Caps(ctx)
		wantCaps, werr := v.engine.Caps(ctx)
		equal(t, "Caps", caps, err, wantCaps, werr)
		v.must(c.DeleteCap(ctx, "all"))
		requests, err := c.Run("shop-2").Requests(ctx)
		v.must(err)
		nope := stages.Command{Verb: stages.Skip, Scope: stages.SkipStage, Name: "nope"}
		for _, err := range []error{c.Run("shop-2").Command(ctx, nope), c.Run("shop-2").CheckCommand(ctx, nope)} {
			if !errors.Is(err, approval.ErrRefused) || !strings.Contains(err.Error(), "the plan has no stage nope (canary, rest)") {
				t.Errorf("a skip of a stage that does not exist: %v", err)
			}
		}
		v.must(c.Run("shop-2").CheckCommand(ctx, stages.Command{Verb: stages.Stop}))
		if recorded, err := c.Run("shop-2").Recorded(ctx); err != nil || len(recorded) != 0 {
			t.Errorf("checks have recorded %v, %v", recorded, err)
		}
		v.must(c.Run("shop-2").Command(ctx, stages.Command{Verb: stages.Stop, Message: "lunch", By: approval.Identity{Name: "eve"}}))
		v.event("shop-2", stages.RunStopped)
		v.must(c.Run("shop-2").Command(ctx, stages.Command{Verb: stages.Start}))
		v.must(c.Run("shop-2").Command(ctx, stages.Command{Verb: stages.Decide, Name: "shop-2-after-canary", By: approval.Identity{Name: "eve"}, Decision: &approval.Decision{Verdict: approval.Approve, Binding: requests[0].Binding}}))
		v.event("shop-2", stages.RunCompleted)
		if err := c.Run("shop-2").Command(ctx, stages.Command{Verb: stages.Stop}); !errors.Is(err, approval.ErrRefused) || !strings.Contains(err.Error(), "the run has ended") {
			t.Errorf("a stop of a run that has ended: %v", err)
		}
		history, err := c.Run("shop-2").History(ctx, 0)
		v.must(err)
		for _, ev := range history.Events {
			if ev.By == "eve" {
				t.Errorf("an identity of a body counts: %+v", ev)
			}
			if ev.Type == stages.ApprovalAccepted && ev.By != "ann" {
				t.Errorf("approved by %q", ev.By)
			}
		}
		status, err := c.CreateRun(ctx, fleet.RunSpec{Name: "shop-3", Placement: "shop", Strategy: strategy(), Hold: true, Starter: approval.Identity{Name: "eve"}})
		v.must(err)
		if !cmp.Equal(status.Run.Starter, ann) {
			t.Errorf("started by %+v", status.Run.Starter)
		}
		v.must(c.Run("shop-3").Delete(ctx, true))
		if _, err := c.Run("shop-2").CatchUp(ctx, "shop-4"); err == nil || !strings.Contains(err.Error(), "no cluster failed") {
			t.Errorf("CatchUp: %v", err)
		}
		back, err := c.Run("shop-2").Rollback(ctx, fleet.RollbackOptions{Name: "back", Reason: "slow"})
		if err != nil || back != "back" {
			t.Fatalf("Rollback: %q, %v", back, err)
		}
		for state, err := c.Run("shop-2").RollbackStatus(ctx); state.Pending; state, err = c.Run("shop-2").RollbackStatus(ctx) {
			v.must(err)
		}
		_, err = v.engine.Run("back").Wait(ctx)
		v.must(err)
		v.must(c.Placement("shop").Delete(ctx, fleet.DeleteOptions{}))
		for {
			d, err := c.Placement("shop").Deletion(ctx)
			v.must(err)
			if !d.Ended.IsZero() {
				break
			}
		}
		v.must(c.Placement("shop").ForgetDeletion(ctx))
		if _, err := c.Placement("shop").Deletion(ctx); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("the deletion is known: %v", err)
		}
	})
}

func TestClientErrorsMatchTheErrorsOfTheEngine(t *testing.T) {
	bothWays(t, func(t *testing.T, v *env, c *httpapi.Client) {
		ctx := t.Context()
		_, notFound := c.Run("other").Status(ctx)
		_, conflict := c.CreateRun(ctx, fleet.RunSpec{Name: "shop-1", Placement: "shop", Strategy: strategy()})
		_, permanent := c.Run("shop-1").History(ctx, 1<<40)
		_, changed := c.CreateRun(ctx, fleet.RunSpec{Name: "shop-3", Placement: "shop", Strategy: strategy(), Plan: strings.Repeat("0", 64)})
		_, invalid := c.CreateRun(ctx, fleet.RunSpec{Name: "Shop 3", Placement: "shop"})
		_, absent := c.Placement("other").Placed(ctx)
		stream := func() (err error) {
			for _, err = range c.Placement("other").Drift(ctx, fleet.DriftOptions{}) {
			}
			return err
		}()
		refused := c.Run("shop-2").Command(ctx, stages.Command{Verb: stages.Decide, Name: "shop-2-after-canary", Decision: &approval.Decision{Verdict: approval.Approve, Binding: approval.Binding{Stage: "other"}}})
		for _, tt := range []struct {
			name   string
			err    error
			is     error
			code   int
			reason string
		}{
			{"a run that is not there", notFound, backend.ErrNotFound, 404, "NotFound"},
			{"a placement that is not there", absent, backend.ErrNotFound, 404, "NotFound"},
			{"a stream of what is not there", stream, backend.ErrNotFound, 404, "NotFound"},
			{"a name that is taken", conflict, backend.ErrConflict, 409, "Conflict"},
			{"a number of another run", permanent, backend.ErrPermanent, 422, "Permanent"},
			{"another plan", changed, nil, 409, "PlanChanged"},
			{"a document with problems", invalid, nil, 422, "Invalid"},
			{"a decision about something else", refused, approval.ErrRefused, 409, "Refused"},
		} {
			e, is := errors.AsType[*httpapi.Error](tt.err)
			if !is || e.Code != tt.code || e.Reason != tt.reason || tt.is != nil && !errors.Is(tt.err, tt.is) {
				t.Errorf("%s: %#v", tt.name, tt.err)
			}
			for _, other := range []error{backend.ErrNotFound, backend.ErrConflict, backend.ErrPermanent, backend.ErrFenced, approval.ErrRefused, errdef.ErrDeleting} {
				if !errors.Is(other, tt.is) && errors.Is(tt.err, other) {
					t.Errorf("%s matches %v", tt.name, other)
				}
			}
		}
		_, werr := v.engine.Run("other").Status(ctx)
		if notFound.Error() != werr.Error() {
			t.Errorf("%q, of the engine %q", notFound, werr)
		}
	})
}

func TestEventsAreFollowedToTheEndOfARun(t *testing.T) {
	bothWays(t, func(t *testing.T, v *env, c *httpapi.Client) {
		ctx := t.Context()
		f := c.Run("shop-2").Follow("")
		var seen []stages.EventType
		for ev, err := range f.Events(ctx) {
			v.must(err)
			if seen = append(seen, ev.Type); ev.Type == stages.ApprovalRequested {
				break
			}
		}
		f = c.Run("shop-2").Follow(f.Cursor())
		v.must(c.Run("shop-2").Command(ctx, stages.Command{Verb: stages.Decide, Name: "shop-2-after-canary", Decision: &approval.Decision{Verdict: approval.Approve}}))
		for ev, err := range f.Events(ctx) {
			v.must(err)
			seen = append(seen, ev.Type)
		}
		var want []stages.EventType
		whole, err := v.engine.Run("shop-2").Follow("")
		v.must(err)
		for ev, err := range whole.Events(ctx) {
			v.must(err)
			want = append(want, ev.Type)
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("events: %s", diff)
		}
		for _, err := range c.Run("other").Follow("").Events(ctx) {
			if !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("a run that is not there: %v", err)
			}
		}
		for _, err := range c.Run("shop-1").Follow(f.Cursor()).Events(ctx) {
			if e, is := errors.AsType[*httpapi.Error](err); !is || e.Code != 400 {
				t.Errorf("the cursor of another run: %v", err)
			}
		}
	})
}

func TestFollowingAPlacementEndsWithTheContext(t *testing.T) {
	bothWays(t, func(t *testing.T, v *env, c *httpapi.Client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		n := 0
		var last error
		for _, err := range c.Placement("shop").Follow("").Events(ctx) {
			if last = err; err == nil {
				n++
			}
			if n == 5 {
				cancel()
			}
		}
		if n < 5 || !errors.Is(last, context.Canceled) {
			t.Errorf("%d events, then %v", n, last)
		}
	})
}

// A cut stream is an error and never looks complete.
func TestAStreamThatIsCutIsAnError(t *testing.T) {
	v := newEnv(t)
	h := v.handler()
	var cut http.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		ctx, cancel := context.WithTimeout(r.Context(), time.Second)
		defer cancel()
		h.ServeHTTP(rec, r.WithContext(ctx))
		w.Header().Set("Content-Type", "application/x-ndjson")
		lines := bytes.SplitAfter(rec.Body.Bytes(), []byte("\n"))
		_, _ = w.Write(bytes.Join(lines[:2], nil))
	}
	c, err := httpapi.NewClient("http://engine", httpapi.ClientOptions{Transport: httpapi.InProcess(cut)})
	v.must(err)
	var last error
	n := 0
	for _, err := range c.Placement("shop").Drift(t.Context(), fleet.DriftOptions{}) {
		if last = err; err == nil {
			n++
		}
	}
	if n != 2 || !errors.Is(last, httpapi.ErrCut) {
		t.Errorf("drift: %d clusters, then %v", n, last)
	}
	last = nil
	for _, err := range c.Run("shop-1").Follow("").Events(t.Context()) {
		last = err
	}
	if !errors.Is(last, httpapi.ErrCut) {
		t.Errorf("events: %v", last)
	}
}

// request is an ordinary request to a handler.
func request(h http.Handler, method, target, body string, header ...string) *httptest.ResponseRecorder {
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second) // ends a stream that should not begin
	defer stop()
	r := httptest.NewRequestWithContext(ctx, method, "http://engine"+target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func reason(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var e struct{ Error httpapi.Error }
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil {
		t.Errorf("%s: %v", w.Body, err)
	}
	if e.Error.Code != w.Code {
		t.Errorf("code %d in an answer of %d", e.Error.Code, w.Code)
	}
	return e.Error.Reason
}

func TestWithoutAuthenticationTheHandlerOnlyReads(t *testing.T) {
	v := newEnv(t)
	h, err := httpapi.NewHandler(v.engine, httpapi.Options{})
	v.must(err)
	if w := request(h, "GET", "/v1/runs", ""); w.Code != 200 {
		t.Errorf("GET: %d %s", w.Code, w.Body)
	}
	for method, path := range changes(t) {
		if w := request(h, method, path, "{}"); w.Code != 403 || reason(t, w) != "ReadOnly" {
			t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	before, err := v.engine.Run("shop-2").Status(t.Context())
	if err != nil || before.Run.State != stages.Running {
		t.Errorf("shop-2: %v, %v", before.Run.State, err)
	}
}

// documented returns the routes in the documentation: method, path, and whether it is marked as a
// change.
func documented(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^//\t(GET|POST|PUT|DELETE) +(/v1/\S+) *(\*?)`).FindAllStringSubmatch(string(text), -1)
}

// changes yields the routes that change something, with names from the environment in their paths.
func changes(t *testing.T) func(func(method, path string) bool) {
	return func(yield func(string, string) bool) {
		for _, r := range documented(t) {
			path := strings.NewReplacer("{placement}", "shop", "{run}", "shop-2", "{cap}", "all", "{cluster}", "eu-1").Replace(r[2])
			if r[3] == "*" && !yield(r[1], path) {
				return
			}
		}
	}
}

func TestTheDocumentationListsTheRoutes(t *testing.T) {
	v := newEnv(t)
	readOnly, err := httpapi.NewHandler(v.engine, httpapi.Options{})
	v.must(err)
	var listed []string
	for _, r := range documented(t) {
		listed = append(listed, r[1]+" "+r[2])
		w := request(readOnly, r[1], r[2], "{}")
		if refused := w.Code == 403; refused != (r[3] == "*") || w.Code == 405 || strings.Contains(w.Body.String(), "NoRoute") {
			t.Errorf("%s %s: documented as a change %v, answered %d %s", r[1], r[2], r[3] == "*", w.Code, w.Body)
		}
	}
	if diff := cmp.Diff(httpapi.Routes(), listed); diff != "" {
		t.Errorf("the routes and those that the documentation lists:\n%s", diff)
	}
}

func TestARequestWithoutAnIdentityIsUnauthorized(t *testing.T) {
	v := newEnv(t)
	for _, authenticate := range []func(*http.Request) (approval.Identity, error){
		func(*http.Request) (approval.Identity, error) { return ann, errors.New("the token is not known") },
		func(*http.Request) (approval.Identity, error) { return approval.Identity{}, nil },
	} {
		h, err := httpapi.NewHandler(v.engine, httpapi.Options{Authenticate: authenticate})
		v.must(err)
		for _, method := range []string{"GET", "POST"} {
			if w := request(h, method, "/v1/runs", "{}"); w.Code != 401 || reason(t, w) != "Unauthorized" || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %d %s", method, w.Code, w.Body)
			}
		}
	}
}

func TestAPageOfAnotherSiteChangesNothing(t *testing.T) {
	v := newEnv(t)
	h := v.handler()
	abort := `{"verb":"Abort"}`
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Origin", "https://evil.example"},
		{"Content-Type", "text/plain"},
		{"Content-Type", "application/x-www-form-urlencoded"},
		{"Content-Type", ""},
	} {
		if w := request(h, "POST", "/v1/runs/shop-2/commands", abort, header...); w.Code != 403 && w.Code != 415 {
			t.Errorf("%v: %d %s", header, w.Code, w.Body)
		}
	}
	if w := request(h, "POST", "/v1/runs/shop-2/commands", abort, "Sec-Fetch-Site", "same-origin", "Content-Type", "application/json; charset=utf-8"); w.Code != 204 {
		t.Errorf("a page of the same site: %d %s", w.Code, w.Body)
	}
}

func TestBodiesAreBoundedAndStrict(t *testing.T) {
	v := newEnv(t)
	h, err := httpapi.NewHandler(v.engine, httpapi.Options{MaxBody: 100, Authenticate: func(*http.Request) (approval.Identity, error) { return ann, nil }})
	v.must(err)
	for _, tt := range []struct {
		method, target, body string
		code                 int
		reason               string
	}{
		{"POST", "/v1/runs/shop-2/commands", `{"verb":"Stop","message":"` + strings.Repeat("x", 100) + `"}`, 413, "TooLarge"},
		{"POST", "/v1/runs/shop-2/commands", `{"verb":"Stop","nonsense":1}`, 400, "BadRequest"},
		{"POST", "/v1/runs/shop-2/commands", `{"verb":"Stop"} {}`, 400, "BadRequest"},
		{"POST", "/v1/runs/shop-2/commands", `{"verb":`, 400, "BadRequest"},
		{"POST", "/v1/runs/shop-2/commands", ``, 422, "Invalid"},
		{"POST", "/v1/placements/shop/preview", `{"placement":"other"}`, 400, "BadRequest"},
		{"GET", "/v1/runs?limit=-1", "", 400, "BadRequest"},
		{"GET", "/v1/runs?limit=10001", "", 400, "BadRequest"},
		{"GET", "/v1/runs?continue=nonsense", "", 400, "BadRequest"},
		{"GET", "/v1/runs/shop-1/events?after=x", "", 400, "BadRequest"},
		{"GET", "/v1/runs/shop-1/events?follow=1", "", 400, "BadRequest"},
		{"GET", "/v1/nonsense", "", 404, "NoRoute"},
		{"GET", "/", "", 404, "NoRoute"},
		{"PUT", "/v1/runs", "", 405, "NoRoute"},
	} {
		w := request(h, tt.method, tt.target, tt.body)
		if got := reason(t, w); w.Code != tt.code || got != tt.reason {
			t.Errorf("%s %s %s: %d %s, want %d %s", tt.method, tt.target, tt.body, w.Code, got, tt.code, tt.reason)
		}
	}
}

func TestListsAndHistoriesComeInParts(t *testing.T) {
	v := newEnv(t)
	h := v.handler()
	var names []string
	for token, parts := "", 0; parts == 0 || token != ""; parts++ {
		var part httpapi.List[fleet.PlacedCluster]
		v.must(json.Unmarshal(request(h, "GET", "/v1/placements/shop/clusters?limit=1&continue="+token, "").Body.Bytes(), &part))
		if len(part.Items) != 1 || parts > 3 {
			t.Fatalf("part %d: %+v", parts, part)
		}
		names, token = append(names, part.Items[0].Name), part.Continue
	}
	if !cmp.Equal(names, []string{"eu-1", "eu-2", "eu-3"}) {
		t.Errorf("clusters %v", names)
	}
	whole, err := v.engine.Run("shop-1").History(t.Context(), 0)
	v.must(err)
	var part httpapi.EventsPage
	v.must(json.Unmarshal(request(h, "GET", "/v1/runs/shop-1/events?after=2&limit=3", "").Body.Bytes(), &part))
	if !part.More || part.Next != 5 || jsonOf(t, part.Events) != jsonOf(t, whole.Events[2:5]) {
		t.Errorf("events: %+v", part)
	}
}

// A record is written to the client before the next one exists.
func TestAStreamIsWrittenAsItComes(t *testing.T) {
	v := newEnv(t)
	server := httptest.NewServer(v.handler())
	defer server.Close()
	answer, err := server.Client().Get(server.URL + "/v1/runs/shop-2/events?follow=true")
	v.must(err)
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	var r httpapi.Record[stages.Event]
	for r.Item == nil || r.Item.Type != stages.ApprovalRequested {
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		v.must(json.Unmarshal(lines.Bytes(), &r))
	}
	v.must(v.engine.Run("shop-2").Command(t.Context(), stages.Command{Verb: stages.Abort, By: ann}))
	for lines.Scan() {
		v.must(json.Unmarshal(lines.Bytes(), &r))
	}
	if !r.End {
		t.Errorf("the last record: %+v", r)
	}
}

func TestAHandlerThatPanicsInProcessIsAnError(t *testing.T) {
	for _, write := range []string{"", "{"} {
		via := httpapi.InProcess(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, write)
			panic("broken")
		}))
		c, err := httpapi.NewClient("http://engine", httpapi.ClientOptions{Transport: via})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Run("shop").Status(t.Context()); err == nil {
			t.Errorf("after %q: no error", write)
		}
	}
}

func TestAddressesOfServersAreChecked(t *testing.T) {
	for _, base := range []string{"", "engine", "ftp://engine", "http://", "http://ann:secret@engine", "http://engine/?x=1", "://"} {
		if _, err := httpapi.NewClient(base, httpapi.ClientOptions{}); err == nil {
			t.Errorf("%q is accepted", base)
		}
	}
	if _, err := httpapi.NewHandler(nil, httpapi.Options{}); err == nil {
		t.Error("no engine is accepted")
	}
}

// Pages and programs depend on the JSON of the API, so a change of the golden file is a change of
// the API.
func TestShapes(t *testing.T) {
	v := newEnv(t)
	h := v.handler()
	var out strings.Builder
	for _, tt := range [][3]string{
		{"GET", "/v1/placements"},
		{"GET", "/v1/placements/shop/snapshots"},
		{"GET", "/v1/placements/shop/clusters"},
		{"GET", "/v1/placements/shop/events?limit=1"},
		{"GET", "/v1/runs"},
		{"GET", "/v1/runs/shop-2"},
		{"GET", "/v1/runs/shop-2/progress?after=1&limit=1"},
		{"GET", "/v1/runs/shop-2/approvals"},
		{"GET", "/v1/runs/shop-2/explanation"},
		{"GET", "/v1/runs/shop-2/outline"},
		{"GET", "/v1/runs/shop-2/clusters/eu-2/explanation"},
		{"GET", "/v1/runs/shop-2/rollback"},
		{"GET", "/v1/runs/shop-2/rollback/preview"},
		{"GET", "/v1/leases"},
		{"PUT", "/v1/strategies/careful?dryRun=true", `{"name":"careful"}`},
		{"PUT", "/v1/strategies/careful", `{"name":"careful","stages":[{"name":"all","labelSelector":{},"afterStageTasks":[{"type":"TimedWait","waitTime":"10s"}]}]}`},
		{"GET", "/v1/strategies"},
		{"PUT", "/v1/caps/all", `{"limit":7}`},
		{"GET", "/v1/caps"},
		{"GET", "/v1/runs/other"},
		{"POST", "/v1/placements/shop/selection", `{"policy":{"placementType":"PickFixed","clusterNames":["eu-2"]}}`},
		{"POST", "/v1/placements/shop/preview", `{"strategy":{"stages":[{"name":"all","labelSelector":{}}]}}`},
		{"POST", "/v1/placements/shop/diff", `{"spec":{"strategy":{"stages":[{"name":"all","labelSelector":{}}]}},"clusters":["eu-2"]}`},
		{"POST", "/v1/placements/shop/drift", `{"clusters":["eu-1"],"index":0}`},
		{"POST", "/v1/placements/shop/forecast", `{"spec":{"strategy":{"stages":[{"name":"all","labelSelector":{}}]}},"assumptions":{"start":"2026-05-01T00:00:00Z"}}`},
	} {
		w := request(h, tt[0], tt[1], tt[2])
		out.WriteString(tt[0] + " " + tt[1] + " " + tt[2] + "\n" + w.Result().Status + "\n")
		d := json.NewDecoder(w.Body)
		for d.More() {
			var one json.RawMessage
			v.must(d.Decode(&one))
			var text bytes.Buffer
			v.must(json.Indent(&text, one, "", "  "))
			out.WriteString(text.String() + "\n")
		}
		out.WriteString("\n")
	}
	got := out.String()
	for _, volatile := range []struct{ find, put string }{
		{`"\d{4}-\d\d-\d\dT[0-9:.]+Z"`, `"TIME"`},
		{`[0-9a-f]{64}`, `DIGEST`},
		{`\b\d{13}\b`, `MILLIS`},
		{`"(uid|runUID|Uid)": "[^"]+"`, `"$1": "UID"`},
		{`(eu-\d -?\d+ \d+ )[^"]+`, `${1}UID`},
		{`"(typical|at|started|ended|held|opened)": "[0-9.a-zµ]+"`, `"$1": "DURATION"`},
		{`"seq": \d+`, `"seq": N`},
	} {
		got = regexp.MustCompile(volatile.find).ReplaceAllString(got, volatile.put)
	}
	golden := filepath.Join("testdata", "shapes.txt")
	if *update {
		v.must(os.MkdirAll("testdata", 0o755))
		v.must(os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	v.must(err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("shapes (-want +got):\n%s", diff)
	}
}

// No body makes the handler panic or answer with an error of its own.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"verb":"Stop"}`, `{"request":"shop-2-after-canary","verdict":"Approve","binding":{"attempt":1}}`, `{"limit":-1}`, `{"run":"x"}`,
		`{"name":"x","placement":"shop","strategy":{"stages":[{"name":"a","labelSelector":{}}]}}`, `{"spec":{"index":0},"clusters":["a"]}`, `null`, `[]`, `"`,
	} {
		f.Add(0, seed)
	}
	e, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: memory.NewFleet(), Dialer: memory.NewFleet(), Source: memory.NewSource()})
	if err != nil {
		f.Fatal(err)
	}
	h, err := httpapi.NewHandler(e, httpapi.Options{Authenticate: func(*http.Request) (approval.Identity, error) { return ann, nil }})
	if err != nil {
		f.Fatal(err)
	}
	if err := e.PutPlacement(f.Context(), fleet.Placement{Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}}); err != nil {
		f.Fatal(err)
	}
	routes := []string{
		"POST /v1/runs", "POST /v1/runs/x/commands", "POST /v1/runs/x/rollback", "POST /v1/runs/x/catch-up", "PUT /v1/caps/x",
		"POST /v1/placements/shop/preview", "POST /v1/placements/shop/diff", "POST /v1/placements/shop/forecast", "POST /v1/placements/shop/selection", "POST /v1/placements/shop/drift",
	}
	f.Fuzz(func(t *testing.T, route int, body string) {
		method, path, _ := strings.Cut(routes[uint(route)%uint(len(routes))], " ")
		w := request(h, method, path, body)
		if d := json.NewDecoder(w.Body); w.Code != http.StatusNoContent {
			var v any
			if err := d.Decode(&v); err != nil {
				t.Errorf("%s %s %s: %d, %v", method, path, body, w.Code, err)
			}
		}
	})
}
