package hub

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/stages"
)

// api answers as an API server that has nothing and takes everything, and remembers what it was asked.
type api struct {
	mu    sync.Mutex
	asked []string
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	a.asked = append(a.asked, r.Method+" "+r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]+" "+string(body))
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

// of are the requests that begin so.
func (a *api) of(prefix string) (out []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.asked {
		if strings.HasPrefix(r, prefix) {
			out = append(out, r)
		}
	}
	return out
}

// lonely is a service that nobody runs: its API server is an api, and it has seen objects.
func lonely(t *testing.T, seen ...*unstructured.Unstructured) (*service, *api) {
	t.Helper()
	a := &api{}
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
	for _, obj := range seen {
		if err := stale.See(obj); err != nil {
			t.Fatal(err)
		}
	}
	return stale.s, a
}

// objectAt is the object of a run.
func objectAt(k key) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	u.SetGroupVersionKind(scopeOf(k).gvk(runKind))
	u.SetNamespace(k.Namespace)
	u.SetName(k.Name)
	u.SetUID(types.UID("uid-of-" + k.Name))
	return u
}

// woken are the objects that a loop is asked for.
func woken(l *loop) (out []key) {
	for l.queue.Len() > 0 {
		k, _ := l.queue.Get()
		l.queue.Done(k)
		out = append(out, k)
	}
	return out
}

// rollbackFor is what the engine says of a run that takes back the one of an object.
func rollbackFor(of key) fleet.Status {
	status := *statusOfRollback(of, 1)
	status.Run.UID, status.Owner = "uid-of-the-run", "uid-of-"+of.Name
	return status
}

// TestTheObjectOfARollbackWakesTheOtherRun: its condition says whether there is one, so it is asked for when
// the object is made, and when its name turns out to be taken.
func TestTheObjectOfARollbackWakesTheOtherRun(t *testing.T) {
	for _, of := range []key{{Name: "r"}, {Namespace: "web", Name: "r"}, {Namespace: longNamespace, Name: "r"}, {Namespace: longNamespace, Name: "a-name-that-is-cut"}} {
		back := key{Namespace: of.Namespace, Name: of.Name + "-rollback"}
		s, a := lonely(t, objectAt(of), objectAt(back))
		if _, err := s.showRollback(t.Context(), back, rollbackFor(of)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]key{of}, woken(s.runs)); d != "" {
			t.Errorf("the rollback of %s was shown, and woken are (-want +got):\n%s", of, d)
		}
		made := a.of("POST " + scopeOf(of).gvr(runKind).Resource)
		if len(made) != 1 || !strings.Contains(made[0], `"slipway.dev/rollback-of":"`+of.Name+`"`) || !strings.Contains(made[0], `"name":"`+back.Name+`"`) {
			t.Errorf("the rollback of %s: made were %q", of, made)
		}
		if err := s.nameTaken(t.Context(), back, objectAt(back), rollbackFor(of)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]key{of}, woken(s.runs)); d != "" {
			t.Errorf("the name of the rollback of %s is taken, and woken are (-want +got):\n%s", of, d)
		}
	}
}

// TestARunWithoutAnObjectIsLookedFor: what the engine's name tells at once, and what was cut by the record of
// the run.
func TestARunWithoutAnObjectIsLookedFor(t *testing.T) {
	s, _ := lonely(t)
	for name, want := range map[string][]key{"r": {{Name: "r"}}, "n.web.r": {{Namespace: "web", Name: "r"}}, kubefleet.EngineName(longNamespace, "a-run-name"): nil, "r.1.p": nil} {
		s.heardOrphan(name)
		if d := cmp.Diff(want, woken(s.runs)); d != "" {
			t.Errorf("of run %s woken are (-want +got):\n%s", name, d)
		}
		if got := len(woken(s.orphans)); (got == 1) != kubefleet.IsCut(name) {
			t.Errorf("of run %s %d records are read", name, got)
		}
	}
}

// TestWhoAsksForARollback: whom the API server stamped, which is not who made the run, and nobody where it
// does not stamp.
func TestWhoAsksForARollback(t *testing.T) {
	obj := objectAt(key{Name: "r"})
	obj.SetGeneration(7)
	obj.SetAnnotations(map[string]string{manifests.CreatedBy: "ann", manifests.RollbackBy: "bob"})
	for stamped, want := range map[bool]string{true: "bob", false: ""} {
		got := rollbackOptions(obj, stamped)
		if got.By.Name != want || got.Reason != "spec.state of generation 7" || got.Name != "" {
			t.Errorf("stamped is %t: the rollback is asked for as %+v, want it to be by %q, for spec.state of generation 7", stamped, got, want)
		}
	}
	obj.SetAnnotations(map[string]string{manifests.CreatedBy: "ann"})
	if got := rollbackOptions(obj, true); got.By.Name != "" {
		t.Errorf("nobody was stamped, and the rollback is by %q", got.By.Name)
	}
}

// TestTheLabelOfAMark: "true" sets the mark, "false" takes it away, each once; without a label nothing
// changes, and the label is written where the mark is set and nobody says otherwise.
func TestTheLabelOfAMark(t *testing.T) {
	for _, c := range []struct {
		label        string
		marked       bool
		want         markChange
		written      any
		irreversible bool
	}{
		{"", false, markKept, nil, false},
		{"", true, markKept, "true", true},
		{"true", false, markSet, nil, true},
		{"true", true, markKept, nil, true},
		{"false", true, markTaken, nil, false},
		{"false", false, markKept, nil, false},
		{"yes", false, markWrong, nil, false},
		{"yes", true, markWrong, nil, true},
	} {
		if got := markAsked(c.label, c.marked); got != c.want {
			t.Errorf("label %q of a snapshot, marked %t, asks for %d, want %d", c.label, c.marked, got, c.want)
		}
		have := map[string]string{labelLatest: "false"}
		if c.label != "" {
			have[labelIrreversible] = c.label
		}
		snap := shownSnapshot{irreversible: c.irreversible}
		if got := snap.labelsMissing(have)[labelIrreversible]; got != c.written {
			t.Errorf("label %q of a snapshot, marked %t then: written is %v, want %v", c.label, c.irreversible, got, c.written)
		}
	}
}

// TestWhatBeginsNoRun: an object that shows a run or is a copy of one, one that claims to take another one
// back, and one that is to be taken back itself.
func TestWhatBeginsNoRun(t *testing.T) {
	for what, c := range map[string]struct {
		change func(*unstructured.Unstructured)
		state  kubefleet.State
		shows  bool
		want   string
	}{
		"a run":           {},
		"a run that runs": {state: kubefleet.RunState},
		"the seal":        {change: func(u *unstructured.Unstructured) { u.SetAnnotations(map[string]string{annotationSeal: "x"}) }, shows: true},
		"the label":       {change: func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{labelRollbackOf: "r"}) }, want: "slipway.dev/rollback-of is for runs that the hub makes"},
		"the state":       {state: kubefleet.Rollback, want: "begin the run with another one"},
	} {
		obj := objectAt(key{Name: "r"})
		if c.change != nil {
			c.change(obj)
		}
		if got := showsRun(obj); got != c.shows {
			t.Errorf("%s: it shows a run is %t, want %t", what, got, c.shows)
		}
		text := ""
		if err := notBegun(kubefleet.Run{State: c.state}, obj); err != nil {
			text = err.Error()
		}
		if text != c.want && (c.want == "" || !strings.Contains(text, c.want)) {
			t.Errorf("%s: no run is begun because %q, want %q", what, text, c.want)
		}
	}
}

// TestTheSealTellsTheObjectOfARollback: a copy under another name or in another namespace, what was sealed
// for another run, and a name that matches without a seal, are not that object, whatever their labels say.
func TestTheSealTellsTheObjectOfARollback(t *testing.T) {
	s, _ := lonely(t)
	of := key{Namespace: "web", Name: "r"}
	status := rollbackFor(of)
	own := key{Namespace: "web", Name: "r-rollback"}
	seal := func(k key, uid string) string {
		text, err := s.rollbackSeal(t.Context(), k, uid)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for what, c := range map[string]struct {
		at   key
		seal string
		want bool
	}{
		"its own":                     {own, seal(own, status.Run.UID), true},
		"a copy of another name":      {key{Namespace: "web", Name: "copy"}, seal(own, status.Run.UID), false},
		"a copy in another namespace": {key{Namespace: "shop", Name: "r-rollback"}, seal(own, status.Run.UID), false},
		"that of a run before":        {own, seal(own, "uid-before"), false},
		"no seal":                     {own, "", false},
		"a wrong one":                 {own, "0123", false},
	} {
		obj := objectAt(c.at)
		obj.SetLabels(map[string]string{labelRollbackOf: of.Name})
		obj.SetAnnotations(map[string]string{annotationSeal: c.seal})
		if got, err := s.isOf(t.Context(), obj, status); err != nil || got != c.want {
			t.Errorf("%s: it is the object of the run is %t, want %t (%v)", what, got, c.want, err)
		}
	}
}

// TestTheLabelOfARollbackIsPutBack: where it is missing or another one, and not where it is right, nor on
// the object of any other run.
func TestTheLabelOfARollbackIsPutBack(t *testing.T) {
	of := key{Namespace: longNamespace, Name: "a-name-that-is-cut"}
	back := key{Namespace: of.Namespace, Name: of.Name + "-rollback"}
	plain := fleet.Status{Run: stages.Run{Name: "r"}, Plan: &stages.Plan{}}
	for label, c := range map[string]struct {
		status fleet.Status
		want   int
	}{"": {rollbackFor(of), 1}, "another": {rollbackFor(of), 1}, of.Name: {rollbackFor(of), 0}, "of nothing": {plain, 0}} {
		s, a := lonely(t)
		obj := objectAt(back)
		obj.SetLabels(map[string]string{labelRollbackOf: label})
		_ = s.relabel(t.Context(), obj, &c.status) // the server does not have the object
		got := a.of("PATCH " + back.Name)
		if len(got) != c.want || c.want == 1 && !strings.Contains(got[0], `"slipway.dev/rollback-of":"`+of.Name+`"`) {
			t.Errorf("the label is %q: written was %q", label, got)
		}
	}
}

// TestOrdersOfARollbackAreItsOwn: an object that was made again begins with the first generation, and its
// orders are not those of the one before, whatever its labels say.
func TestOrdersOfARollbackAreItsOwn(t *testing.T) {
	obj := objectAt(key{Name: "r"})
	obj.SetGeneration(2)
	if got := orderID(obj, &stages.Plan{}); got != "state-2" {
		t.Errorf("the order of a run is %s", got)
	}
	if got := orderID(obj, &stages.Plan{Rollback: &stages.PlannedRollback{}}); got != "state-uid-of-r-2" {
		t.Errorf("the order of a run that takes back is %s", got)
	}
}
