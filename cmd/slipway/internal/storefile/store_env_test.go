package storefile

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/clitest"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// hushed is a value that only --reveal may show.
const hushed = "aHVzaA=="

func secret(value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "key", "namespace": "shop"},
		"data": map[string]any{"key": hushed, "v": value},
	}}
}

// storeEnv is the environment of a store.
type storeEnv struct {
	t      *testing.T
	store  *memory.Store
	source *memory.Source
	engine *fleet.Engine
}

func (w *storeEnv) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func newStoreEnv(t *testing.T) *storeEnv {
	w := &storeEnv{t: t, store: memory.NewStore()}
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "shop"}}}
	w.source = memory.NewSource(namespace, secret("b25l"))
	clusters := memory.NewFleet()
	clusters.Add(placement.Cluster{Name: "eu-1", Labels: map[string]string{"tier": "canary"}})
	for _, name := range []string{"eu-2", "eu-3", "eu-4", "us-1", "us-2", "us-3", "us-4"} { // events enough for a page of a journal
		clusters.Add(placement.Cluster{Name: name, Labels: map[string]string{"tier": "prod"}})
	}
	var err error
	w.engine, err = fleet.New(fleet.Config{Store: w.store, Inventory: clusters, Dialer: clusters, Source: w.source, Name: "one"})
	w.must(err)
	w.must(w.engine.PutPlacement(t.Context(), fleet.Placement{
		Name:      "shop",
		Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}},
		Overrides: []placement.Override{hush()},
	}))
	return w
}

// hush returns an override with the value of a Secret.
func hush() placement.Override {
	return placement.Override{
		Name: "hush", Namespace: "shop", Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "Secret", Name: "key"}},
		Rules: []placement.Rule{{
			ClusterSelector: &placement.ClusterSelector{},
			Patches:         []placement.Patch{{Op: placement.OpAdd, Path: "/data/more", Value: []byte(`"` + hushed + `"`)}},
		}},
	}
}

func strategy() stages.Strategy {
	tier := func(name string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"tier": name}}
	}
	policy := &approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 1}}, ForbidStarter: true}
	return stages.Strategy{Name: "slow", Stages: []stages.Stage{
		{Name: "canary", Selector: tier("canary"), After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}, {Type: stages.Approval, Approval: policy}}},
		{Name: "prod", Selector: tier("prod")},
	}}
}

// create creates a run with the current objects of the source.
func (w *storeEnv) create(name string) {
	w.t.Helper()
	_, err := w.engine.CreateRun(w.t.Context(), fleet.RunSpec{Name: name, Placement: "shop", Strategy: strategy(), Starter: approval.Identity{Name: "bob"}})
	w.must(err)
}

// play creates three runs: a completed one, one that waits for an approval, driven by an engine
// until ctx ends, and one that waits for the second.
func (w *storeEnv) play(ctx context.Context) {
	w.create("shop-1")
	go func() { _ = w.engine.Start(ctx) }()
	time.Sleep(2 * time.Minute)
	ann := approval.Identity{Name: "ann", Groups: []string{"sre"}}
	w.must(w.engine.Run("shop-1").Command(ctx, stages.Command{Verb: stages.Decide, Name: "shop-1-after-canary", By: ann, Decision: &approval.Decision{Verdict: approval.Approve, Comment: "metrics are fine"}}))
	time.Sleep(time.Minute)
	w.must(w.source.Put(secret("dHdv")))
	w.create("shop-2")
	time.Sleep(90 * time.Second)
	w.create("shop-3")
	time.Sleep(time.Second)
}

// played returns the records of a store after some runs.
func played(t *testing.T) (records []backend.Record) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newStoreEnv(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.play(ctx)
		// The engine holds its lease until the records are read: it gives it back when ctx ends.
		for rec, err := range w.store.List(ctx, "") {
			w.must(err)
			records = append(records, rec)
		}
	})
	return records
}

// write makes a file of records in the working directory, which is a new one.
func write(t *testing.T, records []backend.Record) {
	t.Helper()
	s, err := bolt.Open("state.db", bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var writes []backend.Write
	for _, rec := range records {
		writes = append(writes, backend.Write{Key: rec.Key, Value: rec.Value})
	}
	if _, err := s.WriteAll(t.Context(), writes); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// store calls the verb, which must not change the file.
func store(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	before := seen(t)
	got := clitest.Call(t, func(o *cli.Options) []*cobra.Command { return []*cobra.Command{New(o)} }, "", append([]string{"store"}, args...)...)
	if after := seen(t); after != before {
		t.Errorf("store %s wrote to the file", strings.Join(args, " "))
	}
	return got
}

// fileState is all of the file that could change.
type fileState struct {
	content string
	changed time.Time
	mode    os.FileMode
}

func seen(t *testing.T) fileState {
	t.Helper()
	b, err := os.ReadFile("state.db")
	if err != nil {
		return fileState{content: err.Error()}
	}
	info, err := os.Stat("state.db")
	if err != nil {
		t.Fatal(err)
	}
	return fileState{string(b), info.ModTime(), info.Mode()}
}

// want checks the exit code, and that each of texts is on one of the streams.
func want(t *testing.T, got clitest.Result, code int, texts ...string) {
	t.Helper()
	if got.Code != code {
		t.Errorf("exit code %d, want %d: %s%s", got.Code, code, got.Out, got.Err)
	}
	for _, text := range texts {
		if !strings.Contains(got.Out+got.Err, text) {
			t.Errorf("no %q in\n%s%s", text, got.Out, got.Err)
		}
	}
}
