package fleet_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/storebench"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// choosy is an updater with a preflight. It reads the content that it brings, and returns
// configured reports.
type choosy struct {
	mu      sync.Mutex
	asked   [][]backend.Intent
	answer  func() error
	brought map[string]string // value by cluster
	report  func(backend.Assignment) backend.Proof
}

func (u *choosy) Preflight(_ context.Context, intents []backend.Intent) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, intents)
	if u.answer == nil {
		return nil
	}
	return u.answer()
}

func (u *choosy) Update(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	r, err := storebench.Instant{}.Update(ctx, a)
	if a.Revision == "" || err != nil {
		return r, err
	}
	set, err := a.Content(ctx)
	if err != nil {
		return backend.Proof{}, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.brought == nil {
		u.brought = map[string]string{}
	}
	u.brought[a.Cluster.Name] = valueOf(set)
	if u.report != nil {
		r = u.report(a)
	}
	return r, nil
}

func (u *choosy) Observe(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	return u.Update(ctx, a)
}

// take returns the intents since the last call, as maps from clusters to their content.
func (u *choosy) take() (out []map[string]string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, intents := range u.asked {
		asked := map[string]string{}
		for _, in := range intents {
			for _, c := range in.Clusters {
				asked[c.Name+" n="+c.Labels["n"]] = in.Placement + " " + valueOf(in.Content)
			}
			if in.Content.Digest != in.Revision {
				asked["content"] = in.Content.Digest
			}
		}
		out = append(out, asked)
	}
	u.asked = nil
	return out
}

// valueOf returns the value of a set with one plain object.
func valueOf(set snapshot.Set) string {
	if len(set.Bodies) != 1 {
		return "?"
	}
	obj, err := snapshot.Decode(set.Bodies[0])
	if err != nil {
		return err.Error()
	}
	v, _, _ := unstructured.NestedString(obj.Object, "spec", "value")
	return v
}

// overriding returns a placement with an override for cluster 1.
func overriding() fleet.Placement {
	p := smallPlacement("p")
	p.Overrides = []placement.Override{{
		Name: "one", Selectors: []placement.ObjectSelector{{Group: "example.com", Version: "v1", Kind: "Setting", Name: "app"}},
		Rules: []placement.Rule{{
			ClusterSelector: &placement.ClusterSelector{Terms: []placement.ClusterTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"n": "1"}}}}},
			Patches:         []placement.Patch{{Op: placement.OpReplace, Path: "/spec/value", Value: []byte(`"other"`)}},
		}},
	}}
	return p
}

// asking runs a scenario with u as the updater of three clusters.
func asking(t *testing.T, u *choosy, scenario func(*testing.T, *engineEnv, *fleet.Engine)) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 3)
		e := w.newEngine(fleet.Config{Name: "one", Updater: u})
		w.declare(e, overriding())
		stop := running(t, e)
		defer stop()
		scenario(t, w, e)
	})
}

func TestAnUpdaterIsAskedBeforeAPlanIsRecorded(t *testing.T) {
	u := &choosy{}
	asking(t, u, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		spec := fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(3)}
		want := map[string]string{"c00 n=0": "p v1", "c01 n=1": "p other", "c02 n=2": "p v1"}
		if _, err := e.Preview(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]map[string]string{want}, u.take()); d != "" {
			t.Errorf("Preview (-want +got):\n%s", d)
		}
		w.create(e, spec)
		if got := u.take(); len(got) == 0 || !cmp.Equal(want, got[0]) {
			t.Errorf("CreateRun: %v", got)
		}
		is(t, e, "r", stages.Completed)
		if d := cmp.Diff(map[string]string{"c00": "v1", "c01": "other", "c02": "v1"}, u.brought); d != "" {
			t.Errorf("what was brought (-want +got):\n%s", d)
		}
	})
}

func TestPreflightBeforeCatchUp(t *testing.T) {
	failing := true
	u := &choosy{report: func(a backend.Assignment) backend.Proof {
		if failing && a.Cluster.Name == "c01" {
			return backend.Proof{Failed: true, Message: "no"}
		}
		return backend.Proof{Sent: true, Applied: true, Revision: a.Revision, Current: true, Healthy: true}
	}}
	asking(t, u, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		s := allAtOnce(3)
		s.Attempts = 1
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: s})
		is(t, e, "r", stages.Failed)
		failing = false
		u.take()
		w.fleet.Add(placement.Cluster{Name: "c09", Labels: map[string]string{"n": "9"}})
		must(e.Run("r").CatchUp(t.Context(), "late", approval.Identity{}))(t)
		want := map[string]string{"c01 n=1": "p other", "c09 n=9": "p v1"}
		if got := u.take(); len(got) == 0 || !cmp.Equal(want, got[0]) {
			t.Errorf("CatchUp: %v", got)
		}
	})
}

func TestPreflightOmitsCleanedClusters(t *testing.T) {
	u := &choosy{}
	asking(t, u, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		w.create(e, fleet.RunSpec{Name: "r1", Placement: "p", Strategy: allAtOnce(3)})
		is(t, e, "r1", stages.Completed)
		u.take()
		p := overriding()
		p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"c00"}}
		w.declare(e, p)
		w.create(e, fleet.RunSpec{Name: "r2", Placement: "p", Strategy: allAtOnce(3)})
		if got := u.take(); len(got) == 0 || !cmp.Equal(map[string]string{"c00 n=0": "p v1"}, got[0]) {
			t.Errorf("%v", got)
		}
		is(t, e, "r2", stages.Completed)
		if err := e.Placement("p").Delete(t.Context(), fleet.DeleteOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
		quiet()
		if got := u.take(); len(got) != 0 {
			t.Errorf("a deletion asked %v", got)
		}
	})
}

func TestAPlanThatIsRefusedIsNotRecorded(t *testing.T) {
	errNo := errors.New("cluster c01 will not have it")
	var release chan struct{}
	for name, tc := range map[string]struct {
		answer func() error
		want   string
		is     error
	}{
		"by an error": {func() error { return errNo }, "will not have it", errNo},
		"by a panic":  {func() error { panic("no") }, "panic", backend.ErrPermanent},
		"by silence":  {func() error { <-release; return nil }, "left behind", context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			u := &choosy{}
			asking(t, u, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
				release = make(chan struct{})
				defer close(release)
				w.create(e, fleet.RunSpec{Name: "r1", Placement: "p", Strategy: allAtOnce(3)})
				is(t, e, "r1", stages.Completed)
				w.fleet.Add(placement.Cluster{Name: "c09"})
				u.answer = tc.answer
				// The session of an engine without leases is deleted at some time, independent of
				// any plan.
				stored := func() []string {
					return slices.DeleteFunc(w.keys(""), func(key string) bool { return strings.HasPrefix(key, "engine/") })
				}
				before, start := stored(), time.Now()
				spec := fleet.RunSpec{Name: "r2", Placement: "p", Strategy: allAtOnce(3)}
				_, previewed := e.Preview(t.Context(), spec)
				_, created := e.CreateRun(t.Context(), spec)
				_, caught := e.Run("r1").CatchUp(t.Context(), "r2", approval.Identity{})
				if !errors.Is(previewed, tc.is) || !strings.Contains(previewed.Error(), tc.want) {
					t.Errorf("Preview: %v", previewed)
				}
				for _, err := range []error{created, caught} {
					if err == nil {
						t.Error("a plan that is refused is recorded")
					}
				}
				if d := time.Since(start); d > time.Minute {
					t.Errorf("it took %v", d)
				}
				if d := cmp.Diff(before, stored()); d != "" {
					t.Errorf("what is stored (-before +after):\n%s", d)
				}
			})
		})
	}
}

func TestAClusterThatIsSkippedByItsUpdater(t *testing.T) {
	sent := map[string]bool{}
	u := &choosy{report: func(a backend.Assignment) backend.Proof {
		there := backend.Proof{Applied: true, Unchanged: true, Revision: a.Revision, Current: true, Healthy: true, Skipped: true, Message: "already there"}
		switch was := sent[a.Cluster.Name]; {
		case a.Cluster.Name == "c00":
			return there
		case !was:
			sent[a.Cluster.Name] = true
			return backend.Proof{Sent: true, Message: "under way"}
		case a.Cluster.Name == "c01":
			return there
		}
		return backend.Proof{Skipped: true, Message: "there is no image"}
	}}
	asking(t, u, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		s := allAtOnce(3)
		s.Attempts = 1
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: s})
		time.Sleep(time.Minute)
		is(t, e, "r", stages.Failed)
		status := must(e.Run("r").Status(t.Context()))(t)
		got := map[string]stages.State{}
		for pos, state := range status.Run.States(status.Plan) {
			got[status.Plan.Clusters[pos].Name] = state
		}
		want := map[string]stages.State{"c00": stages.Skipped, "c01": stages.Completed, "c02": stages.Failed}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		for cluster, reason := range map[string]string{"c00": "already there", "c02": "there is no image"} {
			if x := must(e.Run("r").Explain(t.Context(), cluster))(t); !strings.Contains(x.Reason, reason) {
				t.Errorf("%s: %s", cluster, x.Reason)
			}
		}
	})
}
