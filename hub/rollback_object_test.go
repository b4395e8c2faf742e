package hub

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// asked is an API server that has no objects and accepts everything. It records its requests.
type asked struct {
	mu  sync.Mutex
	all []string
}

func (a *asked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.all = append(a.all, r.Method+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]+" "+string(body))
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		w.WriteHeader(http.StatusNotFound)
		body = []byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	}
	if _, err := w.Write(body); err != nil {
		panic(err)
	}
}

// of returns the requests with the prefix.
func (a *asked) of(prefix string) (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.all {
		if strings.HasPrefix(r, prefix) {
			out = append(out, r)
		}
	}
	return out
}

// lonely returns a service that is not running and has seen the given objects, and its API server.
func lonely(t *testing.T, seen ...*unstructured.Unstructured) (*service, *asked) {
	t.Helper()
	a := &asked{}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	h, err := New(Config{Rest: &rest.Config{Host: server.URL}, Dialer: memory.NewFleet(), Store: memory.NewStore(), Name: "lonely"})
	if err != nil {
		t.Fatal(err)
	}
	stale, err := NewStale(h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stale.Close)
	for _, q := range []**reconcile.Queue[api.Key]{&stale.s.queues.Runs, &stale.s.queues.Orphans} {
		(*q).ShutDown()
		*q = listening()
	}
	for _, obj := range seen {
		if err := stale.See(obj); err != nil {
			t.Fatal(err)
		}
	}
	return stale.s, a
}

// objectAt returns the object of a run.
func objectAt(k api.Key) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	u.SetGroupVersionKind(api.ScopeOf(k).GVK(api.RunKind))
	u.SetNamespace(k.Namespace)
	u.SetName(k.Name)
	u.SetUID(types.UID("uid-of-" + k.Name))
	return u
}

// woken returns the keys that a queue has received since the last call, and replaces the queue.
func woken(at **reconcile.Queue[api.Key]) (out []api.Key) {
	q := *at
	*at = listening()
	due := q.Len()
	if due == 0 {
		q.ShutDown()
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	q.Run(context.WithValue(ctx, listener{}, func(k api.Key) {
		if out = append(out, k); len(out) == due {
			cancel()
		}
	}))
	return out
}

// listener is the context key of the function that a listening queue calls with each key.
type listener struct{}

// listening returns a queue that calls the function in its context.
func listening() *reconcile.Queue[api.Key] {
	return reconcile.New(reconcile.Options[api.Key]{Workers: 1, Reconcile: func(ctx context.Context, k api.Key) (time.Duration, error) {
		ctx.Value(listener{}).(func(api.Key))(k)
		return 0, nil
	}})
}

// rollbackFor returns the engine's status of the rollback of an object's run.
func rollbackFor(of api.Key) fleet.Status {
	status := *statusOfRollback(of, 1)
	status.Run.UID, status.Owner = "uid-of-the-run", "uid-of-"+of.Name
	return status
}

// TestTheObjectOfARollbackWakesTheOtherRun: its condition reports whether there is a rollback. So
// the other run is enqueued when the object is created, and when its name turns out to be taken.
func TestTheObjectOfARollbackWakesTheOtherRun(t *testing.T) {
	for _, of := range []api.Key{{Name: "r"}, {Namespace: "web", Name: "r"}, {Namespace: longNamespace, Name: "r"}, {Namespace: longNamespace, Name: "a-name-that-is-cut"}} {
		back := api.Key{Namespace: of.Namespace, Name: of.Name + "-rollback"}
		s, a := lonely(t, objectAt(of), objectAt(back))
		if _, err := s.runs.ShowRollback(t.Context(), back, rollbackFor(of)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]api.Key{of}, woken(&s.queues.Runs)); d != "" {
			t.Errorf("the rollback of %s was shown, and woken are (-want +got):\n%s", of, d)
		}
		made := a.of("POST " + api.ScopeOf(of).GVR(api.RunKind).Resource)
		if len(made) != 1 || !strings.Contains(made[0], `"slipway.dev/rollback-of":"`+of.Name+`"`) || !strings.Contains(made[0], `"name":"`+back.Name+`"`) {
			t.Errorf("the rollback of %s: made were %q", of, made)
		}
		if err := s.runs.NameTaken(t.Context(), back, objectAt(back), rollbackFor(of)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]api.Key{of}, woken(&s.queues.Runs)); d != "" {
			t.Errorf("the name of the rollback of %s is taken, and woken are (-want +got):\n%s", of, d)
		}
	}
}

// TestARunWithoutAnObjectIsLookedFor: the object of a run is found from the engine's name, or from
// the record of the run if the name was cut.
func TestARunWithoutAnObjectIsLookedFor(t *testing.T) {
	s, _ := lonely(t)
	for name, want := range map[string][]api.Key{"r": {{Name: "r"}}, "n.web.r": {{Namespace: "web", Name: "r"}}, kubefleet.EngineName(longNamespace, "a-run-name"): nil, "r.1.p": nil} {
		s.runs.EnqueueOrphan(name)
		if d := cmp.Diff(want, woken(&s.queues.Runs)); d != "" {
			t.Errorf("of run %s woken are (-want +got):\n%s", name, d)
		}
		if got := len(woken(&s.queues.Orphans)); (got == 1) != kubefleet.IsCut(name) {
			t.Errorf("of run %s %d records are read", name, got)
		}
	}
}

// TestSealIdentifiesTheRollbackObject: a copy with another name or in another namespace, an object
// that was sealed for another run, and an object with a matching name but no seal are not the
// object of the rollback, whatever their labels are.
func TestSealIdentifiesTheRollbackObject(t *testing.T) {
	s, _ := lonely(t)
	of := api.Key{Namespace: "web", Name: "r"}
	status := rollbackFor(of)
	own := api.Key{Namespace: "web", Name: "r-rollback"}
	seal := func(k api.Key, uid string) string {
		text, err := s.requests.Seals.OfRollback(t.Context(), k, uid)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for what, c := range map[string]struct {
		at   api.Key
		seal string
		want bool
	}{
		"its own":                     {own, seal(own, status.Run.UID), true},
		"a copy of another name":      {api.Key{Namespace: "web", Name: "copy"}, seal(own, status.Run.UID), false},
		"a copy in another namespace": {api.Key{Namespace: "shop", Name: "r-rollback"}, seal(own, status.Run.UID), false},
		"that of a run before":        {own, seal(own, "uid-before"), false},
		"no seal":                     {own, "", false},
		"a wrong one":                 {own, "0123", false},
	} {
		obj := objectAt(c.at)
		obj.SetLabels(map[string]string{api.LabelRollbackOf: of.Name})
		obj.SetAnnotations(map[string]string{api.AnnotationSeal: c.seal})
		if got, err := s.requests.Seals.IsOf(t.Context(), obj, status); err != nil || got != c.want {
			t.Errorf("%s: it is the object of the run is %t, want %t (%v)", what, got, c.want, err)
		}
	}
}

// TestTheLabelOfARollbackIsRestored: the label is restored if it is missing or wrong. If it is
// right, or the object belongs to another kind of run, nothing is written.
func TestTheLabelOfARollbackIsRestored(t *testing.T) {
	of := api.Key{Namespace: longNamespace, Name: "a-name-that-is-cut"}
	back := api.Key{Namespace: of.Namespace, Name: of.Name + "-rollback"}
	plain := fleet.Status{Run: step.Run{Name: "r"}, Plan: &stages.Plan{}}
	for label, c := range map[string]struct {
		status fleet.Status
		want   int
	}{"": {rollbackFor(of), 1}, "another": {rollbackFor(of), 1}, of.Name: {rollbackFor(of), 0}, "of nothing": {plain, 0}} {
		s, a := lonely(t)
		obj := objectAt(back)
		obj.SetLabels(map[string]string{api.LabelRollbackOf: label})
		_ = s.runs.Relabel(t.Context(), obj, &c.status) // the server does not have the object
		got := a.of("PATCH " + back.Name)
		if len(got) != c.want || c.want == 1 && !strings.Contains(got[0], `"slipway.dev/rollback-of":"`+of.Name+`"`) {
			t.Errorf("the label is %q: written was %q", label, got)
		}
	}
}

// longNamespace is so long that an engine name has no room for a rollback.
var longNamespace = strings.Repeat("n", 55)

// statusOfRollback returns the engine's status of the nth rollback of an object's run.
func statusOfRollback(of api.Key, n int) *fleet.Status {
	run, title := kubefleet.EngineName(of.Namespace, of.Name), api.TitleOf(of)
	return &fleet.Status{
		Run: step.Run{Name: api.RollbackName(run, title, n)}, Title: title,
		Plan: &stages.Plan{Rollback: &stages.PlannedRollback{Run: run}},
	}
}
