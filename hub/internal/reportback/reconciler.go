// Package reportback copies the status of placed objects from their one cluster to their originals
// on the hub, for placements that request it: spec.strategy.reportBackStrategy with the destination
// OriginalResource.
package reportback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/placements"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/snapshot"
)

// Reconciler writes reported statuses. It owns the status of the hub's objects that placements
// report to, and no other field of them.
type Reconciler struct {
	*objects.Client
	Engine     *fleet.Engine
	Source     *source.Source
	Placements *placements.Reconciler
	Queues     *queues.Queues

	mu sync.Mutex
	// last holds the latest reports by the engine's name of the placement, because the placement's
	// object may not have been read yet.
	last map[string]*reported
}

// reported holds the latest reports about a placement. The reconciler's mutex guards its fields.
type reported struct {
	clusters map[string]*report
	// written are the digests of the last statuses that were written to objects of the hub.
	written map[snapshot.ID]string
	// changed reports whether objects of the hub have changed since their last comparison at
	// compared.
	changed  bool
	compared time.Time
}

// report is the report of one cluster. It is immutable.
type report struct {
	cluster, revision string
	objects           []object
	// more reports whether the report omits objects.
	more bool
}

// object is an object with its status on a cluster, as JSON. Status is nil if it is longer than
// mostBytes; size is its length in any case.
type object struct {
	snapshot.ID
	status json.RawMessage
	size   int
}

// reportOf returns a report within limits, because members are not trusted. It omits objects from
// envelopes, because they have no original on the hub.
func reportOf(from apply.StatusReport) *report {
	r := &report{cluster: from.Cluster, revision: from.Revision}
	for _, o := range from.Objects {
		if o.Enveloped {
			continue
		}
		if r.more = len(r.objects) == mostObjects; r.more {
			break
		}
		status, err := json.Marshal(o.Status)
		if size := len(status); err != nil || size > mostBytes {
			r.objects = append(r.objects, object{o.ID, nil, size})
			continue
		}
		r.objects = append(r.objects, object{o.ID, status, len(status)})
	}
	return r
}

const (
	// pace is the minimum time between writes for a placement. ComparePace is the minimum time
	// between comparisons with the objects of the hub, so that the hub does not fight a controller
	// that writes its own status again and again.
	pace        = 2 * time.Second
	comparePace = time.Minute
	// mostObjects limits the objects of a placement that are kept and written, and mostBytes the
	// JSON of a status.
	mostObjects = 200
	mostBytes   = 64 << 10
	// forbiddenAgain is the time until a forbidden write is tried again: no watch reports that the
	// right was granted.
	forbiddenAgain = 2 * time.Minute
)

// Receive stores the report of a cluster. It does not block.
func (r *Reconciler) Receive(from apply.StatusReport) {
	now := reportOf(from)
	r.mu.Lock()
	one := r.last[from.Placement]
	if one == nil {
		one = &reported{clusters: map[string]*report{}, written: map[snapshot.ID]string{}}
		if r.last == nil {
			r.last = map[string]*reported{}
		}
		r.last[from.Placement] = one
	}
	one.clusters[from.Cluster] = now
	r.mu.Unlock()
	for _, k := range r.ByEngineName(api.PlacementKind, from.Placement) {
		r.Queues.Statuses.AddPaced(k, pace)
	}
}

func engineName(k api.Key) string { return kubefleet.EngineName(k.Namespace, k.Name) }

// SourceChanged must be called if objects of the hub that a placement selects may have changed,
// including their status, and if the hub starts to serve the placement.
func (r *Reconciler) SourceChanged(k api.Key) {
	r.mu.Lock()
	one := r.last[engineName(k)]
	if one != nil {
		one.changed = true
	}
	r.mu.Unlock()
	if one != nil {
		r.Queues.Statuses.AddPaced(k, comparePace)
	}
}

// Reconcile writes the reported statuses of a placement that are still valid.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	obj := r.Object(api.ScopeOf(k).GVR(api.PlacementKind), k)
	if obj == nil || obj.GetDeletionTimestamp() != nil || !r.Placements.ReportsBack(obj) {
		r.forget(k)
		return 0, nil
	}
	name := engineName(k)
	p, err := r.Engine.Placement(name).Get(ctx)
	if errors.Is(err, backend.ErrNotFound) || err == nil && p.Owner != string(obj.GetUID()) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	view, err := r.Engine.Placement(name).View(ctx)
	if err != nil {
		return 0, err
	}
	now, err := r.current(ctx, name, view)
	if err != nil || now == nil || len(now.objects) == 0 {
		return 0, err
	}
	originals, err := originalsOf(ctx, view, now)
	if err != nil {
		return 0, err
	}
	return r.writeAll(ctx, name, obj, now, originals)
}

// current returns the report of the one cluster that the placement picks, nil if there is none. It
// drops the reports of other clusters, because a cluster that the placement left is irrelevant.
func (r *Reconciler) current(ctx context.Context, name string, view *fleet.PlacementView) (*report, error) {
	d, err := view.Selection(ctx)
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.last[name]
	if one == nil || len(d.Clusters) != 1 {
		return nil, nil
	}
	picked := d.Clusters[0]
	maps.DeleteFunc(one.clusters, func(cluster string, _ *report) bool { return cluster != picked })
	if one.changed && time.Since(one.compared) >= comparePace {
		one.changed, one.compared = false, time.Now()
		one.written = map[snapshot.ID]string{}
	}
	return one.clusters[picked], nil
}

// forget drops all reports about a placement.
func (r *Reconciler) forget(k api.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.last, engineName(k))
	r.Queues.Statuses.Drop(k)
}

// original is the object of the hub that a cluster has a copy of.
type original struct {
	digest string
	// taken is when the cluster's snapshot was taken.
	taken time.Time
}

// originalsOf returns the originals of the reporting cluster's snapshot that are still selected. It
// omits objects from envelopes, because the hub has the envelope and not the object.
func originalsOf(ctx context.Context, view *fleet.PlacementView, from *report) (map[snapshot.ID]original, error) {
	index := -1
	for c, err := range view.Placed(ctx) {
		if err != nil {
			return nil, err
		}
		if c.Name == from.cluster {
			index = c.Tried
			if c.Revision == from.revision {
				index = c.Index
			}
		}
	}
	out := map[snapshot.ID]original{}
	all := view.Snapshots()
	for _, s := range all {
		if s.Index != index {
			continue
		}
		items, err := view.Items(ctx, index)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			if item.Envelope == nil {
				out[item.ID] = original{item.Digest, s.TakenAt}
			}
		}
		if latest := all[len(all)-1].Index; latest != index {
			selected, err := view.Items(ctx, latest)
			if err != nil {
				return nil, err
			}
			out = among(out, selected)
		}
	}
	return out, nil
}

// among returns the originals that are also in items, outside of envelopes.
func among(all map[snapshot.ID]original, items []snapshot.Item) map[snapshot.ID]original {
	out := map[snapshot.ID]original{}
	for _, item := range items {
		if o, ok := all[item.ID]; ok && item.Envelope == nil {
			out[item.ID] = o
		}
	}
	return out
}

// writeAll writes the statuses of a report that were not written before. If a write is refused, it
// continues with the others.
func (r *Reconciler) writeAll(
	ctx context.Context, name string, placement *unstructured.Unstructured, from *report, originals map[snapshot.ID]original,
) (again time.Duration, err error) {
	warn := func(format string, args ...any) {
		r.Recorder.Warning(placement, api.EventNotReportedBack, "cluster %s: "+format, append([]any{from.cluster}, args...)...)
	}
	var failed []error
	for _, o := range from.objects {
		as, ok := originals[o.ID]
		if !ok {
			continue
		}
		if o.status == nil {
			warn("the status of %s is not reported: it has %d bytes, and may have %d", o.ID, o.size, mostBytes)
			continue
		}
		digest := snapshot.Digest(o.status)
		if r.isWritten(name, o.ID, digest) {
			continue
		}
		err := r.write(ctx, o, as)
		switch {
		case err == nil:
			r.setWritten(name, o.ID, digest)
		case apierrors.IsForbidden(err):
			warn("the status of %s may not be written on the hub: %v: "+
				"grant patch on its status by a ClusterRole with the label slipway.dev/aggregate-to-hub-source=true", o.ID, err)
			again = forbiddenAgain
		case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || errors.Is(err, errNoStatus):
			warn("the status of %s cannot be written on the hub: %v", o.ID, err)
			r.setWritten(name, o.ID, digest) // until the cluster reports another status
		default:
			failed = append(failed, fmt.Errorf("status of %s: %w", o.ID, err))
		}
	}
	if from.more {
		warn("of more than %d objects only the first are reported", mostObjects)
	}
	return again, errors.Join(failed...)
}

func (r *Reconciler) isWritten(name string, id snapshot.ID, digest string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.last[name]
	return one != nil && one.written[id] == digest
}

func (r *Reconciler) setWritten(name string, id snapshot.ID, digest string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.last[name]; one != nil {
		one.written[id] = digest
	}
}

// errNoStatus means that the kind has no status subresource on the hub.
var errNoStatus = errors.New("the hub has no status of this kind that is written apart from the rest of the object")

// write sets the status of the original of an object to the object's status on the cluster, unless
// the original was deleted or replaced, or has that status already. It changes only the status, and
// only of the version that it read.
func (r *Reconciler) write(ctx context.Context, o object, from original) error {
	gvr, err := r.Source.Resource(ctx, o.ID)
	if err != nil {
		return err
	}
	resource := r.Dynamic.Resource(gvr).Namespace(o.Namespace)
	now, err := resource.Get(ctx, o.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil || !from.isStill(now) || isStatus(now, o.status) {
		return err
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/uid", "value": now.GetUID()},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": now.GetResourceVersion()},
		{"op": "add", "path": "/status", "value": o.status},
	})
	if err != nil {
		return err
	}
	_, err = resource.Patch(ctx, o.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: api.Manager}, "status")
	if apierrors.IsNotFound(err) {
		if _, err := resource.Get(ctx, o.Name, metav1.GetOptions{}); err == nil {
			return errNoStatus
		}
	}
	return objects.Settled(err)
}

// isStill reports whether the object now is still the original of the cluster's copy: it existed
// when the copy was made, or has the same content. An object that was deleted and created again
// with other content is not. The margin of a second is necessary because a creationTimestamp has no
// fractions of a second.
func (o original) isStill(now *unstructured.Unstructured) bool {
	if created := now.GetCreationTimestamp(); !created.Add(time.Second).After(o.taken) {
		return true
	}
	body, err := snapshot.Canonical(snapshot.Clean(now).Object)
	return err == nil && snapshot.Digest(body) == o.digest
}

func isStatus(now *unstructured.Unstructured, status json.RawMessage) bool {
	have, err := json.Marshal(now.Object["status"])
	return err == nil && bytes.Equal(have, status)
}
