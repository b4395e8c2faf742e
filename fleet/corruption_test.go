package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// corruptEnv is an environment of two placements, web and other. Run a of web is in the middle of
// the first of its two stages, with c01 to c39 in flight and an open command. Run b of other is in
// flight on c01, too. No engine drives them.
type corruptEnv struct {
	*engineEnv
	uid, plan string
	calls     *faulty.Plan
	// before is the content of the clusters before run a.
	before map[string]map[string]string
	// log holds the engine's log and its answers.
	log syncLog
}

// syncLog is a log for concurrent writers.
type syncLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// settingOf is an object of its own for each placement.
func settingOf(name, value string) *unstructured.Unstructured {
	obj := plain(value)
	obj.SetName(name)
	return obj
}

// settingPlacement returns a placement: web covers all clusters, others only a few.
func settingPlacement(name string) fleet.Placement {
	p := fleet.Placement{Name: name, Selectors: []snapshot.Selector{{Group: "example.com", Version: "v1", Kind: "Setting", Name: name}}}
	if name != "web" {
		p.Policy = placement.Policy{Type: placement.PickFixed, ClusterNames: []string{"c00", "c01", "c41"}}
	}
	return p
}

// corruptClusters is large enough that the clusters in flight fill more than a page, and their
// events too.
const corruptClusters = 42

// twoStages updates c00 to c39, asks for approval, and then updates c40 and c41.
func twoStages() stages.Strategy {
	st := allAtOnce(corruptClusters, stages.Task{Type: stages.Approval})
	st.Stages = append(st.Stages, allAtOnce(corruptClusters).Stages...)
	for i, name := range []string{"first", "rest"} {
		st.Stages[i].Name, st.Stages[i].Selector = name, everything()
		st.Stages[i].Selector.MatchLabels = map[string]string{"stage": name}
	}
	return st
}

func newCorruptEnv(t *testing.T) *corruptEnv {
	w := &corruptEnv{engineEnv: newSmallEnv(t, 0), calls: faulty.NewPlan()}
	w.source = memory.NewSource(settingOf("web", "v1"), settingOf("other", "v1"))
	for i := range corruptClusters {
		stage := map[bool]string{true: "first", false: "rest"}[i < corruptClusters-2]
		w.fleet.Add(placement.Cluster{Name: fmt.Sprintf("c%02d", i), Labels: map[string]string{"stage": stage}})
	}
	h := w.newEngine(fleet.Config{Name: "host"})
	for _, name := range []string{"web", "other"} {
		w.declare(h, settingPlacement(name))
		w.create(h, fleet.RunSpec{Name: "before-" + name, Placement: name, Strategy: allAtOnce(corruptClusters)})
	}
	stop := running(t, h)
	w.within(time.Minute, "before-web", stages.Completed)
	w.within(time.Minute, "before-other", stages.Completed)
	w.before = w.has()
	for _, name := range []string{"web", "other"} {
		if err := w.source.Put(settingOf(name, "v2")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range corruptClusters - 3 {
		w.fleet.Hang(fmt.Sprintf("c%02d", 1+i), true)
	}
	w.create(h, fleet.RunSpec{Name: "a", Placement: "web", Strategy: twoStages()})
	w.create(h, fleet.RunSpec{Name: "b", Placement: "other", Strategy: allAtOnce(corruptClusters)})
	time.Sleep(5 * time.Second)
	stop()
	command := stages.Command{ID: "please", Verb: stages.Skip, Scope: stages.SkipCluster, Name: "c41", By: approval.Identity{Name: "ann"}}
	if err := h.Run("a").Command(t.Context(), command); err != nil {
		t.Fatal(err)
	}
	s := must(h.Run("a").Status(t.Context()))(t)
	w.uid, w.plan = s.Run.UID, s.Plan.Digest
	for i := range corruptClusters - 3 {
		w.fleet.Hang(fmt.Sprintf("c%02d", 1+i), false)
	}
	return w
}

// has returns the content of every cluster: its objects, and the proven part of its ledgers.
func (w *corruptEnv) has() map[string]map[string]string {
	out := map[string]map[string]string{}
	for i := range corruptClusters {
		c := w.fleet.Cluster(fmt.Sprintf("c%02d", i))
		out[c.Name()] = map[string]string{}
		for _, obj := range c.List("") {
			id, what := snapshot.IDOf(obj), any(substance(obj))
			if id.Namespace == "slipway-system" {
				l := ledgerOf(c, id.Name)
				l.Epoch, l.Touch, l.RunUID = 0, 0, ""
				l.Revision, l.Target = w.opened(id.Name, l.Revision), w.opened(id.Name, l.Target)
				what = l
			}
			b, err := json.Marshal(what)
			if err != nil {
				w.t.Fatal(err)
			}
			out[c.Name()][id.String()] = string(b)
		}
	}
	return out
}

// victims returns the keys of the records of placement web and its run, by kind.
func (w *corruptEnv) victims(kind string) []string {
	return map[string]func() []string{
		"placement": func() []string { return []string{"placement/web"} },
		"run":       func() []string { return []string{"run/a"} },
		"plan":      func() []string { return []string{"plan/" + w.plan} },
		"plan page": func() []string { return w.keys("plan/" + w.plan + "/") },
		"content":   func() []string { return w.keys("content/web/") },
		"bindings":  func() []string { return w.keys("bindings/web/") },
		"inflight":  func() []string { return w.keys("inflight/" + w.uid + "/") },
		"journal":   func() []string { return w.keys("journal/" + w.uid + "/") },
		"command":   func() []string { return w.keys("command/" + w.uid + "/") },
	}[kind]()
}

// goesOn drives all runs for a while and calls every method.
func (w *corruptEnv) goesOn() {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	e := w.newEngine(fleet.Config{Name: "two", Store: w.calls.Store(w.store), Log: log})
	stop := running(w.t, e)
	w.within(10*time.Minute, "b", stages.Completed)
	w.create(e, fleet.RunSpec{Name: "b-again", Placement: "other", Strategy: allAtOnce(corruptClusters)})
	w.within(10*time.Minute, "b-again", stages.Completed)
	time.Sleep(5 * time.Minute)
	w.ask(w.newEngine(fleet.Config{Name: "three"}))
	stop()
}

// ask calls every method for the placement with the corrupt record, on a new engine, and records
// the errors.
func (w *corruptEnv) ask(e *fleet.Engine) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	note := func(what string, err error) {
		if err != nil {
			fmt.Fprintf(&w.log, "answer %s %v\n", what, err)
		}
	}
	_, err := e.Run("a").Status(ctx)
	note("status", err)
	_, err = e.Run("a").Explain(ctx, "c01")
	note("explain", err)
	_, err = e.Placement("web").RunNames(ctx)
	note("runs", err)
	for index := range 2 {
		_, err = e.Preview(ctx, fleet.RunSpec{Placement: "web", Index: &index, Strategy: allAtOnce(corruptClusters)})
		note("preview", err)
	}
	f, err := e.Placement("web").Follow("")
	note("follow", err)
	for _, err := range f.Past(ctx) {
		note("past", err)
		if err != nil {
			break
		}
	}
	if ctx.Err() != nil {
		w.t.Error("the questions had no answer within a minute")
	}
}

// harmless checks the clusters against an environment without corruption. Other placements must
// have the same content. The placement with the corrupt record may have that content or its earlier
// content; in the stage after the approval, it must have its earlier content.
func (w *corruptEnv) harmless(honest map[string]map[string]string) {
	w.t.Helper()
	now := w.has()
	for cluster, want := range honest {
		for what, v := range now[cluster] {
			web := strings.HasSuffix(what, "web")
			behind := cluster == "c40" || cluster == "c41"
			switch old := w.before[cluster][what]; {
			case web && !behind && (v == old || v == want[what] || strings.HasPrefix(what, "ConfigMap.") && between(v, old, want[what])):
			case web && behind && v == old:
			case !web && v == want[what]:
			default:
				w.t.Errorf("%s of %s is %s, was %s, and is %s in an honest environment", what, cluster, v, old, want[what])
			}
		}
		for what := range want {
			if _, there := now[cluster][what]; !there {
				w.t.Errorf("%s of %s is gone", what, cluster)
			}
		}
	}
}

// between reports whether a ledger is a state between two others.
func between(now, old, next string) bool {
	var l, o, n memberLedger
	for text, into := range map[string]*memberLedger{now: &l, old: &o, next: &n} {
		if json.Unmarshal([]byte(text), into) != nil {
			return false
		}
	}
	return (l.Run == o.Run || l.Run == n.Run) && (l.Revision == o.Revision || l.Revision == n.Revision) && (l.Target == o.Target || l.Target == n.Target)
}

// honest returns the content of clusters in an environment without corrupt records.
func honest(t *testing.T) (out map[string]map[string]string) {
	synctest.Test(t, func(t *testing.T) {
		w := newCorruptEnv(t)
		for _, kind := range recordKinds {
			if len(w.victims(kind)) == 0 {
				t.Fatalf("there is no %s", kind)
			}
		}
		w.goesOn()
		for line := range strings.Lines(w.log.b.String()) {
			if isError(line) && !strings.Contains(line, "context canceled") { // a stopped engine logs this
				t.Errorf("no record was corrupted, and it says %s", line)
			}
		}
		const app = "Setting.v1.example.com web"
		if out = w.has(); out["c01"][app] == w.before["c01"][app] || out["c40"][app] == "" {
			t.Errorf("run a changed nothing: %v", out)
		}
		if n := w.calls.Calls(); n > mostCalls/5 {
			t.Errorf("%d calls of the store", n)
		}
	})
	return out
}

// mostCalls is more than the number of store calls that an engine makes during a test, and less
// than an engine makes that spins.
const mostCalls = 5000

var recordKinds = []string{"placement", "content", "bindings", "plan", "plan page", "run", "inflight", "journal", "command"}

// A record is damaged, deleted, replaced by a newer format, or replaced by a valid but malicious
// record. This harms only its own run or placement: other runs end, clusters have their earlier
// content or the content of an honest run, a caller learns the affected record or run, and nothing
// hangs, panics or spins. With the race detector, every fifth case is tried.
func TestT19ACorruptRecordHurtsOnlyItsRun(t *testing.T) {
	t.Parallel()
	want := honest(t)
	for _, kind := range recordKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			n := 1
			synctest.Test(t, func(t *testing.T) { n = len(newCorruptEnv(t).victims(kind)) })
			for i := range n {
				all := corruptions(kind)
				for j := i % apart(5); j < len(all); j += apart(5) {
					p := all[j]
					synctest.Test(t, func(t *testing.T) { p.strike(t, kind, i, want) })
				}
			}
		})
	}
}

// strike corrupts the nth record of a kind.
func (p corruption) strike(t *testing.T, kind string, n int, honest map[string]map[string]string) {
	defer logCase(t, "%s %d: %s", kind, n, p.name)
	w := newCorruptEnv(t)
	key := w.victims(kind)[n]
	rec, err := w.store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	old := string(rec.Value)
	bad := strings.ReplaceAll(p.change(old), "SELF", key[strings.LastIndex(key, "/")+1:])
	if bad == old && !p.gone {
		t.Fatalf("the record stays as it is: %s", old)
	}
	w.put(rec, bad, p.gone)
	w.goesOn()
	w.harmless(honest)
	if p.told && !w.tells(key) {
		t.Errorf("no log tells of %s in %.3000s", key, w.log.b.String())
	}
	if calls := w.calls.Calls(); calls > mostCalls {
		t.Errorf("%d calls of the store", calls)
	}
	if now, err := w.store.Get(t.Context(), key); p.kept && (err != nil || string(now.Value) != bad) {
		t.Errorf("the newer record was changed: %v", err)
	}
}

func (w *corruptEnv) put(rec backend.Record, bad string, gone bool) {
	w.t.Helper()
	var err error
	if gone {
		err = w.store.Delete(w.t.Context(), rec.Key, rec.Revision)
	} else {
		_, err = w.store.Put(w.t.Context(), rec.Key, []byte(bad), rec.Revision)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// tells reports whether an error names a record by its key or its digest, or says that the run is
// damaged.
func (w *corruptEnv) tells(key string) bool {
	names := []string{key, "record run/a is damaged", "journal/" + w.uid + "/"}
	if digest := key[strings.LastIndex(key, "/")+1:]; len(digest) == 64 {
		names = append(names, digest)
	}
	if rest, ok := strings.CutPrefix(key, "plan/"); ok {
		names = append(names, "plan "+rest[:64])
	}
	if key == "run/a" {
		names = append(names, "answer status run a:")
	}
	if key == "placement/web" {
		names = append(names, "placement web", "run a:", "record journal/placement.web/ is damaged")
	}
	for line := range strings.Lines(w.log.b.String()) {
		if isError(line) && slices.ContainsFunc(names, func(name string) bool { return strings.Contains(line, name) }) {
			return true
		}
	}
	return false
}

// isError reports whether a line of the log is an error, logged or answered.
func isError(line string) bool {
	return strings.HasPrefix(line, "answer ") || strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR")
}
