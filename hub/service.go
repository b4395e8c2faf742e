package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/applications"
	"github.com/slipway-dev/slipway/hub/internal/evictions"
	"github.com/slipway-dev/slipway/hub/internal/members"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/overrides"
	"github.com/slipway-dev/slipway/hub/internal/placements"
	"github.com/slipway-dev/slipway/hub/internal/policies"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/hub/internal/reportback"
	"github.com/slipway-dev/slipway/hub/internal/requests"
	"github.com/slipway-dev/slipway/hub/internal/runs"
	"github.com/slipway-dev/slipway/hub/internal/seals"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// service is the work of a leading hub: a reconciler for each kind, and the watches of the Fleet
// API's objects, the engine's records, the members and the admission policies.
type service struct {
	hub    *Hub
	client *objects.Client
	queues *queues.Queues

	policies   *policies.Policies
	requests   *requests.Requests
	overrides  *overrides.Reconciler
	placements *placements.Reconciler
	runs       *runs.Reconciler
	members    *members.Reconciler
	evictions  *evictions.Reconciler
	statuses   *reportback.Reconciler
	// applications is nil if Config.Applications is nil.
	applications *applications.Reconciler
}

func newService(h *Hub) (*service, error) {
	s := &service{hub: h, client: objects.New(h.client, h.meta, h.kube, h.log), queues: &queues.Queues{}}
	clusters := &objects.Clusters{Inventory: h.cfg.Inventory}
	signer := &seals.Seals{Store: h.store}
	s.policies = &policies.Policies{Kube: h.kube, Metadata: h.meta, Store: h.store, Log: h.log}
	s.requests = &requests.Requests{Client: s.client, Engine: h.engine, Seals: signer, Policies: s.policies, Queues: s.queues}
	s.overrides = &overrides.Reconciler{Client: s.client, Engine: h.engine, Store: h.store, Clusters: clusters}
	s.placements = placements.New(&placements.Reconciler{
		Client: s.client, Engine: h.engine, Inventory: h.cfg.Inventory, Source: h.source, Queues: s.queues, Overrides: s.overrides,
		Clusters: clusters, Collect: h.cfg.Collect, DeleteDeadline: h.cfg.DeleteDeadline, Listed: h.cfg.Listed,
		NoBindings: h.cfg.NoBindings, Setting: h.cfg.Compatibility,
	})
	s.runs = &runs.Reconciler{
		Client: s.client, Engine: h.engine, Queues: s.queues, Seals: signer, Policies: s.policies, Requests: s.requests,
		Overrides: s.overrides, Placements: s.placements, Meters: h.meters, Listed: h.cfg.Listed, Setting: h.cfg.Compatibility,
	}
	s.members = members.New(&members.Reconciler{Client: s.client, Dialer: h.cfg.Dialer, Queues: s.queues, Clusters: clusters, Namespaces: h.cfg.MemberNamespaces})
	s.evictions = &evictions.Reconciler{Client: s.client, Engine: h.engine, Queues: s.queues, Placements: s.placements, Deadline: h.cfg.DeleteDeadline}
	s.statuses = &reportback.Reconciler{Client: s.client, Engine: h.engine, Source: h.source, Placements: s.placements, Queues: s.queues}
	s.placements.SourceChanged = s.statuses.SourceChanged
	if h.cfg.MemberNamespaces {
		s.placements.Reached = s.members.AskAgain
	}
	s.queues.Placements = s.newQueue("placement", 4, s.placements.Reconcile)
	s.queues.Runs = s.newQueue("run", 8, s.runs.Reconcile)
	s.queues.Members = s.newQueue("member", members.Workers, s.members.Reconcile) // most of them may wait for members that are down
	s.queues.Overrides = s.newQueue("override", 1, s.overrides.Reconcile)
	s.queues.Evictions = s.newQueue("eviction", 1, s.evictions.Reconcile) // one by one: a budget is counted over those before
	s.queues.Bindings = s.newQueue("binding", 1, s.placements.ReconcileBindings)
	s.queues.Statuses = s.newQueue("status", 1, s.statuses.Reconcile) // one by one: so they never take all requests that the hub allows itself
	s.queues.Orphans = s.newQueue("orphan", 1, s.runs.ReconcileOrphan)
	if o := h.cfg.Applications; o != nil {
		s.applications = &applications.Reconciler{Client: s.client, Queues: s.queues, Delivery: &delivery.Applications{
			Engine: h.engine, Store: h.store, Source: &filteredSource{h.source, h.cfg.Namespace}, Inventory: h.cfg.Inventory,
			Starter: approval.Identity{Name: api.Manager}, DeleteDeadline: h.cfg.DeleteDeadline, Options: *o,
		}}
		s.queues.Applications = s.newQueue("application", 4, s.applications.Reconcile)
		managed := &applications.ManagedClusters{Client: s.client, Queues: s.queues}
		s.queues.ManagedClusters = s.newQueue("managedcluster", 1, managed.Reconcile)
	}
	return s, s.watch()
}

// newQueue returns a queue whose rounds are bounded, counted and timed. workers is the number of
// objects of the kind that are reconciled at the same time.
func (s *service) newQueue(name string, workers int, sync func(context.Context, api.Key) (time.Duration, error)) *reconcile.Queue[api.Key] {
	return reconcile.New(reconcile.Options[api.Key]{
		Reconcile: func(ctx context.Context, k api.Key) (time.Duration, error) {
			begun := time.Now()
			again, err := bounded(ctx, k, sync)
			s.hub.meters.Synced(name, time.Since(begun), err)
			return again, err
		},
		Failed: func(_ context.Context, k api.Key, err error) {
			if !errors.Is(err, backend.ErrConflict) { // another write came between, which is no problem
				s.hub.log.Warn("not up to date, will be tried again", "kind", name, "object", k.String(), "error", err)
			}
		},
		First: retryFirst, Most: retryMost, Workers: workers, RetryOnAdd: true,
	})
}

// retryFirst and retryMost are the shortest and the longest backoff of an object.
const (
	retryFirst = 50 * time.Millisecond
	retryMost  = 30 * time.Second
)

// bounded calls sync with a time limit, so that a request without an answer cannot block it for
// ever.
func bounded(ctx context.Context, k api.Key, sync func(context.Context, api.Key) (time.Duration, error)) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, longestRound)
	defer cancel()
	return sync(ctx, k)
}

// longestRound is the time limit of one call of sync, far above the usual time.
const longestRound = 5 * time.Minute

// run serves until ctx ends.
func (s *service) run(ctx context.Context) error {
	s.client.Recorder = objects.NewRecorder(ctx, s.hub.kube, s.hub.cfg.Name, s.hub.log)
	defer s.client.Recorder.Stop()
	ctx, stop := context.WithCancel(ctx)
	defer s.shutDown()
	defer s.client.Start(ctx)()
	defer stop() // first, because the deferred calls above wait for ctx
	if err := s.client.Synced(ctx); err != nil {
		return err
	}
	s.hub.ready.Store(true)
	defer s.hub.ready.Store(false)
	var group sync.WaitGroup
	works := []func(context.Context){
		func(ctx context.Context) { s.watchRecords(ctx, "run/", s.onRunRecord) },
		func(ctx context.Context) { s.watchRecords(ctx, "placement/", s.onPlacementRecord) },
		func(ctx context.Context) { s.watchRecords(ctx, "drift/", s.onDriftRecord) },
		func(ctx context.Context) { s.watchRecords(ctx, "deleted/", s.onPlacementRecord) },
		s.watchInventory,
		func(ctx context.Context) { s.policies.Watch(ctx, s.enqueueRunsWithRequests) },
		s.placements.Watch,
	}
	for _, q := range s.queues.All() {
		works = append(works, q.Run)
	}
	for _, work := range works {
		group.Go(func() { work(ctx) })
	}
	group.Wait()
	return nil
}

// shutDown shuts down all queues, also queues that never ran.
func (s *service) shutDown() {
	for _, q := range s.queues.All() {
		q.ShutDown()
	}
}
