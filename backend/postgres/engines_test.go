package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/remotefleet"
	"github.com/slipway-dev/slipway/internal/soak/laws"
	"github.com/slipway-dev/slipway/internal/storebench"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// The environment of a process that is an engine.
const (
	engineName    = "SLIPWAY_TEST_ENGINE"
	engineDSN     = "SLIPWAY_TEST_DSN"
	engineSchema  = "SLIPWAY_TEST_SCHEMA"
	engineMembers = "SLIPWAY_TEST_MEMBERS"
	engineClock   = "SLIPWAY_TEST_CLOCK" // how far the clock of the process is ahead
)

// enginesLease is the lease of the engines of these tests, enginesSkew how far their clocks may
// be apart.
const (
	enginesLease = storebench.Lease
	enginesSkew  = storebench.Skew
)

// isEngine runs an engine until it is killed, if this process is an engine process.
func isEngine() bool {
	name := os.Getenv(engineName)
	if name == "" {
		return false
	}
	ctx := context.Background()
	store, err := postgres.Open(ctx, os.Getenv(engineDSN), postgres.Options{Schema: os.Getenv(engineSchema)})
	if err == nil {
		members := remotefleet.Dial(os.Getenv(engineMembers))
		cfg := fleet.Config{
			Store: store, Inventory: members, Dialer: members, Name: name, Lease: enginesLease, Skew: enginesSkew, Poll: 200 * time.Millisecond,
		}
		if ahead, _ := time.ParseDuration(os.Getenv(engineClock)); ahead != 0 {
			cfg.Clock = func() time.Time { return time.Now().Add(ahead) }
		}
		if r, is := storebench.ParseRollout(os.Getenv(engineMembers)); is {
			r.Configure(&cfg)
		}
		var e *fleet.Engine
		if e, err = fleet.New(cfg); err == nil {
			err = e.Start(ctx)
		}
	}
	fmt.Fprintln(os.Stderr, name, err)
	return true
}

// crew are engines in processes of their own, on one schema, and the clusters that they share.
type crew struct {
	t       testing.TB
	schema  string
	members string
	fleet   *memory.Fleet
	source  *memory.Source
	store   *postgres.Store
	host    *fleet.Engine

	// declared is how many runs there have been.
	declared int
	// apart reports whether the clocks of the engines differ. If they do, the time of a run may go
	// back by some milliseconds, so the test does not check it.
	apart bool

	mu      sync.Mutex
	engines map[string]*exec.Cmd
	// writes counts how often an object of a placement was written on a cluster with a content.
	writes map[string]int
}

// newCrew has clusters and a host, which declares and reads, and no engine yet.
func newCrew(t testing.TB, clusters int) *crew {
	t.Helper()
	c := &crew{t: t, schema: newSchema(t, shared.DSN()), fleet: memory.NewFleet(), source: memory.NewSource(), engines: map[string]*exec.Cmd{}, writes: map[string]int{}}
	for i := range clusters {
		c.fleet.Add(placement.Cluster{Name: fmt.Sprintf("c%03d", i)})
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.members = l.Addr().String()
	go func() { _ = remotefleet.Serve(l, c.fleet, c.written) }()
	c.store = open(t, shared.DSN()+" pool_max_conns=8", postgres.Options{Schema: c.schema})
	c.host, err = fleet.New(fleet.Config{Store: c.store, Inventory: c.fleet, Dialer: c.fleet, Source: c.source, Name: "host", Lease: enginesLease, Skew: enginesSkew})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, name := range c.names() {
			c.kill(name)
		}
		_ = l.Close()
	})
	return c
}

func (c *crew) written(cluster string, obj *unstructured.Unstructured) {
	if obj.GetNamespace() == "slipway-system" {
		return // a ledger
	}
	if data, _, _ := unstructured.NestedString(obj.Object, "data", "key"); data != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.writes[cluster+" "+obj.GetNamespace()+" "+data]++
	}
}

func (c *crew) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.engines))
}

// start starts an engine in a process of its own, with more of an environment.
func (c *crew) start(name string, env ...string) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), engineName+"="+name, engineDSN+"="+shared.DSN()+" pool_max_conns=6", engineSchema+"="+c.schema, engineMembers+"="+c.members), env...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.engines[name] = cmd
}

func (c *crew) signal(name string, s syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cmd := c.engines[name]; cmd != nil {
		_ = cmd.Process.Signal(s)
	}
}

// kill ends an engine with SIGKILL.
func (c *crew) kill(name string) {
	c.mu.Lock()
	cmd := c.engines[name]
	delete(c.engines, name)
	c.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}

// declare declares placements with a namespace and a ConfigMap each, and creates a run of each,
// which waits before and after.
func (c *crew) declare(runs int, waits time.Duration) (names []string) {
	c.t.Helper()
	for range runs {
		name := fmt.Sprintf("p%03d", c.declared)
		c.declared++
		names = append(names, name)
		err := errors.Join(
			c.source.Put(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}),
			c.source.Put(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": name}, "data": map[string]any{"key": name},
			}}),
			c.host.PutPlacement(c.t.Context(), fleet.Placement{Name: name, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: name}}}),
		)
		if err != nil {
			c.t.Fatal(err)
		}
		wait := []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: waits}}}
		spec := fleet.RunSpec{Name: name, Placement: name, Strategy: stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, Before: wait, After: wait}}}}
		if _, err := c.host.CreateRun(c.t.Context(), spec); err != nil {
			c.t.Fatal(err)
		}
	}
	return names
}

// place declares a placement of a number.
func (c *crew) place(i int, part metav1.LabelSelector, apply apply.Strategy) {
	name := fmt.Sprint("b", i)
	for _, obj := range []*unstructured.Unstructured{
		{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}},
		{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": name}, "data": map[string]any{"key": name}}},
	} {
		if err := c.source.Put(obj); err != nil {
			c.t.Fatal(err)
		}
	}
	err := c.host.PutPlacement(c.t.Context(), fleet.Placement{
		Name: name, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: name}},
		Policy: placement.Policy{Required: []placement.Term{{LabelSelector: part}}}, ApplyStrategy: apply,
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// holders are the runs of each engine.
func (c *crew) holders() map[string][]string {
	c.t.Helper()
	leases, err := c.host.Leases(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string][]string{}
	for _, l := range leases {
		out[l.Holder] = append(out[l.Holder], l.Run)
	}
	return out
}

// hold checks that every run has completed and that its journal violates no law, that every
// cluster has the content of the runs, and that no cluster received the same content twice.
func (c *crew) hold(runs []string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Minute)
	defer cancel()
	histories := map[string]*laws.History{}
	for _, run := range runs {
		s, err := c.host.Run(run).Wait(ctx)
		if err != nil || s.Run.State != stages.Completed {
			c.t.Fatalf("run %s is %s (%s), %v", run, s.Run.State, s.Run.Reason, err)
		}
		histories[run] = laws.NewHistory(run, s.Plan)
	}
	f, err := c.host.Follow("")
	if err != nil {
		c.t.Fatal(err)
	}
	moved := 0
	for event, err := range f.Past(ctx) {
		if err != nil {
			c.t.Fatal(err)
		}
		if h := histories[event.Run]; h != nil {
			for _, broken := range h.Take(event) {
				if !c.apart || !strings.Contains(broken, "the time of the run goes back") {
					c.t.Errorf("run %s: %s", event.Run, broken)
				}
			}
		}
		if event.Type == stages.RunTaken {
			moved++
		}
	}
	for cl := range c.fleet.Clusters(ctx) {
		for _, run := range runs {
			if _, err := c.fleet.Cluster(cl.Name).Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: run, Name: "settings"}); err != nil {
				c.t.Errorf("cluster %s: %v", cl.Name, err)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for what, n := range c.writes {
		if n > 1 {
			c.t.Errorf("%s was written %d times", what, n)
		}
	}
	c.t.Logf("%d runs were taken %d times, %d objects written", len(runs), moved, len(c.writes))
}

// TestEnginesThatAreKilledAndPaused: several engines run on one store, and every two seconds one
// of them is killed or stopped for longer than its lease. They complete all runs, every law of
// their journals holds, and no update happens twice.
func TestEnginesThatAreKilledAndPaused(t *testing.T) {
	engines, clusters, runs, lasts := 3, 10, 20, 14*time.Second
	if os.Getenv("SLIPWAY_SOAK") != "" {
		engines, clusters, runs, lasts = 8, 60, 200, 5*time.Minute
	}
	c := newCrew(t, clusters)
	names := c.declare(runs, time.Second)
	for i := range engines {
		c.start(fmt.Sprint("engine-", i))
	}
	dice := rand.New(rand.NewPCG(1, 2))
	for began, n := time.Now(), 0; time.Since(began) < lasts; n++ {
		time.Sleep(2 * time.Second)
		victim := c.names()[dice.IntN(engines)]
		if n%3 == 2 {
			c.signal(victim, syscall.SIGSTOP)
			time.AfterFunc(2*(enginesLease+enginesSkew), func() { c.signal(victim, syscall.SIGCONT) })
			continue
		}
		c.kill(victim)
		c.start(victim)
	}
	for _, name := range c.names() {
		c.signal(name, syscall.SIGCONT)
	}
	c.hold(names)
}

// TestEnginesThatAreKilledAllTheTime: kills that come as fast as engines start delay runs, and do
// nothing twice.
func TestEnginesThatAreKilledAllTheTime(t *testing.T) {
	const engines, runs = 3, 10
	kills, most := 0, 20
	if os.Getenv("SLIPWAY_SOAK") != "" {
		most = 10_000
	}
	c := newCrew(t, 3)
	for i := range engines {
		c.start(fmt.Sprint("engine-", i))
	}
	dice := rand.New(rand.NewPCG(3, 4))
	for kills < most {
		names := c.declare(runs, time.Second)
		for end := time.Now().Add(20 * time.Second); kills < most && time.Now().Before(end); kills++ {
			time.Sleep(time.Duration(dice.IntN(400)) * time.Millisecond)
			victim := c.names()[dice.IntN(engines)]
			c.kill(victim)
			c.start(victim)
		}
		c.hold(names)
	}
	t.Logf("%d kills", kills)
}

// TestWorkSpreadsOverProcesses: a new engine gets its share of the runs, and other engines take
// over the runs of a killed one.
func TestWorkSpreadsOverProcesses(t *testing.T) {
	c := newCrew(t, 2)
	c.declare(12, 12*time.Hour)
	c.start("one")
	eventually(t, "one engine with everything", func() bool { return len(c.holders()["one"]) == 12 })
	c.start("two")
	eventually(t, "two engines with half of it each", func() bool {
		had := c.holders()
		return len(had["one"]) == 6 && len(had["two"]) == 6
	})
	c.kill("two")
	eventually(t, "the first one with everything again", func() bool { return len(c.holders()["one"]) == 12 })
}
