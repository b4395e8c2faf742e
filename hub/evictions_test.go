package hub_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/stages"
)

// evict creates the eviction NAME-name of a member from a placement.
func (s *scenario) evict(name, placement, cluster string) {
	s.Helper()
	s.apply(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacementEviction, metadata: {name: NAME-` + name + `},
  spec: {placementName: ` + placement + `, clusterName: ` + cluster + `}}`)
}

// budget creates the disruption budget of the placement.
func (s *scenario) budget(spec string) {
	s.Helper()
	s.apply(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacementDisruptionBudget, metadata: {name: NAME}, spec: {` + spec + `}}`)
}

// bound returns the clusters in the bindings of the placement, with their states.
func (s *scenario) bound() (out []string) {
	s.Helper()
	list, err := s.admin.Resource(s.resourceOf("binding")).List(s.Context(), metav1.ListOptions{LabelSelector: s.own("kubernetes-fleet.io/parent-CRP=NAME")})
	if err != nil {
		s.Fatal(err)
	}
	for i := range list.Items {
		spec, _, _ := unstructured.NestedStringMap(list.Items[i].Object, "spec")
		out = append(out, strings.TrimPrefix(spec["targetCluster"], s.name+"-")+" "+spec["state"])
	}
	slices.Sort(out)
	return out
}

func (s *scenario) isBound(want ...string) func() error {
	return func() error {
		if got := s.bound(); !slices.Equal(got, want) {
			return fmt.Errorf("the bindings are %q, want %q", got, want)
		}
		return nil
	}
}

// evictions returns the eviction runs of the placement, with their states.
func (s *scenario) evictions() (out []string) {
	s.Helper()
	all, err := s.served.Engine().Placement(s.name).Runs(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, r := range all {
		if strings.HasPrefix(r.Name, "e.") {
			out = append(out, string(r.State))
		}
	}
	return out
}

const rolling = "type: RollingUpdate, rollingUpdate: {unavailablePeriodSeconds: 1}"

// TestEvictionOfACordonedMember drains a member like kubectl fleet draincluster: it adds the cordon
// taint, lists the bindings, and creates an eviction of each placement. The placed objects are
// removed once, and come back when the taint is removed.
func TestEvictionOfACordonedMember(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place(rolling)
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.eventually("bindings", s.isBound("1 Bound", "2 Bound"))
	drain := func(name string) {
		t.Helper()
		mc, err := s.get("mc/NAME-1")
		if err != nil {
			t.Fatal(err)
		}
		cordon := []any{map[string]any{"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}}
		if err := unstructured.SetNestedSlice(mc.Object, cordon, "spec", "taints"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.admin.Resource(s.resourceOf("mc")).Update(t.Context(), mc, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		list, err := s.admin.Resource(s.resourceOf("binding")).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			b := &list.Items[i]
			placement := b.GetLabels()["kubernetes-fleet.io/parent-CRP"]
			if cluster, _, _ := unstructured.NestedString(b.Object, "spec", "targetCluster"); cluster == s.name+"-1" && placement == s.name && b.GetDeletionTimestamp() == nil {
				s.evict(name, placement, cluster) // other stories that pick all members are left alone
			}
		}
	}
	drain("drain")
	begun := time.Now() // the plugin reads the answer four times within about 310 ms
	for executed := ""; executed == "" && time.Since(begun) < time.Minute; {
		u, err := s.get("crpe/NAME-drain")
		if err != nil {
			t.Fatal(err)
		}
		executed, _ = conditionOf(u, "Executed")
	}
	t.Logf("it was answered in less than %v", time.Since(begun))
	drain("again") // like the plugin, at once: nothing is left to evict
	if _, err := s.get("crpe/NAME-again"); !apierrors.IsNotFound(err) {
		t.Errorf("it evicted again: %v", err)
	}
	s.comes("crpe/NAME-drain", "Valid", "True", "ClusterResourcePlacementEvictionValid")
	s.comes("crpe/NAME-drain", "Executed", "True", "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified")
	s.eventually("the member to be clean", s.gone(s.member(1), "ns/NAME"))
	s.stays("one binding", 500*time.Millisecond, s.isBound("2 Bound"))
	s.eventually("the status to name one cluster", func() error {
		if got := s.placed(); !slices.Equal(got, []string{s.name + "-2"}) {
			return fmt.Errorf("it names %v", got)
		}
		return nil
	})
	s.put("v2")
	s.eventually("v2 on the other", s.has(2, "config", "v2"))
	s.stays("nothing comes to a cordoned member", time.Second, s.gone(s.member(1), "ns/NAME"))
	if got := s.evictions(); !slices.Equal(got, []string{string(stages.Completed)}) {
		t.Errorf("the runs that evict are %v", got)
	}
	s.patch("mc/NAME-1", `{spec: {taints: null}}`)
	s.eventually("v2 on the member that is uncordoned", s.has(1, "config", "v2"))
	s.eventually("both bindings", s.isBound("1 Bound", "2 Bound"))
}

// TestEvictionOfAMemberThatIsPickedAgain: without a taint the evicted objects are placed again,
// once the member is clean.
func TestEvictionOfAMemberThatIsPickedAgain(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place(rolling)
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	uid := func(member int) types.UID {
		u, err := s.read(s.member(member), "cm/NAME/config")
		if err != nil {
			return ""
		}
		return u.GetUID()
	}
	evicted, other := uid(1), uid(2)
	s.evict("once", "NAME", "NAME-1")
	s.comes("crpe/NAME-once", "Executed", "True", "Eviction is allowed")
	s.eventually("another object", func() error {
		if now := uid(1); now == evicted || now == "" {
			return fmt.Errorf("it is %q, and was %q", now, evicted)
		}
		return nil
	})
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	if now := uid(2); now != other {
		t.Errorf("the object of the other member was made again: %q, before %q", now, other)
	}
	again := uid(1)
	s.stays("it is not evicted twice", time.Second, func() error {
		if now := uid(1); now != again {
			return fmt.Errorf("it is %q, and was %q", now, again)
		}
		return nil
	})
}

// TestEvictionsThatAreRefused: each reports the reason, changes nothing, and is not retried when it
// becomes possible.
func TestEvictionsThatAreRefused(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place(rolling)
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.budget("minAvailable: 2")
	s.evict("budget", "NAME", "NAME-1")
	s.comes("crpe/NAME-budget", "Executed", "False",
		"Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, totalPlacements: 2")
	s.comes("crpe/NAME-budget", "Valid", "True", "Eviction is valid")
	s.budget("minAvailable: 10%")
	s.evict("share", "NAME", "NAME-1")
	s.comes("crpe/NAME-share", "Executed", "False", "Eviction is blocked by misconfigured ClusterResourcePlacementDisruptionBudget")
	s.evict("missing", "NAME-none", "NAME-1")
	s.comes("crpe/NAME-missing", "Valid", "False", "Failed to find ClusterResourcePlacement targeted by eviction")
	s.evict("elsewhere", "NAME", "NAME-9")
	s.comes("crpe/NAME-elsewhere", "Valid", "False", "Failed to find scheduler decision for placement in cluster targeted by eviction")
	s.apply(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacement, metadata: {name: NAME-fixed}, spec: {
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME, selectionScope: NamespaceOnly}],
  policy: {placementType: PickFixed, clusterNames: [NAME-1]}, strategy: {type: External}}}`)
	s.evict("fixed", "NAME-fixed", "NAME-1")
	s.comes("crpe/NAME-fixed", "Valid", "False", "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction")
	s.delete("crp/NAME-fixed")
	s.delete("crpdb/NAME")
	s.stays("refused evictions stay refused", time.Second, func() error {
		if got := s.evictions(); len(got) > 0 {
			return fmt.Errorf("the runs that evict are %v", got)
		}
		return s.has(1, "config", "v1")()
	})
	s.patch("crp/NAME", `{metadata: {finalizers: [kubernetes-fleet.io/crp-cleanup, example.com/stays]}}`)
	s.delete("crp/NAME")
	s.evict("deleting", "NAME", "NAME-1")
	s.comes("crpe/NAME-deleting", "Valid", "False", "Found deleting ClusterResourcePlacement targeted by eviction")
	s.eventually("the finalizer to go", func() error { return s.tryPatch(s.admin, "crp/NAME", `{metadata: {finalizers: []}}`) })
}

// TestEvictionsThatComeTogether: the budget counts earlier evictions, and the second eviction of a
// cluster finds the first.
func TestEvictionsThatComeTogether(t *testing.T) {
	s := newScenario(t, openVouched, 2) // each on an API server of its own
	s.put("v1")
	s.place(rolling)
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.patch("mc/NAME-1", `{spec: {taints: [{key: a, effect: NoSchedule}]}}`)
	s.patch("mc/NAME-2", `{spec: {taints: [{key: a, effect: NoSchedule}]}}`)
	s.budget("minAvailable: 1")
	s.evict("one", "NAME", "NAME-1")
	s.evict("same", "NAME", "NAME-1")
	s.evict("two", "NAME", "NAME-2")
	answered := func(name string) string {
		var said string
		s.eventually("an answer to "+name, func() error {
			u, err := s.get("crpe/NAME-" + name)
			if err != nil {
				return err
			}
			valid, why := conditionOf(u, "Valid")
			executed, message := conditionOf(u, "Executed")
			if valid != "False" && executed == "" {
				return fmt.Errorf("there is none")
			}
			said = valid + " " + executed + " " + why + message
			return nil
		})
		return said
	}
	one, same, two := answered("one"), answered("same"), answered("two")
	executed := 0
	for _, said := range []string{one, two} {
		if strings.Contains(said, "True True") {
			executed++
		}
	}
	if executed != 1 {
		t.Errorf("%d of two were executed: %s; %s", executed, one, two)
	}
	if n := len(s.evictions()); n != 1 {
		t.Errorf("there are %d runs that evict, the answers are %s; %s; %s", n, one, same, two)
	}
	s.eventually("one member with it", func() error {
		have := 0
		for i := range 2 {
			if s.has(i+1, "config", "v1")() == nil {
				have++
			}
		}
		if have != 1 {
			return fmt.Errorf("there are %d", have)
		}
		return nil
	})
}

// TestTwentyEvictionsAtOnce: twenty simultaneous evictions, ten of each member of a placement, run
// while removals end and members are picked again. At no time is the last member with the content
// evicted.
func TestTwentyEvictionsAtOnce(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place(rolling)
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.budget("minAvailable: 1")
	var group sync.WaitGroup
	for i := range 20 {
		u := s.objects(fmt.Sprintf(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacementEviction, metadata: {name: NAME-%d},
  spec: {placementName: NAME, clusterName: NAME-%d}}`, i, 1+i%2))[0]
		group.Go(func() {
			if _, err := s.admin.Resource(s.resourceOf("crpe")).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
	answers, executed := 0, 0
	s.eventually("the answers", func() error {
		lacks := func(member int) bool { return s.has(member, "config", "v1")() != nil }
		if lacks(1) && lacks(2) && lacks(1) { // the first may have returned while the second was read
			t.Error("no member has it")
		}
		answers, executed = 0, 0
		for i := range 20 {
			u, err := s.get(fmt.Sprintf("crpe/NAME-%d", i))
			if err != nil {
				return err
			}
			valid, _ := conditionOf(u, "Valid")
			status, _ := conditionOf(u, "Executed")
			if valid == "False" || status != "" {
				answers++
			}
			if status == "True" {
				executed++
			}
		}
		if answers < 20 {
			return fmt.Errorf("there are %d", answers)
		}
		return nil
	})
	group.Wait()
	if executed == 0 {
		t.Error("none was executed")
	}
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	t.Logf("%d of 20 were executed, in %d runs", executed, len(s.evictions()))
}

// TestEvictionUnderStagedRuns: a run that has not ended blocks an eviction. Without one, the
// eviction is carried out at once, and the next run brings everything back.
func TestEvictionUnderStagedRuns(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: External")
	s.strategy("", "")
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "True", "")
	s.eventually("bindings", s.isBound("1 Scheduled", "2 Scheduled"))
	s.evict("early", "NAME", "NAME-1")
	s.comes("crpe/NAME-early", "Executed", "False", "Eviction is blocked, placement has not propagated resources to target cluster yet")
	s.run("a", "")
	s.comes("csur/NAME-a", "Succeeded", "True", "")
	s.put("v2")
	s.run("b", "state: Initialize")
	s.comes("csur/NAME-b", "Initialized", "True", "")
	s.evict("during", "NAME", "NAME-1")
	s.comes("crpe/NAME-during", "Executed", "False", "Eviction is blocked by staged update run NAME-b of the placement")
	s.delete("csur/NAME-b")
	s.eventually("the run to be gone", s.gone(s.admin, "csur/NAME-b"))
	s.evict("after", "NAME", "NAME-1")
	s.comes("crpe/NAME-after", "Executed", "True", "no ClusterResourcePlacementDisruptionBudget")
	s.eventually("the member to be clean", s.gone(s.member(1), "ns/NAME"))
	s.eventually("bindings", s.isBound("1 Scheduled", "2 Bound"))
	s.stays("no run brings it back by itself", time.Second, s.gone(s.member(1), "ns/NAME"))
	if err := s.has(2, "config", "v1")(); err != nil {
		t.Error(err)
	}
	s.run("c", "")
	s.comes("csur/NAME-c", "Succeeded", "True", "")
	for i := range 2 {
		s.eventually("v2", s.has(i+1, "config", "v2"))
	}
}

// TestEvictionOfAHubThatDies: a hub records the run of an eviction, but cannot write its answer.
// The hub that replaces it gives the same answer, even if the budget has changed, and does not
// evict a second time.
func TestEvictionOfAHubThatDies(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 2)
	w.mayWarn("the hub died")
	one := w.start("one")
	w.place("v1")
	w.staged("")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
	w.await("csur", w.name, "Succeeded", "True")
	struck := one.faults.Add(kubeenv.Rule{
		Path: "/clusterresourceplacementevictions/" + w.name + "/status", Times: -1,
		Fault: func(http.RoundTripper, *http.Request) (*http.Response, error) { return nil, fmt.Errorf("the hub died") },
	})
	w.createText(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacementEviction, metadata: {name: $NAME},
  spec: {placementName: $NAME, clusterName: ` + w.members[0].name + `}}`)
	w.eventually("an answer that is lost", func() error {
		if struck() == 0 {
			return fmt.Errorf("there was none")
		}
		return nil
	})
	w.end(one)
	w.createText(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacementDisruptionBudget, metadata: {name: $NAME}, spec: {minAvailable: 2}}`)
	two := w.start("two")
	w.await("crpe", w.name, "Executed", "True")
	u, err := w.at("crpe").Get(t.Context(), w.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, said := conditionOf(u, "Executed"); !strings.Contains(said, "no ClusterResourcePlacementDisruptionBudget specified") {
		t.Errorf("the answer is %s", said)
	}
	w.eventually("the member to be clean", func() error { return w.holds(w.members[0], "") })
	if err := w.holds(w.members[1], "v1"); err != nil {
		t.Error(err)
	}
	names, err := two.Engine().Placement(w.name).RunNames(t.Context())
	if err != nil || len(names) != 2 {
		t.Errorf("there are runs %v: %v", names, err)
	}
}
