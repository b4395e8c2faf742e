package hub

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/placements"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/hub/internal/requests"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/placement"
)

// watch watches the objects of the Fleet API, and the objects that show snapshots, decisions and
// overrides.
func (s *service) watch() error {
	type watch struct {
		gvr   schema.GroupVersionResource
		shows *reconcile.Queue[api.Key] // writes the status of the kind, nil for none
		heard func(*unstructured.Unstructured)
	}
	for _, in := range []api.Scope{api.ClusterScope, api.NamespaceScope} {
		for _, w := range []watch{
			{in.GVR(api.PlacementKind), s.queues.Placements, func(obj *unstructured.Unstructured) { s.queues.Placements.Add(api.KeyOf(obj)) }},
			{in.GVR(api.RunKind), s.queues.Runs, func(obj *unstructured.Unstructured) { s.queues.Runs.Add(api.KeyOf(obj)) }},
			{in.GVR(api.StrategyKind), nil, s.onStrategy},
			{in.GVR(api.ApprovalKind), nil, s.onApproval},
			{in.GVR(api.OverrideKind), nil, s.onOverride},
		} {
			if err := s.client.Watch(w.gvr, w.shows, w.heard); err != nil {
				return err
			}
		}
		for _, err := range []error{
			s.client.WatchMetadata(in.GVR(api.SnapshotKind), s.queues.Placements, false),
			s.client.WatchMetadata(in.GVR(api.PolicyKind), s.queues.Placements, false),
			s.client.WatchMetadata(in.GVR(api.OverrideSnapshotKind), s.queues.Overrides, true),
		} {
			if err != nil {
				return err
			}
		}
	}
	if !s.hub.cfg.NoBindings {
		if err := s.client.WatchMetadata(api.ClusterScope.GVR(api.BindingKind), s.queues.Bindings, false); err != nil {
			return err
		}
	}
	replicaGone := func(k api.Key) { s.queues.Placements.Add(api.Key{Name: k.Name}) } // it is made again, if the placement is there
	if err := s.client.WatchDeletions(api.ReplicaGVR(), replicaGone); err != nil {
		return err
	}
	evict := func(obj *unstructured.Unstructured) { s.queues.Evictions.Add(api.KeyOf(obj)) }
	if err := s.client.Watch(api.ClusterScope.GVR(api.EvictionKind), nil, evict); err != nil {
		return err
	}
	if err := s.client.Watch(api.MemberGVR(), s.queues.Members, func(obj *unstructured.Unstructured) { s.queues.Members.Add(api.KeyOf(obj)) }); err != nil {
		return err
	}
	return s.watchApplications()
}

// watchApplications watches applications and the objects that they refer to, if applications are
// served.
func (s *service) watchApplications() error {
	if s.applications == nil {
		return nil
	}
	for _, gvr := range api.ReferencedGVRs() {
		if err := s.client.Watch(gvr, nil, func(obj *unstructured.Unstructured) { s.applications.EnqueueAll(obj.GetNamespace()) }); err != nil {
			return err
		}
	}
	shown := func(obj *unstructured.Unstructured) { s.queues.ManagedClusters.Add(api.KeyOf(obj)) }
	if err := s.client.Watch(api.ManagedClusterGVR(), s.queues.ManagedClusters, shown); err != nil {
		return err
	}
	if err := s.client.Follow(api.MemberGVR(), s.queues.ManagedClusters.Add); err != nil {
		return err
	}
	return s.client.Watch(api.ApplicationGVR(), s.queues.Applications, func(obj *unstructured.Unstructured) { s.queues.Applications.Add(api.KeyOf(obj)) })
}

// onStrategy enqueues the runs that wait for a strategy. A run that has begun has its own copy.
func (s *service) onStrategy(obj *unstructured.Unstructured) {
	for _, run := range s.client.All(api.ScopeOf(api.KeyOf(obj)).GVR(api.RunKind)) {
		if run.GetNamespace() == obj.GetNamespace() && !api.IsBegun(run) && api.StrategyOf(run) == obj.GetName() {
			s.queues.Runs.Add(api.KeyOf(run))
		}
	}
}

// onApproval enqueues the run of a request, and the runs that may wait for the request's name.
func (s *service) onApproval(obj *unstructured.Unstructured) {
	about := api.RunOfRequest(obj)
	if about != "" {
		s.queues.Runs.Add(api.Key{Namespace: obj.GetNamespace(), Name: about})
	}
	for name := range requests.RunsOfRequest(obj.GetName()) {
		if k := (api.Key{Namespace: obj.GetNamespace(), Name: name}); name != about && s.client.Cached(api.ScopeOf(k).GVR(api.RunKind), k) != nil {
			s.queues.Runs.Add(k)
		}
	}
}

// enqueueRunsWithRequests enqueues the runs that have requests.
func (s *service) enqueueRunsWithRequests() {
	for _, in := range []api.Scope{api.ClusterScope, api.NamespaceScope} {
		for _, request := range s.client.All(in.GVR(api.ApprovalKind)) {
			s.onApproval(request)
		}
	}
}

// onOverride enqueues the override and all placements, because it may concern any of them.
func (s *service) onOverride(obj *unstructured.Unstructured) {
	s.queues.Overrides.Add(api.KeyOf(obj))
	s.enqueueAllPlacements()
}

// inventory returns the members by name.
func (s *service) inventory(ctx context.Context) (map[string]placement.Cluster, error) {
	all := map[string]placement.Cluster{}
	for c, err := range s.hub.cfg.Inventory.Clusters(ctx) {
		if err != nil {
			return nil, err
		}
		all[c.Name] = c
	}
	return all, nil
}

// enqueueAllPlacements enqueues all placements.
func (s *service) enqueueAllPlacements() {
	s.enqueuePlacements(func(*unstructured.Unstructured) bool { return true })
}

// enqueuePlacements enqueues the placements that match.
func (s *service) enqueuePlacements(match func(*unstructured.Unstructured) bool) {
	for _, in := range []api.Scope{api.ClusterScope, api.NamespaceScope} {
		for _, obj := range s.client.All(in.GVR(api.PlacementKind)) {
			if match(obj) {
				s.queues.Placements.AddPaced(api.KeyOf(obj), queues.StatusPace)
			}
		}
	}
}

// watchRecords watches the engine's records under a prefix.
func (s *service) watchRecords(ctx context.Context, prefix string, heard func(key string)) {
	for again := retryWatch(); ctx.Err() == nil; again.Wait(ctx) {
		for change, err := range backend.Watch(ctx, s.hub.store, prefix, time.Second) {
			if err != nil {
				break
			}
			again.Reset()
			heard(change.Key)
		}
	}
}

// retryWatch returns the backoff of a watch that ended. It grows if the watch ends again without
// a change.
func retryWatch() *backoff.Backoff { return backoff.New(time.Second, 30*time.Second).Spread() }

// onPlacementRecord enqueues the placements whose record in the engine changed.
func (s *service) onPlacementRecord(record string) {
	_, name, _ := strings.Cut(record, "/")
	for _, k := range s.client.ByEngineName(api.PlacementKind, name) {
		s.queues.Placements.AddPaced(k, s.queues.PaceOf(api.PlacementKind, name))
	}
	if s.applications != nil {
		s.applications.EnqueueRecord(name)
	}
}

// onRunRecord enqueues the runs whose record in the engine changed and their placements, not more
// often than either status needs: the number of clusters of a run is unknown when it begins.
func (s *service) onRunRecord(record string) {
	_, name, _ := strings.Cut(record, "/")
	keys := s.client.ByEngineName(api.RunKind, name)
	for _, k := range keys {
		s.queues.Runs.AddPaced(k, s.queues.PaceOf(api.RunKind, name))
	}
	if len(keys) == 0 {
		s.runs.EnqueueOrphan(name)
	}
	if s.applications != nil {
		s.applications.EnqueueRecord(name)
	}
	for _, k := range s.placements.PlacementsOf(name) {
		s.queues.Placements.AddPaced(k, s.queues.PaceOfProgress(name, kubefleet.EngineName(k.Namespace, k.Name)))
	}
}

// onDriftRecord enqueues the placement for which a drift was recorded.
func (s *service) onDriftRecord(record string) {
	_, rest, _ := strings.Cut(record, "/")
	name, _, _ := strings.Cut(rest, "/")
	s.placements.Drifts.Recorded(name)
	for _, k := range s.client.ByEngineName(api.PlacementKind, name) {
		s.queues.Placements.AddPaced(k, queues.StatusPace)
	}
}

// watchInventory enqueues the placements and applications that a change of the members concerns.
// Properties and namespaces of members may change all the time, so a change of these alone
// enqueues only the placements that depend on them.
func (s *service) watchInventory(ctx context.Context) {
	var before map[string]placement.Cluster
	for again := retryWatch(); ctx.Err() == nil; again.Wait(ctx) {
		for _, err := range backend.WatchInventory(ctx, s.hub.cfg.Inventory, 0) {
			if err != nil {
				break
			}
			again.Reset()
			now, err := s.inventory(ctx)
			if err != nil {
				break
			}
			if before != nil && placement.SameButMeasured(before, now) {
				s.enqueuePlacements(func(obj *unstructured.Unstructured) bool { return placements.Measures(s.placements, obj) })
			} else {
				s.enqueueAllPlacements()
			}
			before = now
			if s.applications != nil {
				s.applications.EnqueueAll("")
			}
		}
	}
}
