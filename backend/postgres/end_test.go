package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// A host that rolls out as the README and examples/embed do, and then closes the store, gets no
// warning: neither after a run that it followed to the end nor after it stopped in the middle of
// one.
func TestANormalEndLogsNothing(t *testing.T) {
	for name, wait := range map[string]time.Duration{"after the run": 0, "during the run": time.Hour} {
		t.Run(name, func(t *testing.T) {
			var log output
			store := fresh(t, postgres.Options{})
			clusters := memory.NewFleet(placement.Cluster{Name: "eu-1"}, placement.Cluster{Name: "eu-2"})
			web := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
			cfg := fleet.Config{
				Name: "host", Store: store, Inventory: clusters, Dialer: clusters, Source: memory.NewSource(web),
				Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			strategy := stages.Strategy{Stages: []stages.Stage{{Name: "all", Rest: true}}}
			if wait > 0 {
				strategy.Stages[0].After = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: wait}}}
				time.AfterFunc(2*time.Second, stop)
			}
			state, err := rollOut(ctx, cfg, fleet.RunSpec{Name: "web-1", Placement: "web", Strategy: strategy})
			if wait == 0 && (err != nil || state != stages.Completed) || wait > 0 && ctx.Err() == nil {
				t.Fatalf("the run is %s: %v", state, err)
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // an engine that still ran would warn that the store is closed
			if said := log.String(); said != "" {
				t.Errorf("after a normal end:\n%s", said)
			}
		})
	}
}

// output collects the output of several goroutines.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// The function rollOut of this file is the one of examples/embed, which is in another module.
func TestRollOutEqualsTheEmbedExample(t *testing.T) {
	of := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, after, found := strings.Cut(string(text), "\nfunc rollOut(")
		if !found {
			t.Fatalf("%s has no function rollOut", file)
		}
		body, _, _ := strings.Cut(after, "\n}\n")
		return body
	}
	if of("end_test.go") != of("../../examples/embed/main.go") {
		t.Error("rollOut differs from the function of examples/embed: copy it")
	}
}

// rollOut starts or continues a run, and returns its final state.
func rollOut(ctx context.Context, cfg fleet.Config, run fleet.RunSpec) (stages.State, error) {
	engine, err := fleet.New(cfg)
	if err != nil {
		return "", err
	}
	ctx, stop := context.WithCancel(ctx)
	var driving sync.WaitGroup
	driving.Go(func() { _ = engine.Start(ctx) }) // drives runs until ctx ends
	defer driving.Wait()                         // the store must stay open until then
	defer stop()
	web := fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}
	if err := engine.PutPlacement(ctx, web); err != nil {
		return "", err
	}
	if _, err := engine.EnsureRun(ctx, run); err != nil { // if the plan has problems, the error has all of them
		return "", err
	}
	events, err := engine.Run(run.Name).Follow("")
	if err != nil {
		return "", err
	}
	for e, err := range events.Events(ctx) { // to the end of the run and, if it is rolled back, of its rollback
		if err != nil {
			return "", err
		}
		fmt.Println(e.Time.Format(time.TimeOnly), e.Type, e.Stage, e.Cluster, e.Message)
	}
	status, err := engine.Run(run.Name).Status(ctx)
	if err == nil && status.Run.State != stages.Completed { // a gate was rejected, a budget exceeded, or it was aborted
		err = fmt.Errorf("run %s is %s: %s", run.Name, status.Run.State, status.Run.Reason)
	}
	return status.Run.State, err
}
