package hub

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-dev/slipway/backend"
)

// service is what a hub does while it leads: it watches the objects of the Fleet
// API, the engine's records and what placements select, and brings the one up to
// date with the other.
type service struct {
	*Hub
	factory dynamicinformer.DynamicSharedInformerFactory
	// objects are the caches of the kinds that people write, by resource.
	objects map[schema.GroupVersionResource]cache.SharedIndexInformer

	placements, runs, members, overrides *loop
	// orphans are runs of the engine whose names were cut and that have no object.
	orphans *loop
	// histories are what the runs that have not ended were folded to.
	histories histories
	selected  *selections
	mirrors   mirrors
	// rolling tells the placement of a run that the hub started itself, by the
	// run's name.
	rolling sync.Map
	// standing are the placements as the engine has them, by key.
	standing sync.Map
	// overrideContents are the contents of overrides that snapshots have frozen, by
	// the digest of all of them.
	overrideContents sync.Map
	// applicable are the overrides in the snapshots of a placement that clusters were
	// last tried with or that runs bring, by its name.
	applicable sync.Map
	// gatesOfBeginning are the approvals of the runs that are about to be recorded, which beginning guards.
	beginning        sync.Mutex
	gatesOfBeginning map[key][]gateName
	// vouched is what the admission policies were when they were compared last.
	vouched atomic.Pointer[vouching]
	// verdicts are those on the clusters that PickN policies picked, by key.
	verdicts sync.Map
	// sizes are how many clusters runs have and placements list, by sized.
	sizes sync.Map
	// frozen are the items of the snapshot that was shown last, by placement.
	frozen    sync.Map
	documents documents
	roster    roster
}

// byEngineName indexes placements and runs by what the engine calls them.
const byEngineName = "engine"

func newService(h *Hub) (*service, error) {
	s := &service{
		Hub: h, factory: dynamicinformer.NewDynamicSharedInformerFactory(h.client, 0),
		objects:          map[schema.GroupVersionResource]cache.SharedIndexInformer{},
		gatesOfBeginning: map[key][]gateName{},
	}
	s.placements = s.newLoop("placement", s.syncPlacement)
	s.runs = s.newLoop("run", s.syncRun)
	s.members = s.newLoop("member", s.syncMember)
	s.overrides = s.newLoop("override", s.syncOverride)
	s.orphans = s.newLoop("orphan", s.syncOrphan)
	s.selected = newSelections(s)
	for _, in := range []scope{clusterScope, namespaceScope} {
		for base, heard := range map[string]func(scope, *unstructured.Unstructured){
			placementKind: s.heardPlacement, runKind: s.heardRun, strategyKind: s.heardStrategy,
			approvalKind: s.heardApproval,
		} {
			if err := s.hear(in.gvr(base), s.informer(in, base), s.showing(base), func(obj *unstructured.Unstructured) { heard(in, obj) }); err != nil {
				return nil, err
			}
		}
		if err := s.hear(overrideGVR(in), s.informer(in, overrideKind), nil, s.heardOverride); err != nil {
			return nil, err
		}
	}
	if err := s.hear(memberGVR(), s.factory.ForResource(memberGVR()).Informer(), s.members, s.heardMember); err != nil {
		return nil, err
	}
	return s, s.hearShown()
}

// newLoop returns a loop whose rounds are counted and timed.
func (s *service) newLoop(name string, sync func(context.Context, key) (time.Duration, error)) *loop {
	timed := func(ctx context.Context, k key) (time.Duration, error) {
		begun := time.Now()
		again, err := sync(ctx, k)
		s.meters.synced(name, time.Since(begun), err)
		return again, err
	}
	return newLoop(name, timed, func(k key, err error) {
		s.log.Warn("not up to date, will be tried again", "kind", name, "object", k.String(), "error", err)
	})
}

// informer tells of the objects of a kind.
func (s *service) informer(in scope, base string) cache.SharedIndexInformer {
	return s.factory.ForResource(in.gvr(base)).Informer()
}

// showing is the loop that writes the status of a kind, nil for none.
func (s *service) showing(base string) *loop {
	switch base {
	case placementKind:
		return s.placements
	case runKind:
		return s.runs
	default:
		return nil
	}
}

func (s *service) loops() []*loop {
	return []*loop{s.placements, s.runs, s.members, s.overrides, s.orphans}
}

// run serves until ctx ends.
func (s *service) run(ctx context.Context) error {
	s.notes = newNotes(ctx, s.kube, s.cfg.Name)
	defer s.notes.stop()
	ctx, stop := context.WithCancel(ctx)
	for _, l := range s.loops() {
		defer l.queue.ShutDown()
	}
	s.factory.Start(ctx.Done())
	defer s.factory.Shutdown()
	s.mirrors.factory.Start(ctx.Done())
	defer s.mirrors.factory.Shutdown()
	defer stop() // all of which would wait for ctx
	if err := s.synced(ctx); err != nil {
		return err
	}
	s.ready.Store(true)
	defer s.ready.Store(false)
	var group sync.WaitGroup
	for _, work := range []func(context.Context){
		func(ctx context.Context) { s.placements.run(ctx, placementWorkers) },
		func(ctx context.Context) { s.runs.run(ctx, runWorkers) },
		func(ctx context.Context) { s.members.run(ctx, memberWorkers) },
		func(ctx context.Context) { s.overrides.run(ctx, overrideWorkers) },
		func(ctx context.Context) { s.orphans.run(ctx, orphanWorkers) },
		func(ctx context.Context) { s.listen(ctx, "run/", s.heardRecord(s.runs, runKind)) },
		func(ctx context.Context) { s.listen(ctx, "placement/", s.heardRecord(s.placements, placementKind)) },
		func(ctx context.Context) { s.listen(ctx, "drift/", s.heardDrift) },
		func(ctx context.Context) { s.listen(ctx, "deleted/", s.heardRecord(s.placements, placementKind)) },
		s.watchInventory,
		s.watchPolicies,
		s.selected.watch,
	} {
		group.Go(func() { work(ctx) })
	}
	group.Wait()
	return nil
}

// How many objects of a kind are brought up to date at the same time.
const (
	placementWorkers = 4
	runWorkers       = 8
	overrideWorkers  = 1
	orphanWorkers    = 1
	memberWorkers    = 16 // most of them may wait for members that are down
)

// synced waits until all objects were read once: what is not known yet would
// look as if it were not there. Where a kind cannot be read it says which, after a
// time in which an API server starts.
func (s *service) synced(ctx context.Context) error {
	for !s.readAll(ctx) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.unreadable(ctx); err != nil {
			return err
		}
		s.log.Warn("not all objects could be read yet, will be tried again")
	}
	return nil
}

// readAll waits for a while until all objects were read.
func (s *service) readAll(ctx context.Context) bool {
	brief, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	read := true
	for _, ok := range s.factory.WaitForCacheSync(brief.Done()) {
		read = read && ok
	}
	for _, ok := range s.mirrors.factory.WaitForCacheSync(brief.Done()) {
		read = read && ok
	}
	return read
}

// unreadable says which kind cannot be read before somebody changes something.
func (s *service) unreadable(ctx context.Context) error {
	for _, gvr := range slices.Concat(slices.Collect(maps.Keys(s.objects)), slices.Collect(maps.Keys(s.mirrors.objects))) {
		_, err := s.client.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil && !passes(err) {
			return fmt.Errorf("%s cannot be read: %w: install the CRDs and the roles of package hub/manifests", gvr.GroupResource(), err)
		}
	}
	return nil
}

// syncTimeout is how long reading all objects may take at the start.
const syncTimeout = time.Minute

// listen watches the engine's records under a prefix.
func (s *service) listen(ctx context.Context, prefix string, heard func(key string)) {
	for ctx.Err() == nil {
		for change, err := range backend.Watch(ctx, s.store, prefix, time.Second) {
			if err != nil {
				break
			}
			heard(change.Key)
		}
		pause(ctx)
	}
}

// retryWatch is how long a watch that ended is left alone.
const retryWatch = time.Second

// pause lets that time pass.
func pause(ctx context.Context) { pauseFor(ctx, retryWatch) }

func pauseFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// heardDrift wakes the placement of which something was seen to differ.
func (s *service) heardDrift(record string) {
	_, rest, _ := strings.Cut(record, "/")
	name, _, _ := strings.Cut(rest, "/")
	for _, k := range s.called(placementKind, name) {
		s.placements.addPaced(k, statusPace)
	}
}

// strategyOf is the name of the strategy that a run names.
func strategyOf(run *unstructured.Unstructured) string {
	return specString(run, "stagedRolloutStrategyName")
}
