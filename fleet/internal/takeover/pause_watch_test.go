//go:build unix

package takeover

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// runHead is the part of a run's record that the tests read.
type runHead struct {
	Run struct {
		State stages.State `json:"state"`
	} `json:"run"`
	Lease struct {
		Holder string `json:"holder"`
		Epoch  int64  `json:"epoch"`
	} `json:"lease"`
}

// ledgerHead is the part of a ledger that the tests read.
type ledgerHead struct {
	Run      string `json:"run"`
	Attempt  int    `json:"attempt"`
	Epoch    int64  `json:"epoch"`
	Phase    string `json:"phase"`
	Revision string `json:"revision"`
	Doubtful []any  `json:"doubtful"`
}

func ledgerIn(obj *unstructured.Unstructured) (l ledgerHead) {
	text, _, _ := unstructured.NestedString(obj.Object, "data", "ledger")
	_ = json.Unmarshal([]byte(text), &l)
	return l
}

// substance returns an object without the metadata that changes by itself, and without the mark of
// a takeover.
func substance(obj *unstructured.Unstructured) map[string]any {
	out := obj.DeepCopy()
	for _, f := range []string{"resourceVersion", "generation", "uid", "creationTimestamp", "managedFields"} {
		unstructured.RemoveNestedField(out.Object, "metadata", f)
	}
	a := out.GetAnnotations()
	maps.DeleteFunc(a, func(k, _ string) bool { return strings.HasPrefix(k, "epoch.slipway.dev/") })
	out.SetAnnotations(a)
	return out.Object
}

// fences tracks the epochs that the records and the members have seen, and the accepted writes of
// older epochs.
type fences struct {
	// fenced reports whether the members check fences. If they do, an older leader must not create
	// objects either.
	fenced bool
	// leads is the last epoch of a run that a client took.
	leads map[string]int64
	// taken is the highest epoch of any client that took a run, by run: an ended run may still have
	// something to finish while the next run is led.
	taken map[string]int64
	// placement is the last accepted record of the placement without the marks of collections.
	placement map[string]any
	// seen is the highest accepted epoch of a record, of the ledger of a cluster or of an object.
	seen map[string]int64
	// has holds the objects, changes counts their changes in this run.
	has     map[string]map[string]any
	changes map[string]int
	// created counts the objects that an older leader created after the ledger had a newer epoch.
	// late counts those of this run, by cluster.
	created int
	late    map[string]int
	// wrote is the time when a client last wrote the ledger of a cluster.
	wrote    map[string]time.Time
	problems []string
}

// question is the epoch and the time of a write request.
type question struct {
	epoch int64
	at    time.Time
}

func newFences(fenced bool) *fences {
	return &fences{
		fenced: fenced,
		leads:  map[string]int64{}, taken: map[string]int64{}, seen: map[string]int64{}, has: map[string]map[string]any{},
		changes: map[string]int{}, late: map[string]int{}, wrote: map[string]time.Time{},
	}
}

// accepted records an accepted write.
func (f *fences) accepted(w Write, asked question) {
	switch {
	case strings.HasPrefix(w.Key, "run/") && w.Op == "put":
		var head runHead
		_ = json.Unmarshal(w.Value, &head)
		f.raise(w, w.Key, head.Lease.Epoch)
		f.taken[w.Key] = max(f.taken[w.Key], head.Lease.Epoch)
		if head.Lease.Holder == w.Client {
			f.leads[w.Client] = max(f.leads[w.Client], head.Lease.Epoch)
		}
	case strings.HasPrefix(w.Key, "placement/"):
		f.led(w, asked.epoch)
	case w.Cluster != "" && w.ID.Namespace == "slipway-system":
		epoch := w.Epoch()
		if w.Op == "delete" { // a deletion carries no epoch
			epoch = asked.epoch
		}
		f.raise(w, w.Cluster, epoch)
		f.wrote[w.Client+" "+w.Cluster] = time.Now()
	case w.Cluster != "" && w.ID.Kind != "Namespace":
		f.object(w, asked)
	}
}

// raise records an epoch that must not fall.
func (f *fences) raise(w Write, at string, epoch int64) {
	if epoch < f.seen[at] {
		f.problem(w, "epoch %d was accepted after %d", epoch, f.seen[at])
	}
	f.seen[at] = max(f.seen[at], epoch)
}

// led checks a write of the placement's record: its client must request an epoch to take a run, or
// have a run that no engine took since. A collection of garbage after the end of a run may be
// marked by any client, because it searches the revision that it replaces: a client that is stopped
// before it collects does so when it wakes up.
func (f *fences) led(w Write, asked int64) {
	collects := f.collects(w)
	if w.Epoch() == f.seen[w.Key] && !collects && !slices.Contains(slices.Collect(maps.Values(f.taken)), asked) {
		f.problem(w, "asked for under epoch %d, and the runs are those of epochs %v", asked, f.taken)
	}
	f.raise(w, w.Key, w.Epoch())
}

// collects reports whether a write changes nothing of the placement's record but the marks of
// collections.
func (f *fences) collects(w Write) bool {
	var now map[string]any
	_ = json.Unmarshal(w.Value, &now)
	for _, mark := range []string{"gcGeneration", "retired"} {
		delete(now, mark)
	}
	before := f.placement
	f.placement = now
	return reflect.DeepEqual(before, now)
}

// object checks a write of an object: its client must be the newest leader that the object or the
// ledger of its cluster has seen, and each change must be made only once.
func (f *fences) object(w Write, asked question) {
	at := w.Cluster + " " + w.ID.String()
	if newer := max(f.seen[at], f.seen[w.Cluster]); asked.epoch < newer {
		f.stale(w, asked, newer)
	}
	f.seen[at] = max(f.seen[at], asked.epoch)
	if w.Op == "release" {
		f.problem(w, "nothing was there before the placement")
	}
	var now map[string]any
	if w.Now != nil {
		now = substance(w.Now)
	}
	if !reflect.DeepEqual(now, f.has[at]) {
		f.has[at] = now
		if f.changes[at]++; f.changes[at] > 1 {
			f.problem(w, "it was changed %d times in one attempt", f.changes[at])
		}
	}
}

// stale records an accepted write of an older leader. Only members without fences may accept one,
// and only for an object that did not exist. Each cluster may accept one such object from a leader
// that had not written the ledger for half a lease (and a little more for a busy machine) when it
// asked.
func (f *fences) stale(w Write, asked question, newer int64) {
	if f.fenced || !w.Precondition.Absent {
		f.problem(w, "asked for under epoch %d, and the member has seen %d", asked.epoch, newer)
		return
	}
	f.created++
	if asked.at.Sub(f.wrote[w.Client+" "+w.Cluster]) < lease/2+100*time.Millisecond {
		return
	}
	if f.late[w.Cluster]++; f.late[w.Cluster] > 1 {
		f.problem(w, "number %d of what was created under epoch %d, and the member has seen %d", f.late[w.Cluster], asked.epoch, newer)
	}
}

func (f *fences) problem(w Write, format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...)+": "+w.String())
}

// dialer returns d if fenced is set, and otherwise a dialer to members without fences.
func dialer(d backend.Dialer, fenced bool) backend.Dialer {
	if fenced {
		return d
	}
	return backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		conn, err := d.Dial(ctx, c)
		if err != nil {
			return nil, err
		}
		return unfencedConn{conn.(backend.ConnWatcher)}, nil
	})
}

// unfencedConn is a connection to a member without fences.
type unfencedConn struct{ backend.ConnWatcher }

func (u unfencedConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	o.Fence = backend.Fence{}
	return u.ConnWatcher.Apply(ctx, obj, o)
}

func (u unfencedConn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	o.Fence = backend.Fence{}
	return u.ConnWatcher.Delete(ctx, id, o)
}
