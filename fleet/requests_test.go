package fleet_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// requests counts the calls to clusters, as "get ledger" or "apply object".
type requests struct {
	mu  sync.Mutex
	all map[string]int
}

func (r *requests) note(op string, id snapshot.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := " object"
	if id.Namespace == "slipway-system" || id.Name == "slipway-system" {
		what = " ledger"
	}
	r.all[op+what]++
}

// taken returns the counts since the last call of taken.
func (r *requests) taken() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.all
	r.all = map[string]int{}
	return out
}

func (r *requests) dialer(d backend.Dialer) backend.Dialer {
	return backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		conn, err := d.Dial(ctx, c)
		if err != nil {
			return nil, err
		}
		return &countedConn{conn.(backend.ConnWatcher), r}, nil
	})
}

type countedConn struct {
	backend.ConnWatcher
	r *requests
}

func (c *countedConn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	c.r.note("get", id)
	return c.ConnWatcher.Get(ctx, id)
}

func (c *countedConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	c.r.note("apply", snapshot.IDOf(obj))
	return c.ConnWatcher.Apply(ctx, obj, o)
}

// An update of a cluster makes two requests besides the reads of its objects and the applies of
// changed ones: the intent, and its end. The first update of a process also reads the ledger. An
// update without changes makes one request, reads the objects, and applies nothing.
func TestAnUpdateMakesTwoRequestsMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, setup := declared(t, nil)
		w.capture(setup, "v0")
		r := &requests{all: map[string]int{}}
		e := w.newEngine(fleet.Config{Name: "one", Dialer: r.dialer(w.fleet)})
		defer running(t, e)()
		ranTo(t, e, specOf("first", 0), stages.Completed)
		time.Sleep(time.Minute)
		t.Logf("the first update of three clusters: %v", r.taken())
		for i, name := range []string{"second", "third"} {
			w.capture(e, "value of "+name)
			r.taken()
			ranTo(t, e, specOf(name, i+1), stages.Completed)
			time.Sleep(time.Minute)
			if got := r.taken(); got["get ledger"] != 0 || got["apply ledger"] != 6 || got["get object"] != 6 || got["apply object"] != 3 {
				t.Errorf("%s: three clusters of two objects, of which one changed: %v", name, got)
			}
		}
		ranTo(t, e, specOf("again", 2), stages.Completed)
		time.Sleep(time.Minute)
		if got := r.taken(); got["get ledger"]+got["apply ledger"] != 3 || got["get object"] != 6 || got["apply object"] != 0 {
			t.Errorf("nothing to do: %v", got)
		}
	})
}

// If another engine has written a ledger since, the engine notices that its copy is outdated and
// reads the ledger. A kept copy is never authoritative.
func TestAKeptLedgerIsNeverTrusted(t *testing.T) {
	ledger := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "slipway-system", Name: ep}
	for what, meddle := range map[string]func(w *engineEnv){
		"another engine had the cluster": func(w *engineEnv) {
			two := w.engine(w.store, "two")
			w.capture(two, "of two")
			stop := running(w.t, two)
			ranTo(w.t, two, specOf("of-two", 1), stages.Completed)
			stop()
			w.holds("v0")
			must(two.Placement(ep).Capture(w.t.Context()))(w.t)
		},
		"the ledger was deleted": func(w *engineEnv) {
			if err := w.fleet.Cluster("member1").Delete(ledger); err != nil {
				w.t.Fatal(err)
			}
			w.capture(w.engine(w.store, "two"), "new")
		},
		"the ledger was deleted, and nothing is to be done": func(w *engineEnv) {
			if err := w.fleet.Cluster("member1").Delete(ledger); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			defer logCase(t, "%s", what)
			w, e := declared(t, nil)
			w.capture(e, "v0")
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); _ = e.Start(ctx) }()
			ranTo(t, e, specOf("first", 0), stages.Completed)
			time.Sleep(time.Minute)
			meddle(w)
			last := viewOf(t, e, ep).Snapshots()
			ranTo(t, e, specOf("last", last[len(last)-1].Index), stages.Completed)
			cancel()
			<-done
			l := ledgerOf(w.fleet.Cluster("member1"), ep)
			obj := must(w.fleet.Cluster("member1").Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"}))(t)
			if l.Phase != "Applied" || obj.GetAnnotations()["digest.slipway.dev/"+ep] == "" || strings.Contains(w.value("member1"), "two") {
				t.Errorf("ledger %+v, %s", l, w.value("member1"))
			}
		})
	}
}
