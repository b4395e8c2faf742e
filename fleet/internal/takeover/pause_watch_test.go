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

// runHead is what a test needs of the record of a run.
type runHead struct {
	Run struct {
		State stages.State `json:"state"`
	} `json:"run"`
	Lease struct {
		Holder string `json:"holder"`
		Epoch  int64  `json:"epoch"`
	} `json:"lease"`
}

// ledgerHead is what a test needs of a ledger.
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

// substance is an object without what changes although nothing was done to it,
// and without the mark of a takeover.
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

// fences knows which epoch the records and the members have seen, and notes
// what was accepted of an older one.
type fences struct {
	// fenced reports whether the members check fences: then an older leader creates
	// nothing either.
	fenced bool
	// leads is the last epoch under which a client took a run.
	leads map[string]int64
	// taken is the highest epoch under which anybody took a run, by the run: one
	// that has ended may still have something to finish when the next is led.
	taken map[string]int64
	// seen is the highest epoch that was accepted at a record, at the ledger of
	// a cluster or at an object.
	seen map[string]int64
	// has is what the objects are, changes how often that changed in this run.
	has     map[string]map[string]any
	changes map[string]int
	// created counts what an older leader created once the ledger had a newer
	// epoch, late how much of that in this run, by cluster.
	created int
	late    map[string]int
	// wrote is when a client last wrote the ledger of a cluster.
	wrote    map[string]time.Time
	problems []string
}

// question is under which epoch a write was asked for, and when.
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

// accepted takes in a write.
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
		if w.Op == "delete" { // which carries none
			epoch = asked.epoch
		}
		f.raise(w, w.Cluster, epoch)
		f.wrote[w.Client+" "+w.Cluster] = time.Now()
	case w.Cluster != "" && w.ID.Kind != "Namespace":
		f.object(w, asked)
	}
}

// raise notes an epoch that must not fall.
func (f *fences) raise(w Write, at string, epoch int64) {
	if epoch < f.seen[at] {
		f.problem(w, "epoch %d was accepted after %d", epoch, f.seen[at])
	}
	f.seen[at] = max(f.seen[at], epoch)
}

// led checks that who writes the record of the placement asks for an epoch to
// take a run under, or has a run that no engine took since.
func (f *fences) led(w Write, asked int64) {
	if w.Epoch() == f.seen[w.Key] && !slices.Contains(slices.Collect(maps.Values(f.taken)), asked) {
		f.problem(w, "asked for under epoch %d, and the runs are those of epochs %v", asked, f.taken)
	}
	f.raise(w, w.Key, w.Epoch())
}

// object checks that who writes an object is the newest leader that it or the
// ledger of its cluster has seen, and that what has to be done is done once.
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

// stale takes in what was accepted of an older leader, by members that know no
// fences: objects that did not exist, one of each cluster where the leader had not
// written the ledger for half a lease when it asked, and a while for a busy
// machine.
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

// dialer returns a dialer to members that check fences, as d's do, or know none.
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

// unfencedConn is a connection to a member that knows no fences.
type unfencedConn struct{ backend.ConnWatcher }

func (u unfencedConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	o.Fence = backend.Fence{}
	return u.ConnWatcher.Apply(ctx, obj, o)
}

func (u unfencedConn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	o.Fence = backend.Fence{}
	return u.ConnWatcher.Delete(ctx, id, o)
}
