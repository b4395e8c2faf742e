// Package members reconciles MemberClusters: it writes whether a member can be reached and what it is made of, as an agent on it
// would report, and labels it with its name.
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

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/hub/status"
	"github.com/slipway-dev/slipway/placement"
)

// Reconciler writes what is known of members. It owns the hub's conditions in the status of MemberClusters, what their agent
// reports, what was measured of them where no other client reports it, and their label with their name.
type Reconciler struct {
	*objects.Client
	// Dialer reaches the members, nil where an updater does.
	Dialer   backend.Dialer
	Queues   *queues.Queues
	Clusters *objects.Clusters
	// Namespaces reports whether the namespaces of members are written.
	Namespaces bool

	mu sync.Mutex
	// checked are the members that were reached, by name, again those that are to be asked although they were.
	checked map[string]*check
	again   map[string]bool
	// away bounds how many members are asked at the same time that could not be reached the last time: each may take as long
	// as it may take to answer, and the others are to be asked in time.
	away chan struct{}
}

// check is that a member was reached.
type check struct {
	// at is when, next when it is asked again, measured when it was measured last.
	at, next, measured time.Time
	// of is the member as it was declared.
	uid         types.UID
	generation  int64
	annotations map[string]string
	labels      map[string]string
}

const (
	// Workers is how many members are asked at the same time, mostAway how many of them that could not be reached.
	Workers  = 64
	mostAway = 48
	// awayAgain is when a member is tried again for which there was no place.
	awayAgain = 5 * time.Second
	// memberTimeout is how long a member may take to answer, and again to be measured.
	memberTimeout = 10 * time.Second
	// askedPace is how often a member is asked at most because a placement has come or gone.
	askedPace = 2 * time.Second
)

// New returns the reconciler that r is, which is not used otherwise.
func New(r *Reconciler) *Reconciler {
	r.checked, r.again, r.away = map[string]*check{}, map[string]bool{}, make(chan struct{}, mostAway)
	return r
}

// Reconcile labels a member, and writes what is known of it.
func (r *Reconciler) Reconcile(ctx context.Context, k api.Key) (time.Duration, error) {
	obj := r.Object(api.MemberGVR(), k)
	if obj == nil {
		r.Queues.Members.Drop(k)
		r.setChecked(k.Name, nil)
		r.begin(k.Name) // nothing of it is kept
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
	if c := r.lastCheck(obj); c != nil { // what comes before the next one is to put the status right
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
	if err != nil {
		return 0, err
	}
	r.begin(k.Name)
	facts, measured := r.ask(ctx, obj, cluster)
	if err := r.write(ctx, obj, facts); err != nil {
		r.setChecked(k.Name, nil) // what it answered is not known anywhere
		return 0, err
	}
	again := facts.Again(rand.Float64()) //nolint:gosec // members are spread, nothing is secret
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

// write writes the status of a member, and of that only what differs: mostly when it was last heard of.
func (r *Reconciler) write(ctx context.Context, obj *unstructured.Unstructured, facts *status.MemberFacts) error {
	facts.Uncollected = !r.Namespaces
	st, err := status.MemberStatusOf(obj, status.Member(facts))
	if err != nil {
		return err
	}
	return r.PatchStatusMap(ctx, api.MemberGVR(), obj, st)
}

// lastCheck is the last check of a member that is declared as it was then, nil where it is to be asked now.
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

// AskAgain has a member asked now, and not when it is due, for the namespaces that it has. While it is being asked its answer may
// be of before, so that it is asked once more.
func (r *Reconciler) AskAgain(name string) {
	r.mu.Lock()
	r.again[name] = true
	r.mu.Unlock()
	r.Queues.Members.AddPaced(api.Key{Name: name}, askedPace)
}

// begin notes that a member is being asked.
func (r *Reconciler) begin(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.again, name)
}

// lastMeasured is when a member was measured last, by another hub perhaps; zero for never.
func (r *Reconciler) lastMeasured(obj *unstructured.Unstructured) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.checked[obj.GetName()]; c != nil && c.uid == obj.GetUID() {
		return c.measured
	}
	text, _, _ := unstructured.NestedString(obj.Object, "status", "resourceUsage", "observationTime")
	at, _ := time.Parse(time.RFC3339, text)
	return at
}

// ask connects to a member, which asks it who it is, and measures it where it is time. It returns when it was measured last.
func (r *Reconciler) ask(ctx context.Context, obj *unstructured.Unstructured, c placement.Cluster) (*status.MemberFacts, time.Time) {
	measured := r.lastMeasured(obj)
	conn, err := r.dial(ctx, c)
	facts := status.MemberFactsOf(obj, err, time.Now())
	if err != nil {
		return facts, measured
	}
	if status.IsMeasuredAgain(measured, facts.Now, r.Namespaces) {
		measured = facts.Now // also where that fails: it says nothing of whether the member is there
		if facts.Measured, err = r.measure(ctx, obj, conn); err != nil {
			r.Log.Info("a member could not be measured", "member", obj.GetName(), "error", err)
			facts.Unmeasured = r.Namespaces // placements wait for them
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

// measure measures a member. What another client has written of it is left out.
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

// isOwn reports whether no other client owns a field in the status of an object, or anything in it.
func isOwn(obj *unstructured.Unstructured, path ...string) bool {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == api.Manager || entry.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			return false // it may be
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

// label gives a member the label with its name, for those who select or list members by it. Without the right to do so the
// hub serves the member all the same: its inventory does not read the label.
func (r *Reconciler) label(ctx context.Context, obj *unstructured.Unstructured) error {
	name := obj.GetName()
	if obj.GetLabels()[api.LabelMemberName] == name || len(validation.IsValidLabelValue(name)) > 0 {
		return nil
	}
	err := r.Label(ctx, api.MemberGVR(), obj, api.LabelMemberName, name)
	if apierrors.IsForbidden(err) {
		r.Recorder.Warning(obj, "NotLabelled", "the label %s cannot be written: %v", api.LabelMemberName, err)
		return nil
	}
	return err
}
