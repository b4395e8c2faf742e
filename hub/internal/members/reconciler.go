// Package members reconciles MemberClusters. It writes whether a member can be reached and its
// measurements, as an agent on the member would report them, and labels the member with its name.
package members

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/api/cluster/v1beta1"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/placement"
)

// Reconciler writes the status of members. It owns the hub's conditions in the status of
// MemberClusters, the agent status, the label with the name, and each measurement that no other
// client reports.
type Reconciler struct {
	*objects.Client
	// Dialer reaches the members; nil if an updater does that.
	Dialer   backend.Dialer
	Queues   *queues.Queues
	Clusters *objects.Clusters
	// Namespaces reports whether the namespaces of members are written.
	Namespaces bool

	mu sync.Mutex
	// checked holds the last successful check of each member, by name. again holds the members that
	// must be asked now, in spite of such a check.
	checked map[string]*check
	again   map[string]bool
	// away limits how many members that could not be reached the last time are asked at once. Each
	// may take the whole timeout, and the other members must be asked in time.
	away chan struct{}
}

// check is a successful check of a member.
type check struct {
	// at is the time of the check, next the time of the next one, and measured the time of the last
	// measurement.
	at, next, measured time.Time
	// uid and the fields below it are the declaration of the member at that time.
	uid         types.UID
	generation  int64
	annotations map[string]string
	labels      map[string]string
}

const (
	// Workers is the number of members that are asked at the same time, and mostAway the number of
	// unreachable members among them.
	Workers  = 64
	mostAway = 48
	// awayAgain is the time before a member is retried that found no place in away.
	awayAgain = 5 * time.Second
	// inventoryLag is the time in which the inventory may lack a new member, because its watch may
	// lag behind the watch of the hub. inventoryPause is the time between two looks.
	inventoryLag, inventoryPause = 10 * time.Second, 100 * time.Millisecond
	// memberTimeout is the time limit for an answer of a member, and again for its measurement.
	memberTimeout = 10 * time.Second
	// askedPace is the minimum time between two questions to a member because placements came or
	// went.
	askedPace = 2 * time.Second
)

// New initializes r and returns it.
func New(r *Reconciler) *Reconciler {
	r.checked, r.again, r.away = map[string]*check{}, map[string]bool{}, make(chan struct{}, mostAway)
	return r
}

// isLag reports whether err is that the inventory lacks a member of this age, which is no problem
// if the member is new.
func isLag(err error, age time.Duration) bool {
	return errors.Is(err, backend.ErrNotFound) && age < inventoryLag
}

// Reconcile labels a member and writes its status.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	obj := r.Object(api.MemberGVR(), k)
	if obj == nil {
		r.Queues.Members.Drop(k)
		r.setChecked(k.Name, nil)
		r.begin(k.Name) // forget again, too
	}
	if obj == nil || obj.GetDeletionTimestamp() != nil {
		return 0, nil
	}
	if err := r.label(ctx, obj); err != nil {
		return 0, err
	}
	if r.Dialer == nil {
		return 0, nil
	}
	if c := r.lastCheck(obj); c != nil { // before the next check, a reconcile only corrects the status
		return time.Until(c.next), r.write(ctx, obj, status.MemberFactsOf(obj, nil, c.at))
	}
	if api.ConditionOf(obj, api.ConditionHealthy).Status == "False" {
		select {
		case r.away <- struct{}{}:
			defer func() { <-r.away }()
		default:
			return awayAgain, nil
		}
	}
	cluster, err := r.Clusters.Find(ctx, k.Name)
	if isLag(err, time.Since(obj.GetCreationTimestamp().Time)) {
		return inventoryPause, nil
	}
	if err != nil {
		return 0, err
	}
	r.begin(k.Name)
	facts, measured := r.ask(ctx, obj, cluster)
	if err := r.write(ctx, obj, facts); err != nil {
		r.setChecked(k.Name, nil) // its answer was not recorded anywhere
		return 0, err
	}
	again := facts.Again(rand.Float64()) //nolint:gosec // the number spreads checks over time
	if facts.Err == nil {
		r.setChecked(k.Name, &check{
			at: facts.Now, next: facts.Now.Add(again), measured: measured,
			uid: obj.GetUID(), generation: obj.GetGeneration(), labels: obj.GetLabels(), annotations: obj.GetAnnotations(),
		})
	} else {
		r.setChecked(k.Name, nil)
	}
	return again, nil
}

// write writes the status of a member. It sends only the fields that differ, which is mostly the
// time of the last answer.
func (r *Reconciler) write(ctx context.Context, obj *unstructured.Unstructured, facts *status.MemberFacts) error {
	facts.Uncollected = !r.Namespaces
	st, err := status.MemberStatusOf(obj, facts)
	if err != nil {
		return err
	}
	return r.PatchStatusMap(ctx, api.MemberGVR(), obj, st)
}

// lastCheck returns the last check of a member, or nil if the member must be asked now, because the
// check is too old, its declaration has changed or AskAgain was called.
func (r *Reconciler) lastCheck(obj *unstructured.Unstructured) *check {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.checked[obj.GetName()]
	if c == nil || r.again[obj.GetName()] || !time.Now().Before(c.next) || c.uid != obj.GetUID() || c.generation != obj.GetGeneration() ||
		!maps.Equal(c.labels, obj.GetLabels()) || !maps.Equal(c.annotations, obj.GetAnnotations()) {
		return nil
	}
	return c
}

func (r *Reconciler) setChecked(name string, c *check) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c == nil {
		delete(r.checked, name)
		return
	}
	r.checked[name] = c
}

// AskAgain causes a member to be asked for its namespaces now, before the next check is due. If the
// member is being asked already, it is asked once more, because its answer may be older than the
// call.
func (r *Reconciler) AskAgain(name string) {
	r.mu.Lock()
	r.again[name] = true
	r.mu.Unlock()
	r.Queues.Members.AddPaced(api.Key{Name: name}, askedPace)
}

// begin records that a question to a member begins.
func (r *Reconciler) begin(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.again, name)
}

// lastMeasured returns the time of the last measurement of a member, perhaps by another hub; zero
// if there was none.
func (r *Reconciler) lastMeasured(obj *unstructured.Unstructured) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.checked[obj.GetName()]; c != nil && c.uid == obj.GetUID() {
		return c.measured
	}
	return api.Status[v1beta1.MemberClusterStatus](obj).ResourceUsage.ObservationTime.Time
}

// ask connects to a member, which checks its identity, and measures it if a measurement is due. It
// returns the time of the last measurement.
func (r *Reconciler) ask(ctx context.Context, obj *unstructured.Unstructured, c placement.Cluster) (*status.MemberFacts, time.Time) {
	measured := r.lastMeasured(obj)
	conn, err := r.dial(ctx, c)
	facts := status.MemberFactsOf(obj, err, time.Now())
	if err != nil {
		return facts, measured
	}
	if status.IsMeasuredAgain(measured, facts.Now, r.Namespaces) {
		// also if it fails, because a failed measurement does not mean that the member is
		// unreachable
		measured = facts.Now
		if facts.Measured, err = r.measure(ctx, obj, conn); err != nil {
			r.Log.Info("a member could not be measured", "member", obj.GetName(), "error", err)
			facts.Unmeasured = r.Namespaces // placements wait for the namespaces
		}
	}
	if err := conn.Close(); err != nil {
		r.Log.Warn("closing", "member", obj.GetName(), "error", err)
	}
	return facts, measured
}

func (r *Reconciler) dial(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	return r.Dialer.Dial(ctx, c)
}

// measure measures a member. It leaves out the fields that another client has written.
func (r *Reconciler) measure(ctx context.Context, obj *unstructured.Unstructured, conn backend.Conn) (*status.MemberMeasurement, error) {
	ctx, cancel := context.WithTimeout(ctx, memberTimeout)
	defer cancel()
	m, err := backend.Measure(ctx, conn)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now, err := r.Dynamic.Resource(api.MemberGVR()).Get(ctx, obj.GetName(), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := &status.MemberMeasurement{}
	if m.Capacity != nil && isOwn(now, "properties", status.NodeCount) {
		out.Nodes = &m.Nodes
	}
	if m.Capacity != nil && isOwn(now, "resourceUsage") {
		out.Capacity, out.Allocatable, out.Available = m.Capacity, m.Allocatable, m.Available
	}
	if r.Namespaces && isOwn(now, "namespaces") {
		out.Namespaces, out.MoreNamespaces = m.Namespaces, m.MoreNamespaces
	}
	return out, nil
}

// isOwn reports whether no other client owns the field at path in the status of an object, or a
// field below it.
func isOwn(obj *unstructured.Unstructured, path ...string) bool {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == api.Manager || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			return false // it may own the field
		}
		keys := []string{"f:status"}
		for _, name := range path {
			keys = append(keys, "f:"+name)
		}
		if _, owned, _ := unstructured.NestedFieldNoCopy(fields, keys...); owned {
			return false
		}
	}
	return true
}

// label labels a member with its name, for selectors and lists. A hub without the right to do so
// serves the member all the same, because its inventory does not read the label.
func (r *Reconciler) label(ctx context.Context, obj *unstructured.Unstructured) error {
	name := obj.GetName()
	if obj.GetLabels()[api.LabelMemberName] == name || len(validation.IsValidLabelValue(name)) > 0 {
		return nil
	}
	err := r.Label(ctx, api.MemberGVR(), obj, api.LabelMemberName, name)
	if apierrors.IsForbidden(err) {
		r.Recorder.Warning(obj, api.EventNotLabelled, "the label %s cannot be written: %v", api.LabelMemberName, err)
		return nil
	}
	return err
}
