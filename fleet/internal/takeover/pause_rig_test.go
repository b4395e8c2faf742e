//go:build unix

package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/keyed"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// patience is the longest wait for anything on a busy machine.
const patience = 6 * time.Minute

// ground is a store, a fleet of four clusters and the source of the rollouts.
type ground struct {
	store  *memory.Store
	fleet  *memory.Fleet
	source *memory.Source
	// extras are the objects that only the last run has.
	extras []snapshot.ID
	// host creates runs. On the undisturbed ground it also drives them.
	host *fleet.Engine
}

func newGround(t *testing.T) *ground {
	g := &ground{store: memory.NewStore(), fleet: memory.NewFleet(), source: memory.NewSource()}
	for i := range 4 {
		g.fleet.Add(placement.Cluster{Name: fmt.Sprint("c", i)})
	}
	var err error
	g.host, err = fleet.New(fleet.Config{
		Name: "host", Store: g.store, Inventory: g.fleet, Dialer: g.fleet, Source: g.source,
	})
	if err == nil {
		err = g.host.PutPlacement(t.Context(), fleet.Placement{
			Name: "p", Selectors: []snapshot.Selector{{Group: "example.com", Version: "v1", Kind: "Setting"}},
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// create creates a run that rolls out its own name, to two clusters at a time: it changes one
// object, creates two, and deletes the objects of the previous run.
func (g *ground) create(t *testing.T, run string) {
	t.Helper()
	two := intstr.FromInt32(2)
	var err error
	for _, name := range []string{"app", "first-" + run, "second-" + run} {
		err = errors.Join(err, g.source.Put(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Setting", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"value": run},
		}}))
	}
	for _, id := range g.extras {
		g.source.Delete(id)
	}
	g.extras = []snapshot.ID{settingID("first-" + run), settingID("second-" + run)}
	if err == nil {
		_, err = g.host.CreateRun(t.Context(), fleet.RunSpec{Name: run, Placement: "p", Strategy: stages.Strategy{
			Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &two}},
		}})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func settingID(name string) snapshot.ID {
	return snapshot.ID{Group: "example.com", Version: "v1", Kind: "Setting", Name: name}
}

// members describes every member: its objects and the proven part of its ledgers. The doubtful part
// of a ledger depends on the disturbances, and is left out.
func (g *ground) members(t *testing.T) (out []string) {
	for c := range g.fleet.Clusters(t.Context()) {
		for _, obj := range g.fleet.Cluster(c.Name).List("") {
			what := any(substance(obj))
			if obj.GetNamespace() == "slipway-system" {
				l := ledgerIn(obj)
				l.Epoch, l.Doubtful, l.Revision = 0, nil, g.opened(t, obj.GetName(), l.Revision)
				what = l
			}
			b, err := json.Marshal(what)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, c.Name+" "+string(b))
		}
	}
	return out
}

// opened returns the revision that a ledger holds sealed with the placement's key.
func (g *ground) opened(t *testing.T, placement, sealed string) string {
	rec, err := g.store.Get(t.Context(), "placement/"+placement)
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Key []byte `json:"key"`
	}
	if err := json.Unmarshal(rec.Value, &p); err != nil {
		t.Fatal(err)
	}
	if revision, ok := keyed.Open(p.Key, "revision of "+placement, sealed); ok {
		return revision
	}
	return sealed
}

// rig is a ground for two engines in separate processes, and a calm ground without disturbances.
type rig struct {
	*ground
	t      *testing.T
	name   string
	calm   *ground
	socket string
	rand   *rand.Rand
	procs  []*process
	runs   int
	// usual is the number of writes of an undisturbed run. exact is the number of writes that
	// arrived right after the next leader had written the ledger.
	usual, exact int

	mu     sync.Mutex
	fences *fences
	asked  map[string]question // by writeKey
	log    []string
	trial  *trial
	delays *rand.Rand
}

// trial is one run whose leader is disturbed. The lock of the rig protects its fields. A channel is
// closed when the event of its name has happened.
type trial struct {
	run    string
	victim *process
	stopAt int  // the write of the victim that triggers the stop
	hold   bool // that write is delayed until a write of the next leader
	letAt  int  // the number of that write of the next leader
	// If exact is set, the first write of an object after stopAt is delayed instead: a creation if
	// creates is set, otherwise a change. The write waits until the ledger of its cluster has the
	// epoch of the next leader, and that leader then waits for the write.
	exact   bool
	creates bool
	heldAt  string // the cluster
	heldKey string // the writeKey
	met     bool   // the write arrived in that order
	// slow makes the store delay the writes of the stopped victim, so that it learns only from the
	// members that another leader has followed.
	slow   bool
	after  time.Duration
	wakeAt int // the write of the other process that wakes the victim
	// disturb stops the victim.
	disturb func()

	taken, disturbed, over, let, landed, wake, ended event
	writes, others                                   int
	at, overAt                                       time.Time
}

type event struct {
	c    chan struct{}
	done bool
}

func newEvent() event { return event{c: make(chan struct{})} }

func (e *event) happen() {
	if !e.done {
		e.done = true
		close(e.c)
	}
}

// newRig returns a rig. Its members check fences if fenced is set.
func newRig(t *testing.T, name string, seed uint64, fenced bool) *rig {
	r := &rig{
		t: t, name: name, ground: newGround(t), calm: newGround(t), fences: newFences(fenced), asked: map[string]question{},
		rand: rand.New(rand.NewPCG(16, seed)), delays: rand.New(rand.NewPCG(17, seed)),
	}
	r.socket = listen(t, Config{Store: r.store, Inventory: r.fleet, Dialer: dialer(r.fleet, fenced), Before: r.before, Seen: r.seen})
	for range 2 {
		r.enlist()
	}
	return r
}

// listen offers cfg to other processes until the test ends and returns the socket.
func listen(t *testing.T, cfg Config) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "slipway") //nolint:usetesting // t.TempDir is too long for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, cfg, l)
	return socket
}

// enlist starts another engine.
func (r *rig) enlist() {
	r.procs = append(r.procs, spawn(r.t, fmt.Sprintf("%s-%d", r.name, len(r.procs)+r.runs), r.socket))
}

// before lets the victim of a trial take the run, and disturbs it.
func (r *rig) before(ctx context.Context, w Write) {
	r.mu.Lock()
	r.asked[writeKey(w)] = question{r.fences.leads[w.Client], time.Now()}
	tr, delay := r.trial, time.Duration(r.delays.IntN(3000))*time.Microsecond
	mine := tr != nil && w.Client == tr.victim.name
	var wait chan struct{}
	switch {
	case tr == nil:
	case !mine && w.Key == "run/"+tr.run:
		wait = tr.taken.c
	case mine && tr.slow && tr.disturbed.done && w.Cluster == "":
		wait = tr.ended.c
	case !mine && tr.heldAt != "" && w.Cluster == tr.heldAt && tr.let.done:
		wait = tr.landed.c
	case mine && tr.taken.done:
		if tr.writes++; tr.hits(w) {
			wait = tr.strike(r, w)
		}
	}
	r.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	if w.Cluster != "" {
		pause(ctx, delay)
	}
}

// hits reports whether a write of the victim triggers the stop.
func (tr *trial) hits(w Write) bool {
	if tr.exact {
		return tr.writes >= tr.stopAt && !tr.disturbed.done && w.ID.Kind == "Setting" && w.Precondition.Absent == tr.creates
	}
	return tr.writes == tr.stopAt
}

// strike stops the victim, now or soon, and returns the channel that the write must wait for. The
// caller must hold the lock.
func (tr *trial) strike(r *rig, w Write) chan struct{} {
	if tr.after > 0 {
		time.AfterFunc(tr.after, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			tr.strikeNow()
		})
		return nil
	}
	tr.strikeNow()
	if tr.exact {
		tr.heldAt, tr.heldKey = w.Cluster, writeKey(w)
	}
	if tr.hold || tr.exact {
		return tr.let.c
	}
	return nil
}

func (tr *trial) strikeNow() {
	if tr.ended.done {
		return
	}
	tr.disturb()
	tr.at = time.Now()
	tr.disturbed.happen()
}

// writeKey returns a key that is the same before a write and after it.
func writeKey(w Write) string {
	return fmt.Sprint(w.Client, w.Op, w.Key, w.Prev, w.Cluster, w.ID, w.Precondition)
}

func (r *rig) seen(w Write) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, time.Now().Format("05.000 ")+w.String())
	asked := r.asked[writeKey(w)]
	delete(r.asked, writeKey(w))
	if r.trial != nil && r.trial.heldKey == writeKey(w) {
		r.trial.landed.happen()
	}
	if w.Err != nil {
		return
	}
	r.fences.accepted(w, asked)
	if r.trial != nil {
		r.trial.accepted(w)
	}
}

// accepted advances the trial. The caller must hold the lock of the rig.
func (tr *trial) accepted(w Write) {
	if w.Client != tr.victim.name && tr.over.done {
		tr.others++
		tr.progress()
		if tr.heldAt != "" && w.Cluster == tr.heldAt && w.ID.Namespace == "slipway-system" {
			tr.met = tr.met || !tr.let.done
			tr.let.happen()
		}
	}
	if w.Key != "run/"+tr.run || w.Op != "put" {
		return
	}
	var head runHead
	_ = json.Unmarshal(w.Value, &head)
	switch {
	case head.Lease.Holder == tr.victim.name:
		tr.taken.happen()
	case head.Lease.Holder != "" && !tr.over.done:
		tr.overAt = time.Now()
		tr.over.happen()
		tr.progress()
	case head.Lease.Holder == "" && head.Run.State == stages.Completed:
		tr.ended.happen()
		tr.let.happen()
	}
}

// progress releases the delayed write and wakes the victim when it is time.
func (tr *trial) progress() {
	if tr.others >= tr.letAt && !tr.exact {
		tr.let.happen()
	}
	if tr.others >= tr.wakeAt && (tr.let.done || !tr.exact) {
		tr.wake.happen()
	}
}

// begin creates a run and makes victim take it.
func (r *rig) begin(victim *process, tr *trial) {
	r.runs++
	tr.run, tr.victim = fmt.Sprintf("r%04d", r.runs), victim
	tr.taken, tr.disturbed, tr.over = newEvent(), newEvent(), newEvent()
	tr.let, tr.landed, tr.wake, tr.ended = newEvent(), newEvent(), newEvent(), newEvent()
	r.mu.Lock()
	r.trial, r.log = tr, nil
	r.fences.changes, r.fences.late = map[string]int{}, map[string]int{}
	r.mu.Unlock()
	r.create(r.t, tr.run)
	r.calm.create(r.t, tr.run)
}

// await waits for one of the events and returns it.
func (r *rig) await(what string, events ...*event) *event {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	done := make(chan *event, len(events))
	for _, e := range events {
		go func() {
			select {
			case <-e.c:
				done <- e
			case <-ctx.Done():
				done <- nil
			}
		}()
	}
	e := <-done
	if e == nil {
		r.fail("%s did not happen within %v", what, patience)
	}
	return e
}

// fail ends the test with the record of the trial.
func (r *rig) fail(format string, args ...any) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	tr := r.trial
	r.t.Fatalf("%s\nrun %s of %s, stopped at write %d, hold %v until %d, exact %v of %s, after %v, slow %v, woken at %d\n%s",
		fmt.Sprintf(format, args...), tr.run, tr.victim.name, tr.stopAt, tr.hold, tr.letAt, tr.exact, tr.heldKey, tr.after, tr.slow, tr.wakeAt, strings.Join(r.log, "\n"))
}
