package storebench

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Lease is the lease of a rollout's engines, and Skew the maximum difference of their clocks.
const (
	Lease = 3 * time.Second
	Skew  = 500 * time.Millisecond
)

// atOnce is the number of clusters that an engine updates at the same time.
const atOnce = 32

// Rollout is a rollout by several engine processes: placements over clusters with a delay for
// each call.
type Rollout struct {
	Clusters, Placements int
	Delay                time.Duration
}

// String returns the rollout as a text for ParseRollout.
func (r Rollout) String() string {
	return fmt.Sprintf("bench %d %d %s", r.Clusters, r.Placements, r.Delay)
}

// ParseRollout parses the result of String, and reports whether it is one.
func ParseRollout(text string) (r Rollout, is bool) {
	var delay string
	if n, _ := fmt.Sscanf(text, "bench %d %d %s", &r.Clusters, &r.Placements, &delay); n != 3 {
		return r, false
	}
	r.Delay, _ = time.ParseDuration(delay)
	return r, true
}

// Configure connects an engine to the clusters. Each process has its own clusters, so an engine
// that takes over a run finds empty clusters.
func (r Rollout) Configure(c *fleet.Config) {
	f := memory.NewFleet()
	for i := range r.Clusters {
		name := fmt.Sprintf("c%06d", i)
		f.Add(placement.Cluster{Name: name, Labels: map[string]string{"part": strconv.Itoa(i % r.Placements)}})
		f.SetDelay(name, func() time.Duration { return r.Delay })
	}
	c.Inventory, c.Dialer, c.MaxUpdates, c.Lease, c.Skew = f, f, atOnce, Lease, Skew
}

// Host declares a rollout, creates its runs and reads them. Its engine drives nothing.
type Host struct {
	*fleet.Engine

	rollout Rollout
}

// Declare declares the placements on a store.
func (r Rollout) Declare(b *testing.B, store backend.Store) *Host {
	b.Helper()
	source := memory.NewSource()
	cfg := fleet.Config{Store: store, Source: source, Name: "host"}
	r.Configure(&cfg)
	e, err := fleet.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	for i := range r.Placements {
		name := fmt.Sprint("b", i)
		for _, obj := range []map[string]any{
			{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}},
			{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": name}, "data": map[string]any{"key": name}},
		} {
			if err := source.Put(&unstructured.Unstructured{Object: obj}); err != nil {
				b.Fatal(err)
			}
		}
		part := metav1.LabelSelector{MatchLabels: map[string]string{"part": strconv.Itoa(i)}}
		err := e.PutPlacement(b.Context(), fleet.Placement{
			Name: name, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: name}},
			Policy: placement.Policy{Required: []placement.Term{{LabelSelector: part}}},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return &Host{e, r}
}

// Begin creates a run of each placement, with all clusters at the same time.
func (h *Host) Begin(b *testing.B) {
	b.Helper()
	all := intstr.FromString("100%")
	s := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &all}}}
	for i := range h.rollout.Placements {
		if _, err := h.CreateRun(b.Context(), fleet.RunSpec{Name: fmt.Sprint("b", i), Placement: fmt.Sprint("b", i), Strategy: s}); err != nil {
			b.Fatal(err)
		}
	}
}

// Finish waits for the runs.
func (h *Host) Finish(b *testing.B) {
	b.Helper()
	for i := range h.rollout.Placements {
		if s, err := h.Run(fmt.Sprint("b", i)).Wait(b.Context()); err != nil || s.Run.State != stages.Completed {
			b.Fatalf("%s, %v", s.Run.State, err)
		}
	}
}

// Spawn starts this program again, with additional environment variables. The returned function
// kills it and returns the processor time that it used, in seconds.
func Spawn(b *testing.B, env ...string) (kill func() float64) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return func() float64 {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
}
