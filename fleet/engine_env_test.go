package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/internal/keyed"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// soak reports whether the long versions of the tests were requested.
func soak() bool { return os.Getenv("SLIPWAY_SOAK") == "1" }

// newEngine returns an engine on the environment's inventory and source.
func (w *engineEnv) newEngine(cfg fleet.Config) *fleet.Engine {
	w.t.Helper()
	if cfg.Store == nil {
		cfg.Store = w.store
	}
	if cfg.Inventory == nil {
		cfg.Inventory = w.fleet
	}
	if cfg.Dialer == nil {
		cfg.Dialer = w.fleet
	}
	cfg.Source = w.source
	e, err := fleet.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// running starts e. The returned function stops it and waits until it has ended.
func running(t testing.TB, e *fleet.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Start(ctx) }()
	stopped := false
	return func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		<-done
	}
}

// change is an effective write to a member.
type change struct {
	By, Cluster, Object string
	// Op is write, touch, delete or ledger.
	Op string
	// At is the ledger at the time of the write, Was the previous ledger before a write of the
	// ledger.
	At, Was memberLedger
	When    time.Time
}

func (c change) String() string {
	return fmt.Sprintf("%s by %s: %s of %s on %s, run %s attempt %d epoch %d", c.When.Format("15:04:05.000"), c.By, c.Op, c.Object, c.Cluster, c.At.Run, c.At.Attempt, c.At.Epoch)
}

// memberLedger is the part of a ledger that the tests read.
type memberLedger struct {
	Run      string `json:"run"`
	RunUID   string `json:"runUID"`
	Attempt  int    `json:"attempt"`
	Epoch    int64  `json:"epoch"`
	Touch    int64  `json:"touch"`
	Phase    string `json:"phase"`
	Revision string `json:"revision"`
	Target   string `json:"target"`
}

// recorder records the actual changes on the members, and the engine of each. Calls for one cluster
// pass one after the other.
type recorder struct {
	fleet   *memory.Fleet
	lock    chan struct{}
	changes []change
}

func newRecorder(f *memory.Fleet) *recorder { return &recorder{fleet: f, lock: make(chan struct{}, 1)} }

func (r *recorder) dialer(by string) backend.Dialer {
	return backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		conn, err := r.fleet.Dial(ctx, c)
		if err != nil {
			return nil, err
		}
		return &recorderConn{conn.(backend.ConnWatcher), r, by, r.fleet.Cluster(c.Name)}, nil
	})
}

func (r *recorder) all() []change {
	r.lock <- struct{}{}
	defer func() { <-r.lock }()
	return slices.Clone(r.changes)
}

type recorderConn struct {
	backend.ConnWatcher
	r       *recorder
	by      string
	cluster *memory.Cluster
}

func (c *recorderConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	id := snapshot.IDOf(obj)
	c.r.lock <- struct{}{}
	defer func() { <-c.r.lock }()
	before, was := c.get(id), c.ledger(o.Manager)
	got, err := c.ConnWatcher.Apply(ctx, obj, o)
	if err == nil && (before == nil || before.GetResourceVersion() != got.GetResourceVersion()) {
		op := "write"
		switch {
		case id.Namespace == "slipway-system" || id.Name == "slipway-system":
			op = "ledger"
		case before != nil && reflect.DeepEqual(substance(before), substance(got)):
			op = "touch"
		}
		c.note(op, id, o.Manager, was)
	}
	return got, err
}

func (c *recorderConn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	c.r.lock <- struct{}{}
	defer func() { <-c.r.lock }()
	was := c.ledger(o.Manager)
	err := c.ConnWatcher.Delete(ctx, id, o)
	if err == nil {
		c.note("delete", id, o.Manager, was)
	}
	return err
}

func (c *recorderConn) note(op string, id snapshot.ID, manager string, was memberLedger) {
	c.r.changes = append(c.r.changes, change{
		By: c.by, Cluster: c.cluster.Name(), Object: id.String(), Op: op, At: c.ledger(manager), Was: was, When: time.Now(),
	})
}

func (c *recorderConn) get(id snapshot.ID) *unstructured.Unstructured {
	obj, err := c.cluster.Get(id)
	if err != nil {
		return nil
	}
	return obj
}

func (c *recorderConn) ledger(manager string) memberLedger {
	return ledgerOf(c.cluster, strings.TrimPrefix(manager, "slipway/"))
}

func ledgerOf(c *memory.Cluster, placement string) (l memberLedger) {
	obj, err := c.Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "slipway-system", Name: placement})
	if err != nil {
		return l
	}
	text, _, _ := unstructured.NestedString(obj.Object, "data", "ledger")
	_ = json.Unmarshal([]byte(text), &l)
	return l
}

// substance returns an object without the metadata that changes by itself, and without the mark of
// a takeover.
func substance(obj *unstructured.Unstructured) map[string]any {
	out := obj.DeepCopy()
	for _, f := range []string{"resourceVersion", "generation", "uid", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(out.Object, "metadata", f)
	}
	a := out.GetAnnotations()
	maps.DeleteFunc(a, func(k, _ string) bool { return strings.HasPrefix(k, "epoch.slipway.dev/") })
	if len(a) == 0 {
		a = nil
	}
	out.SetAnnotations(a)
	return out.Object
}

// members describes every member: its objects and the proven part of its ledgers.
func (w *engineEnv) members() map[string][]string {
	out := map[string][]string{}
	for c := range w.fleet.Clusters(w.t.Context()) {
		cluster := w.fleet.Cluster(c.Name)
		for _, obj := range cluster.List("") {
			what := any(substance(obj))
			if obj.GetNamespace() == "slipway-system" {
				l := ledgerOf(cluster, obj.GetName())
				l.Epoch, l.Touch, l.RunUID = 0, 0, ""
				l.Revision, l.Target = w.opened(obj.GetName(), l.Revision), w.opened(obj.GetName(), l.Target)
				what = l
			}
			b, err := json.Marshal(what)
			if err != nil {
				w.t.Fatal(err)
			}
			out[c.Name] = append(out[c.Name], string(b))
		}
	}
	return out
}

// opened returns the revision that a ledger holds sealed with the placement's key. It uses the key
// of the current record, or the last one that was read. If the key does not open the revision, it
// returns the revision unchanged.
func (w *engineEnv) opened(placement, sealed string) string {
	var p struct {
		Key []byte `json:"key"`
	}
	if rec, err := w.store.Get(w.t.Context(), "placement/"+placement); err == nil && json.Unmarshal(rec.Value, &p) == nil && len(p.Key) > 0 {
		if w.opening == nil {
			w.opening = map[string][]byte{}
		}
		w.opening[placement] = p.Key
	}
	if revision, ok := keyed.Open(w.opening[placement], "revision of "+placement, sealed); ok {
		return revision
	}
	return sealed
}

// outcome describes the result of a run, without random names and times.
func (w *engineEnv) outcome(run string) map[string]any {
	s, err := w.newEngine(fleet.Config{Name: "observer"}).Run(run).Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	states := map[string]stages.State{}
	for pos, state := range s.Run.States(s.Plan) {
		states[s.Plan.Clusters[pos].Name] = state
	}
	gates := []string{}
	for i, st := range s.Run.Form(runstate.Key{}).Stages {
		for _, g := range st.Gates {
			gates = append(gates, fmt.Sprint(s.Plan.Stages[i].Name, g.When, g.Type, g.State, g.Attempt, len(g.Decisions)))
		}
	}
	digest := s.Plan.Digest
	if s.Plan.Rollback != nil {
		digest = "" // it covers the UID of the run that is rolled back
	}
	return map[string]any{
		"state": s.Run.State, "reason": s.Run.Reason, "plan": digest, "clusters": states,
		"gates": gates, "holder": s.Holder, "attempt": s.Run.Attempt,
	}
}

// keys returns the keys under a prefix of the store.
func (w *engineEnv) keys(prefix string) []string {
	var out []string
	for rec, err := range w.store.List(w.t.Context(), prefix) {
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, rec.Key)
	}
	return out
}

// tidy checks that the store has no data that only ended runs needed.
func (w *engineEnv) tidy() {
	w.t.Helper()
	for _, prefix := range []string{"inflight/", "command/"} {
		if keys := w.keys(prefix); len(keys) > 0 {
			w.t.Errorf("left in the store: %v", keys)
		}
	}
}

// past returns all events, read a few at a time from cursors.
func (w *engineEnv) past(atATime int) []stages.Event {
	e := w.newEngine(fleet.Config{Name: "observer"})
	cursor, out := "", []stages.Event(nil)
	for {
		f, err := e.Follow(cursor)
		if err != nil {
			w.t.Fatal(err)
		}
		n := 0
		for ev, err := range f.Past(w.t.Context()) {
			if err != nil {
				w.t.Fatal(err)
			}
			out, n = append(out, ev), n+1
			if n == atATime {
				break
			}
		}
		if n == 0 {
			return out
		}
		cursor = f.Cursor()
	}
}

// ofRun returns the events of a run as text, except its creation, which is in the journal of the
// placement.
func ofRun(events []stages.Event, run string) []string {
	var out []string
	for _, ev := range events {
		if ev.Run == run && ev.Type != stages.RunCreated {
			out = append(out, line(ev))
		}
	}
	return out
}

// within waits for the end of a run, and checks its state and that it took no longer than d.
func (w *engineEnv) within(d time.Duration, run string, want stages.State) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), d)
	defer cancel()
	s, err := w.newEngine(fleet.Config{Name: "observer"}).Run(run).Wait(ctx)
	if err != nil || s.Run.State != want {
		w.t.Errorf("run %s is %s (%s) after at most %v, want %s: %v", run, s.Run.State, s.Run.Reason, d, want, err)
	}
}

// logCase logs the case of a failed test.
func logCase(t *testing.T, format string, args ...any) {
	if t.Failed() {
		t.Logf("in: "+format, args...)
	}
}

// happened returns the number of events of a run of one type.
func (w *engineEnv) happened(run string, what stages.EventType) (n int) {
	w.t.Helper()
	for _, ev := range w.past(1000) {
		n += count(ev.Run == run && ev.Type == what)
	}
	return n
}

// calm keeps a test from hanging if an engine spins: from the nth call that matches on, each takes
// a minute.
func calm(n int64, calls *atomic.Int64, match func(faulty.Call) bool) faulty.Rule {
	return func(c faulty.Call) faulty.Fault {
		if !match(c) || calls.Add(1) < n {
			return faulty.Fault{}
		}
		return faulty.Fault{Delay: time.Minute}
	}
}

func anyCall(faulty.Call) bool { return true }

// refusing makes runs of ClusterUpdate fail at a cluster, so that they can be started again.
func (w *engineEnv) refusing(cluster string, refuses bool) {
	if !refuses {
		w.fleet.Cluster(cluster).Refuse(nil)
		return
	}
	w.fleet.Cluster(cluster).Refuse(func(o *unstructured.Unstructured) error {
		if o.GetKind() == "Setting" {
			return errors.New("not admitted")
		}
		return nil
	})
}

func startable() stages.Strategy {
	s := allAtOnce(1)
	s.Profile = stages.ClusterUpdate
	return s
}

// spans checks by their events that no two runs are active at the same time.
func (w *engineEnv) spans(runs ...string) {
	w.t.Helper()
	active := ""
	for _, ev := range w.past(1000) {
		switch ev.Type {
		case stages.RunStarted, stages.RunResumed:
			if active != "" && active != ev.Run {
				w.t.Errorf("%s, while run %s is active", line(ev), active)
			}
			active = ev.Run
		case stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded:
			if active == ev.Run {
				active = ""
			}
		}
	}
}

// now puts an object into the source.
func (w *engineEnv) now(obj *unstructured.Unstructured) {
	w.t.Helper()
	if err := w.source.Put(obj); err != nil {
		w.t.Fatal(err)
	}
}

// probed is healthy once its status says so.
var probed = health.ProberFunc(func(_ context.Context, obj *unstructured.Unstructured) (health.Status, error) {
	ready, _, _ := unstructured.NestedBool(obj.Object, "status", "ready")
	return health.Status{Healthy: ready, Message: "not ready"}, nil
})

// makeReady plays the controllers of a cluster.
func (w *engineEnv) makeReady(cluster string, ready bool) {
	w.t.Helper()
	if err := w.fleet.Cluster(cluster).SetStatus(setting, map[string]any{"ready": ready}); err != nil {
		w.t.Fatal(err)
	}
}
