package fleet_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/storebench"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// sizedStore records the size of the largest value for each kind of key. The kind is the first
// segment of the key.
type sizedStore struct {
	backend.Store
	mu   sync.Mutex
	most map[string]int
}

func (s *sizedStore) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	kind, _, _ := strings.Cut(key, "/")
	s.mu.Lock()
	s.most[kind] = max(s.most[kind], len(value))
	s.mu.Unlock()
	return s.Store.Put(ctx, key, value, prev)
}

// refusing is an updater. If refuse is set, three clusters in ten refuse their content. None of
// them is adjacent to another, and each has its own reason, which is longer than the kept part.
type refusing struct {
	storebench.Instant

	refuse bool
}

func (u refusing) Update(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	if u.refuse && strings.Contains("036", a.Cluster.UID[len(a.Cluster.UID)-1:]) {
		return backend.Proof{}, fmt.Errorf("%s: %s: %w", a.Cluster.UID, strings.Repeat("no ", 200), backend.ErrPermanent)
	}
	return u.Instant.Update(ctx, a)
}

// recordMost is the size of the largest record.
const recordMost = 256 << 10

func TestRecordsOfALargeFleetAreSmall(t *testing.T) {
	for name, u := range map[string]refusing{"that takes everything": {}, "of which three in ten refuse": {refuse: true}} {
		t.Run(name, func(t *testing.T) {
			s := &sizedStore{Store: memory.NewStore(), most: map[string]int{}}
			runOnLargeFleet(t, s, u)
			for _, kind := range []string{"placement", "content", "bindings", "plan", "intent", "run", "inflight", "journal"} {
				n := s.most[kind]
				t.Logf("%s: %d bytes", kind, n)
				if n == 0 || n > recordMost {
					t.Errorf("the largest record under %s/ has %d bytes, want 1 to %d", kind, n, recordMost)
				}
			}
		})
	}
}

// runOnLargeFleet runs once over 10,000 clusters with names of the maximum length, all at the same
// time; with the race detector over 2,000.
func runOnLargeFleet(t *testing.T, s backend.Store, u backend.Updater) {
	t.Helper()
	fl := memory.NewFleet()
	for i := range sampled(10_000) {
		fl.Add(placement.Cluster{Name: fmt.Sprintf("cluster-%s-%05d", strings.Repeat("x", 49), i), UID: fmt.Sprintf("uid-%05d", i)})
	}
	e, err := fleet.New(fleet.Config{Store: s, Inventory: fl, Updater: u, Source: memory.NewSource(namespace("test-namespace")), Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.PutPlacement(t.Context(), tutorialPlacement()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Start(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	all := intstr.FromString("100%")
	_, err = e.CreateRun(t.Context(), fleet.RunSpec{Name: "run", Placement: "example-placement", Strategy: stages.Strategy{
		Attempts: 1,
		Stages:   []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: &all, MaxFailures: &all}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if state, err := e.Run("run").Wait(t.Context()); err != nil || state.Run.State != stages.Completed {
		t.Fatalf("the run is %s (%s): %v", state.Run.State, state.Run.Reason, err)
	}
}
