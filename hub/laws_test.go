package hub_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// laws fails the test if one of the laws does not hold. They hold for any sequence of kills, cuts,
// pauses and refusals in an environment of place and staged: members received each value exactly
// once, no leader wrote after a newer one, each cluster was completed once in each run, each
// approval counted once, and the snapshots are numbered without a gap.
func (w *hubEnv) laws(e *fleet.Engine, values []string, runs ...string) {
	w.t.Helper()
	for _, m := range w.members {
		w.lawOfValues(m, values)
		w.lawOfLedger(m)
	}
	for _, run := range runs {
		w.lawOfRun(e, run)
	}
	w.lawOfSnapshots(e, len(values))
}

// lawOfValues: the changes of a member's ConfigMap had the values in their order, each once.
func (w *hubEnv) lawOfValues(m *member, values []string) {
	w.t.Helper()
	var got []string
	version := ""
	for _, write := range m.applied("configmaps", w.name) {
		live := write.live(w.t)
		if live.version == version {
			continue // a repeated apply changes nothing
		}
		version = live.version
		got = append(got, live.data["key"])
	}
	if got = slices.Compact(got); !slices.Equal(got, values) {
		w.t.Errorf("member %s was given %q, not %q:\n%s", m.name, got, values, m.story())
	}
}

// lawOfLedger: epochs and attempts only rise. An attempt has one target, which is proven once.
func (w *hubEnv) lawOfLedger(m *member) {
	w.t.Helper()
	var last ledger
	targets, proven := map[string]string{}, map[string]int64{}
	for _, write := range m.applied("configmaps", "slipway-system") {
		if write.Object.Name != w.name {
			continue
		}
		var l ledger
		if err := json.Unmarshal([]byte(write.sent(w.t)["ledger"]), &l); err != nil {
			w.t.Fatal(err)
		}
		if l.Epoch < last.Epoch || l.RunUID == last.RunUID && l.Attempt < last.Attempt {
			w.t.Errorf("member %s: the ledger went from %+v to %+v", m.name, last, l)
		}
		id := l.RunUID + "/" + strconv.Itoa(l.Attempt)
		if at, ok := targets[id]; ok && l.Target != "" && at != l.Target {
			w.t.Errorf("member %s: attempt %s has two targets, %s and %s", m.name, id, at, l.Target)
		}
		if l.Target != "" {
			targets[id] = l.Target
		}
		if l.Phase == "Applied" && last.Phase != "Applied" {
			if _, ok := proven[id]; ok {
				w.t.Errorf("member %s: attempt %s was proven twice:\n%s", m.name, id, m.story())
			}
			proven[id] = l.Epoch
		}
		last = l
	}
}

// ledger has the fields that tests read from a member's record of a placement.
type ledger struct {
	RunUID           string
	Attempt          int
	Epoch            int64
	Phase            string
	Revision, Target string
}

// lawOfRun: each cluster was completed once, and each approval counted once.
func (w *hubEnv) lawOfRun(e *fleet.Engine, run string) {
	w.t.Helper()
	h, err := e.Run(run).History(w.t.Context(), 0)
	if err != nil {
		w.t.Errorf("history of run %s: %v", run, err)
		return
	}
	completed, accepted := map[string]int{}, map[string]int{}
	for _, event := range h.Events {
		switch event.Type {
		case stages.ClusterCompleted:
			completed[event.Cluster]++
		case stages.ApprovalAccepted, stages.ApprovalGiven:
			accepted[event.Request]++
		default:
		}
	}
	for _, m := range w.members {
		if completed[m.name] != 1 {
			w.t.Errorf("run %s completed member %s %d times", run, m.name, completed[m.name])
		}
	}
	if n := accepted[run+"-canary"]; w.gated && n != 1 {
		w.t.Errorf("the approval of run %s counted %d times", run, n)
	}
}

// lawOfSnapshots: there are n snapshots, numbered from 0, in the engine and as objects.
func (w *hubEnv) lawOfSnapshots(e *fleet.Engine, n int) {
	w.t.Helper()
	var got []string
	view, err := e.Placement(w.name).View(w.t.Context())
	if err != nil {
		w.t.Errorf("snapshots: %v", err)
		return
	}
	for _, s := range view.Snapshots() {
		got = append(got, fmt.Sprintf("%s-%d-snapshot", w.name, s.Index))
	}
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("%s-%d-snapshot", w.name, i))
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("the engine has the snapshots %v, not %v", got, want)
	}
	w.eventually("the objects of the snapshots", func() error { return w.shown(want) })
}

// shown returns an error unless these are the objects of the snapshots and only the last one is the
// latest.
func (w *hubEnv) shown(want []string) error {
	list, err := w.at("crs").List(w.t.Context(), metav1.ListOptions{LabelSelector: "kubernetes-fleet.io/parent-CRP=" + w.name})
	if err != nil {
		return err
	}
	var got, latest []string
	for _, item := range list.Items {
		got = append(got, item.GetName())
		if item.GetLabels()["kubernetes-fleet.io/is-latest-snapshot"] == "true" {
			latest = append(latest, item.GetName())
		}
	}
	slices.SortFunc(got, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	if !slices.Equal(got, want) || !slices.Equal(latest, want[max(len(want)-1, 0):]) {
		return fmt.Errorf("the objects of the snapshots are %v, the latest %v, not %v", got, latest, want)
	}
	return nil
}

// applied returns the successful writes of the placement's manager to objects of a member, in their
// order.
func (m *member) applied(resource, namespace string) []write {
	all := m.audit.writes(resource, namespace)
	all = slices.DeleteFunc(all, func(w write) bool { return !w.done() || w.Verb != "patch" })
	slices.SortStableFunc(all, func(a, b write) int {
		return cmp.Or(cmp.Compare(a.Object.Name, b.Object.Name), cmp.Compare(a.live(m.audit.t).revision(), b.live(m.audit.t).revision()))
	})
	return all
}

// story returns all writes to a member, for a test that failed.
func (m *member) story() string {
	var out strings.Builder
	for _, write := range m.audit.writes("", "") {
		fmt.Fprintln(&out, &write)
	}
	return out.String()
}

// live is an object after a write.
type live struct {
	version string
	data    map[string]string
}

func (l live) revision() int64 {
	n, _ := strconv.ParseInt(l.version, 10, 64)
	return n
}
