package policies

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/backoff"
)

// The policies are compared when a watch reports a change, and every unwatchedPoll while a watch
// fails. watchedPoll is for changes that no watch reported.
const (
	unwatchedPoll = 10 * time.Second
	watchedPoll   = 10 * time.Minute
)

// policyWatch watches the metadata of the policies and bindings of package hub/manifests, each by
// its name, so that it needs no right to read others.
type policyWatch struct {
	informers []cache.SharedIndexInformer
	// changed receives a value when a policy or binding may have changed.
	changed chan struct{}
	// failed is the time of the last failure of a watch, in nanoseconds since 1970.
	failed atomic.Int64
}

func newPolicyWatch(client metadata.Interface) *policyWatch {
	w := &policyWatch{changed: make(chan struct{}, 1)}
	wanted, err := manifests.Policies()
	if err != nil {
		return w // every comparison returns the same error
	}
	wake := func(any) { backoff.Wake(w.changed) }
	for _, want := range wanted {
		gvr, _ := meta.UnsafeGuessKindToResource(want.GroupVersionKind())
		one := metadatainformer.NewFilteredMetadataInformer(client, gvr, "", 0, cache.Indexers{}, func(o *metav1.ListOptions) {
			o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, want.GetName()).String()
		}).Informer()
		_ = one.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) { // it fails once the informer runs
			w.failed.Store(time.Now().UnixNano())
		})
		_, _ = one.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: wake, DeleteFunc: wake, UpdateFunc: func(before, now any) {
				if a, b := versionOf(before), versionOf(now); a != b {
					wake(now)
				}
			},
		})
		w.informers = append(w.informers, one)
	}
	return w
}

func versionOf(obj any) string {
	if m, err := meta.Accessor(obj); err == nil {
		return m.GetResourceVersion()
	}
	return ""
}

// start starts the watches. They end with ctx, and wait returns after they have ended.
func (w *policyWatch) start(ctx context.Context) (wait func()) {
	var running sync.WaitGroup
	for _, one := range w.informers {
		running.Go(func() { one.RunWithContext(ctx) })
	}
	return running.Wait
}

// await returns true when the policies should be compared again, and false when ctx has ended.
// After a failed comparison it returns after at most unwatchedPoll.
func (w *policyWatch) await(ctx context.Context, failed bool) bool {
	poll := time.NewTimer(unwatchedPoll)
	defer poll.Stop()
	for begun := time.Now(); ; poll.Reset(unwatchedPoll) {
		select {
		case <-w.changed:
			return true
		case <-poll.C:
			if failed || !w.isWatched() || time.Since(begun) >= watchedPoll {
				return true
			}
		case <-ctx.Done():
			return false
		}
	}
}

// isWatched reports whether all watches have synced and none failed in the last minute.
func (w *policyWatch) isWatched() bool {
	for _, one := range w.informers {
		if !one.HasSynced() {
			return false
		}
	}
	return len(w.informers) > 0 && time.Since(time.Unix(0, w.failed.Load())) > time.Minute
}
