package hub_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	approvals "github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// TestRollingEachChangeRollsOutByItself: strategy RollingUpdate brings each change to the members
// and to a new member, and removes the objects from a member that leaves. No run needs to be
// created.
func TestRollingEachChangeRollsOutByItself(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 1}")
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.eventually("v1", s.has(1, "config", "v1"))
	s.put("v2")
	s.eventually("v2", s.has(1, "config", "v2"))
	s.join(2, "s2")
	s.eventually("v2 on who joins", s.has(2, "config", "v2"))
	s.patch("mc/NAME-1", `{metadata: {labels: {story: none}}}`)
	s.eventually("who leaves to be cleaned", s.gone(s.member(1), "ns/NAME"))
	if err := s.has(2, "config", "v2")(); err != nil {
		t.Error(err)
	}
	s.eventually("the status to name one cluster", func() error {
		if got := s.placed(); !slices.Equal(got, []string{s.name + "-2"}) {
			return fmt.Errorf("it names %v", got)
		}
		return nil
	})
	s.delete("crp/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
	if err := s.has(2, "config", "")(); err != nil {
		t.Error(err)
	}
}

// placed returns the clusters in the status of the placement.
func (s *scenario) placed() (out []string) {
	u, err := s.get("crp/NAME")
	if err != nil {
		return nil
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "placementStatuses")
	for _, item := range list {
		name, _, _ := unstructured.NestedString(item.(map[string]any), "clusterName")
		out = append(out, name)
	}
	return out
}

// TestRollingANewerChangeTakesOver: if a change is stuck, the next change supersedes it. The bad
// change touches at most maxUnavailable members, and all members get the good one.
func TestRollingANewerChangeTakesOver(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("good")
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}")
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.apply(deployment)
	s.eventually("the Deployment on the first member", func() error { _, err := s.read(s.member(1), "deploy/NAME/app"); return err })
	s.stays("the second waits for the first", 700*time.Millisecond, s.gone(s.member(2), "deploy/NAME/app"))
	s.delete("deploy/NAME/app")
	s.put("better")
	for i := range 2 {
		s.eventually("the better one", s.has(i+1, "config", "better"))
		s.eventually("the bad one to be gone", s.gone(s.member(i+1), "deploy/NAME/app"))
	}
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
}

// TestRollingCountsUnavailableClustersOfTheReplacedUpdate: a cluster that an update changed and
// that did not become available counts against maxUnavailable of the update that replaces it, and
// gets the new objects first, wherever its name stands. Another cluster is changed once that one is
// available.
func TestRollingCountsUnavailableClustersOfTheReplacedUpdate(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.apply(deployment)
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}")
	for i := range 2 {
		s.available(i + 1)
	}
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	image := func(version string) {
		s.patch("deploy/NAME/app", `{spec: {template: {spec: {containers: [{name: app, image: "example.invalid/app:`+version+`"}]}}}}`)
	}
	on := func(member int, version string) func() error {
		return func() error {
			u, err := s.read(s.member(member), "deploy/NAME/app")
			if err != nil {
				return err
			}
			list, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
			if got := list[0].(map[string]any)["image"]; got != "example.invalid/app:"+version {
				return fmt.Errorf("member %d has %v", member, got)
			}
			return nil
		}
	}
	image("2")
	s.eventually("version 2 on the first", on(1, "2"))
	s.available(1)
	s.eventually("version 2 on the second", on(2, "2"))
	image("3")
	s.eventually("version 3 on the second, which is not available", on(2, "3"))
	s.stays("the first waits for it", time.Second, on(1, "2"))
	s.available(2)
	s.eventually("version 3 on the first", on(1, "3"))
	s.available(1)
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
}

// TestRollingUpdateContinuesIfTheNextCannotBePlanned: if an override fails for a member, so that
// the next update cannot be planned, the update that is under way continues.
func TestRollingUpdateContinuesIfTheNextCannotBePlanned(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.apply(deployment)
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}")
	s.eventually("the Deployment, which is not available", func() error { _, err := s.read(s.member(1), "deploy/NAME/app"); return err })
	s.override("ResourceOverride", "bad", "resourceSelectors", "config", "s1", "/no/such/path", "x")
	s.eventually("the override to be named", func() error { return s.clusterCondition("NAME-1", "Overridden", "False", "NAME-bad") })
	s.stays("the first run continues", time.Second, func() error {
		status, err := s.served.Engine().Run("r.1." + s.name).Status(t.Context())
		if err == nil && status.Run.State != stages.Running {
			err = fmt.Errorf("it is %s", status.Run.State)
		}
		return err
	})
	s.delete("ro/NAME/NAME-bad")
	s.available(1)
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
}

// TestRollingUpdateEndedForAReplacementIsRestarted: a hub ends an update before it creates the
// replacement. If it dies in between, and the placement then asks for the first update again, the
// next hub starts that update again. It does not start an update that a person has aborted.
func TestRollingUpdateEndedForAReplacementIsRestarted(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.apply(deployment)
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1}")
	s.eventually("the Deployment, which is not available", func() error { _, err := s.read(s.member(1), "deploy/NAME/app"); return err })
	runs := func(want int) func() error {
		return func() error {
			names, err := s.served.Engine().Placement(s.name).RunNames(t.Context())
			if err == nil && len(names) != want {
				err = fmt.Errorf("the runs are %v", names)
			}
			return err
		}
	}
	abort := func(run, by string) {
		if err := s.served.Engine().Run(run).Command(t.Context(), stages.Command{Verb: stages.Abort, By: approvals.Identity{Name: by}}); err != nil {
			t.Fatal(err)
		}
		s.eventually(run+" to be aborted", func() error {
			status, err := s.served.Engine().Run(run).Status(t.Context())
			if err == nil && status.Run.State != stages.Aborted {
				err = fmt.Errorf("it is %s", status.Run.State)
			}
			return err
		})
	}
	abort("r.1."+s.name, api.Manager)
	s.eventually("a second run", runs(2))
	abort("r.2."+s.name, "host")
	s.stays("no third run", 1500*time.Millisecond, runs(2))
}

// TestRollingWaitsTheUnavailablePeriod: nothing shows whether an Ingress works. A member is
// therefore available unavailablePeriodSeconds after the hub applied the Ingress. The status says
// so no earlier, and the next member is updated no earlier.
func TestRollingWaitsTheUnavailablePeriod(t *testing.T) {
	const period = 3 * time.Second
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.apply(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: NAME}
spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}`)
	placed := time.Now()
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 3}")
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	if d := time.Since(placed); d < period {
		t.Errorf("the members are available after %s", d)
	}
	s.put("v2")
	var applied [2]time.Time
	for i := range applied {
		s.eventually("v2", s.has(i+1, "config", "v2"))
		u, err := s.read(s.member(i+1), "cm/NAME/config")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range u.GetManagedFields() {
			if m.Time.After(applied[i]) {
				applied[i] = m.Time.Time
			}
		}
	}
	// The server cuts its times to seconds.
	if d := applied[1].Sub(applied[0]); d <= period-time.Second {
		t.Errorf("the second member is updated %s after the first", d)
	}
}

// TestRollingAChangedApplyStrategyTakesEffect: a failed object suggests a change of applyStrategy.
// The change is rolled out at once, without a new snapshot, and the object is no longer reported as
// failed.
func TestRollingAChangedApplyStrategyTakesEffect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, after string
		begin               func(s *scenario)
		says                string
	}{
		{"takeover", "whenToTakeOver: Never", "whenToTakeOver: Always", func(s *scenario) {
			s.onMember(1, `{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`)
			s.onMember(1, `{apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME}, data: {key: theirs}}`)
		}, "whenToTakeOver is Never"},
		{"co-ownership", "allowCoOwnership: false", "allowCoOwnership: true", func(s *scenario) {
			s.onMember(1, `{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`)
			s.onMember(1, `{apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME,
  ownerReferences: [{apiVersion: example.com/v1, kind: Tenant, name: t, uid: u}]}, data: {key: theirs}}`)
		}, "allow co-ownership"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScenario(t, openVouched, 1)
			s.put("v1")
			c.begin(s)
			s.place("type: RollingUpdate, rollingUpdate: {unavailablePeriodSeconds: 1}, applyStrategy: {" + c.before + "}")
			s.eventually("what fails", func() error { return s.says("crp/NAME", c.says) })
			if err := s.failed(""); err == nil {
				t.Error("there are no failedPlacements")
			}
			s.patch("crp/NAME", `{spec: {strategy: {applyStrategy: {`+c.after+`}}}}`)
			s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
			s.eventually("it", s.has(1, "config", "v1"))
			s.eventually("nothing to fail", func() error { return s.failed("") })
			if got := s.indexes(); len(got) != 1 {
				t.Errorf("there are snapshots %v", got)
			}
			s.stays("the run is the last one", time.Second, func() error {
				runs, err := s.served.Engine().Placement(s.name).RunNames(t.Context())
				if err == nil && len(runs) > 2 {
					err = fmt.Errorf("there are runs %v", runs)
				}
				return err
			})
		})
	}
}

// onMember applies an object to a member.
func (s *scenario) onMember(i int, text string) {
	s.Helper()
	if err := s.applyTo(s.member(i), s.objects(text)[0]); err != nil {
		s.Fatal(err)
	}
}

// TestRollingFirstRolloutPassesAFailingCluster: all new members are updated at the same time. So a
// member that refuses a takeover does not delay the others. A later update stops at that member.
func TestRollingFirstRolloutPassesAFailingCluster(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.onMember(1, `{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`)
	s.onMember(1, `{apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME}, data: {key: theirs}}`)
	s.place("type: RollingUpdate, applyStrategy: {whenToTakeOver: Never}")
	s.eventually("the failure", func() error { return s.says("crp/NAME", "whenToTakeOver is Never") })
	s.eventually("v1 on the other", s.has(2, "config", "v1"))
	s.put("v2")
	s.snapshots("0", "1")
	s.stays("the update waits for the one that fails", time.Second, s.has(2, "config", "v1"))
	s.patch("crp/NAME", `{spec: {strategy: {applyStrategy: {whenToTakeOver: Always}}}}`)
	for i := range 2 {
		s.eventually("v2", s.has(i+1, "config", "v2"))
	}
}

// TestSnapshotsAreTakenOnlyOfChanges: a change of the selected objects is in a new
// snapshot within seconds: a new value, a new object or a removed one. Many changes at once make
// few snapshots, and a change that affects no placed content makes none. Both strategies do so by
// default.
func TestSnapshotsAreTakenOnlyOfChanges(t *testing.T) {
	for _, strategy := range []string{"RollingUpdate", "External"} {
		t.Run(strategy, func(t *testing.T) { snapshotsOfChanges(t, strategy) })
	}
}

func snapshotsOfChanges(t *testing.T, strategy string) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: " + strategy)
	s.snapshots("0")
	begun := time.Now()
	s.put("v2")
	s.snapshots("0", "1")
	t.Logf("a snapshot after %v", time.Since(begun))
	s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: more, namespace: NAME}}`)
	s.snapshots("0", "1", "2")
	s.delete("cm/NAME/more")
	s.snapshots("0", "1", "2", "3")
	s.patch("cm/NAME/config", `{metadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: "x"}}}`)
	s.put("v2")
	s.stays("nothing has changed", 1500*time.Millisecond, func() error {
		if got := s.indexes(); len(got) != 4 {
			return fmt.Errorf("there are snapshots %v", got)
		}
		return nil
	})
	began := time.Now()
	for i := range 20 {
		s.put("edit " + strconv.Itoa(i))
	}
	s.eventually("the last edit to be in the latest snapshot", func() error { return s.latest("edit 19") })
	// a snapshot collects the changes of half a second
	if most := 2 + int(time.Since(began)/(500*time.Millisecond)); len(s.indexes())-4 > most {
		t.Errorf("20 edits in %v made %d snapshots", time.Since(began), len(s.indexes())-4)
	}
}

// TestRollingOverrideOfNoObjectStartsNoRun: overrides that select no object of a placement
// cause no snapshot and no run. If no rule of an override selects a cluster, the cluster has no
// override.
func TestRollingOverrideOfNoObjectStartsNoRun(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 1}")
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	runs := func() []string {
		names, err := s.served.Engine().Placement(s.name).RunNames(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	before := runs()
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourceOverride
metadata: {name: NAME-everywhere}
spec:
  clusterResourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME-elsewhere}]
  policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: []}, overrideType: Delete}]}`)
	s.override("ResourceOverride", "other", "resourceSelectors", "other", "s1", "/data/b", `"1"`)
	s.eventually("the version of the last one", func() error { _, err := s.get("ros/NAME/NAME-other-0"); return err })
	s.stays("no snapshot and no run", 1500*time.Millisecond, func() error {
		if got := s.indexes(); len(got) != 1 || !slices.Equal(runs(), before) {
			return fmt.Errorf("there are snapshots %v and runs %v, want runs %v", got, runs(), before)
		}
		return nil
	})
	if err := s.clusterCondition("NAME-1", "Overridden", "True", "NoOverrideSpecified"); err != nil {
		t.Error(err)
	}
	s.override("ResourceOverride", "far", "resourceSelectors", "config", "s2", "/data/b", `"1"`)
	s.eventually("a run", func() error {
		if got := runs(); len(got) != len(before)+1 {
			return fmt.Errorf("there are %v, and were %v", got, before)
		}
		return nil
	})
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.comes("crp/NAME", "ClusterResourcePlacementOverridden", "True", "NoOverrideSpecified")
	s.delete("ro/NAME/NAME-far")
	s.override("ResourceOverride", "near", "resourceSelectors", "config", "s1", "/data/b", `"1"`)
	s.comes("crp/NAME", "ClusterResourcePlacementOverridden", "True", "OverriddenSucceeded")
	s.eventually("the cluster to say so", func() error { return s.clusterCondition("NAME-1", "Overridden", "True", "OverriddenSucceeded") })
}

// TestRollingReachesTheNamedMembersThatAreThere: a PickFixed policy that names a missing member
// places on the other members, and the missing one is reported. It is reached once it joins.
// Without names nothing is placed.
func TestRollingReachesTheNamedMembersThatAreThere(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME}]
  policy: {placementType: PickFixed, clusterNames: [NAME-2, NAME-1]}
  strategy: {type: RollingUpdate, rollingUpdate: {unavailablePeriodSeconds: 0}}`)
	s.eventually("the one that is there", s.has(1, "config", "v1"))
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "False", "NAME-2, since it is not in the inventory")
	s.eventually("its entry", func() error { return s.clusterCondition("NAME-1", "Available", "True", "") })
	s.eventually("the entry of the other", func() error { return s.clusterCondition("", "Scheduled", "False", "NAME-2 is not selected") })
	s.join(2, "s2")
	s.eventually("the other one", s.has(2, "config", "v1"))
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "True", "")
	s.patch("crp/NAME", `{spec: {policy: {clusterNames: []}}}`)
	s.eventually("nothing to be placed", func() error { return errors.Join(s.has(1, "config", "")(), s.has(2, "config", "")()) })
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "Unknown", "")
	s.patch("crp/NAME", `{spec: {policy: {clusterNames: [NAME-1]}}}`)
	s.eventually("it to be placed again", s.has(1, "config", "v1"))
	if err := s.has(2, "config", "")(); err != nil {
		t.Error(err)
	}
}

// TestRollingAnOverrideThatFailsIsShownOnItsClusters: an override that cannot be applied on a
// member is in the conditions of that member, and no member is changed until the override is
// corrected. The same holds for an override that makes an object which no member can read.
func TestRollingAnOverrideThatFailsIsShownOnItsClusters(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 100%, unavailablePeriodSeconds: 0}")
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
	s.override("ResourceOverride", "bad", "resourceSelectors", "config", "s2", "/no/such/path", "x")
	s.eventually("the member to say so", func() error { return s.clusterCondition("NAME-2", "Overridden", "False", "OverriddenFailed") })
	s.eventually("the override to be named", func() error { return s.clusterCondition("NAME-2", "Overridden", "False", "NAME-bad") })
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "True", "")
	s.comes("crp/NAME", "ClusterResourcePlacementRolloutStarted", "False", "RolloutNotStartedYet")
	s.put("v2")
	s.snapshots("0", "1")
	s.stays("nothing is brought", time.Second, func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(2, "config", "v1")()) })
	s.delete("ro/NAME/NAME-bad")
	s.eventually("v2", func() error { return errors.Join(s.has(1, "config", "v2")(), s.has(2, "config", "v2")()) })
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: NAME-number, namespace: NAME}
spec:
  placement: {name: NAME}
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]
  policy: {overrideRules: [{clusterSelector: {clusterSelectorTerms: []}, jsonPatchOverrides: [{op: replace, path: /data/key, value: 5}]}]}`)
	s.comes("crp/NAME", "ClusterResourcePlacementWorkSynchronized", "False", "WorkNotSynchronizedYet")
	s.eventually("the member to say so", func() error { return s.clusterCondition("NAME-1", "WorkSynchronized", "False", "SyncWorkFailed") })
	s.delete("ro/NAME/NAME-number")
	s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
}

// clusterCondition checks a condition of a cluster in the status of the placement: its status, and
// a text in its reason or message. The cluster "" is the first entry without a cluster name.
func (s *scenario) clusterCondition(cluster, kind, status, text string) error {
	u, err := s.get("crp/NAME")
	if err != nil {
		return err
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "placementStatuses")
	for _, item := range list {
		of := item.(map[string]any)
		if name, _, _ := unstructured.NestedString(of, "clusterName"); name != s.own(cluster) {
			continue
		}
		got, said := conditionOf(&unstructured.Unstructured{Object: map[string]any{"status": of}}, kind)
		if got != status || !strings.Contains(said, s.own(text)) {
			return fmt.Errorf("condition %s of %s is %q (%s), want %q with %q", kind, cluster, got, said, status, s.own(text))
		}
		return nil
	}
	return fmt.Errorf("%s is not among %v", s.own(cluster), list)
}

// latest checks that the latest snapshot contains a text.
func (s *scenario) latest(text string) error {
	list, err := s.admin.Resource(s.resourceOf("crs")).List(s.Context(), metav1.ListOptions{LabelSelector: s.own("kubernetes-fleet.io/parent-CRP=NAME,kubernetes-fleet.io/is-latest-snapshot=true")})
	if err != nil {
		return err
	}
	if len(list.Items) != 1 {
		return fmt.Errorf("%d snapshots are the latest", len(list.Items))
	}
	if all := fmt.Sprint(list.Items[0].Object["spec"]); !strings.Contains(all, text) {
		return fmt.Errorf("snapshot %s lacks %q", list.Items[0].GetName(), text)
	}
	return nil
}

// TestSnapshotsFollowNamespacesSelectedByLabel: a namespace that gets the label is in the next
// snapshot with its content; a namespace that loses the label is not.
func TestSnapshotsFollowNamespacesSelectedByLabel(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, labelSelector: {matchLabels: {story: NAME}}}]
  policy: {placementType: PickFixed, clusterNames: [NAME-1]}
  strategy: {type: RollingUpdate}`)
	s.snapshots("0")
	s.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: NAME-too}}`)
	s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: second, namespace: NAME-too}, data: {key: too}}`)
	s.patch("ns/NAME-too", `{metadata: {labels: {story: NAME}}}`)
	s.eventually("the second namespace", func() error { return s.latest(s.own("name:second namespace:NAME-too")) })
	s.patch("cm/NAME-too/second", `{data: {key: changed}}`)
	s.eventually("a change in it", func() error { return s.latest("changed") })
	s.patch("ns/NAME-too", `{metadata: {labels: {story: null}}}`)
	s.eventually("it to leave", func() error {
		if err := s.latest("changed"); err == nil {
			return errors.New("the latest snapshot still has it")
		}
		return s.latest("v1")
	})
}

// TestTamperedSnapshotObjectsAreRestored: the objects of snapshots are projections.
func TestTamperedSnapshotObjectsAreRestored(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: RollingUpdate")
	s.snapshots("0")
	s.delete("crs/NAME-0-snapshot")
	s.snapshots("0")
	s.patch("crs/NAME-0-snapshot", `{metadata: {labels: {kubernetes-fleet.io/is-latest-snapshot: "false"}}}`)
	s.eventually("its label", func() error { return s.latest("v1") })
}

// TestSnapshotsOverTheLimitAreSplitAndSecretsAreRedacted: a snapshot over 800 KiB is split into
// several objects, each under 1 MiB. They do not show the content of Secrets. The members get
// everything.
func TestSnapshotsOverTheLimitAreSplitAndSecretsAreRedacted(t *testing.T) {
	s := newScenario(t, openBare, 1)
	s.put("v1")
	for i := range 4 {
		s.apply(fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: {name: big-%d, namespace: NAME}, data: {key: %q}}`, i, strings.Repeat(strconv.Itoa(i), 500<<10)))
	}
	s.apply(`{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: NAME}, stringData: {password: hunter2-hunter2}}`)
	s.place("type: RollingUpdate")
	s.eventually("the big ones", func() error { _, err := s.read(s.member(1), "cm/NAME/big-3"); return err })
	s.eventually("the Secret", func() error {
		u, err := s.read(s.member(1), "secret/NAME/token")
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(u.Object, "data", "password"); got != "aHVudGVyMi1odW50ZXIy" {
			return fmt.Errorf("it holds %q", got)
		}
		return nil
	})
	var list *unstructured.UnstructuredList
	s.eventually("the objects of the snapshot", func() (err error) {
		list, err = s.admin.Resource(s.resourceOf("crs")).List(t.Context(), metav1.ListOptions{LabelSelector: s.own("kubernetes-fleet.io/parent-CRP=NAME")})
		if err == nil && len(list.Items) < 3 {
			err = fmt.Errorf("2,000 KiB are in %d objects", len(list.Items))
		}
		return err
	})
	for _, u := range list.Items {
		text, err := u.MarshalJSON()
		if err != nil || len(text) > 1<<20 {
			t.Errorf("%s has %d bytes: %v", u.GetName(), len(text), err)
		}
		if strings.Contains(string(text), "hunter2") || strings.Contains(string(text), "aHVudGVy") {
			t.Errorf("%s shows a Secret", u.GetName())
		}
	}
}

// TestRollingReachesAMemberThatIsRegisteredAnew: a MemberCluster that is deleted and created again
// at once is another member, even if no client saw the deletion.
func TestRollingReachesAMemberThatIsRegisteredAnew(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: RollingUpdate")
	s.eventually("it", s.has(1, "config", "v1"))
	for range 4 {
		s.delete("mc/NAME-1")
		s.apply(`{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: NAME-1, labels: {story: NAME, stage: s1}}, spec: {}}`)
		now, err := s.get("mc/NAME-1")
		if err != nil {
			t.Fatal(err)
		}
		s.eventually("the new member to have it", func() error {
			view, err := s.served.Engine().Placement(s.name).View(t.Context())
			if err != nil {
				return err
			}
			for c, err := range view.Placed(t.Context()) {
				if err != nil {
					return err
				}
				if strings.HasPrefix(c.UID, string(now.GetUID())) && c.Index >= 0 {
					return nil
				}
			}
			return errors.New("the engine knows nothing of it")
		})
	}
}

// TestDifferencesOfSecretsAreRedacted: the status of a placement reports that a Secret of a member
// differs, and at which path, but no value of either side. Neither does the placement's snapshot.
func TestDifferencesOfSecretsAreRedacted(t *testing.T) {
	s := newScenario(t, openBare, 1)
	s.apply(`{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: NAME, annotations: {note: hunter3}}, stringData: {password: hunter2-hunter2}}`)
	for _, text := range []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`,
		`{apiVersion: v1, kind: Secret, metadata: {name: token, namespace: NAME, annotations: {note: hunter4}}, stringData: {password: hunter5-hunter5}}`,
	} {
		if err := s.applyTo(s.member(1), s.objects(text)[0]); err != nil {
			t.Fatal(err)
		}
	}
	s.place("type: RollingUpdate, applyStrategy: {type: ReportDiff}, rollingUpdate: {maxUnavailable: 100%, unavailablePeriodSeconds: 1}")
	s.eventually("the difference", func() error {
		u, err := s.get("crp/NAME")
		if err != nil {
			return err
		}
		text, err := json.Marshal(u.Object["status"])
		if err != nil {
			return err
		}
		for _, secret := range []string{"hunter", "aHVudGVy"} {
			if strings.Contains(string(text), secret) {
				t.Fatalf("the status tells %s: %s", secret, text)
			}
		}
		if !strings.Contains(string(text), `"/data/password"`) || !strings.Contains(string(text), "redacted") {
			return fmt.Errorf("the status is %s", text)
		}
		return nil
	})
}
