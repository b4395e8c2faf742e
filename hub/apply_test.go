package hub_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
)

// TestOverridesApplyToSelectedClusters: a ClusterResourceOverride and a ResourceOverride change
// objects for the clusters that they select, and a later override causes another rollout.
func TestOverridesApplyToSelectedClusters(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.override("ClusterResourceOverride", "one", "clusterResourceSelectors", "NAME", "s1", "/metadata/labels", `{from: cluster}`)
	s.place("type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, unavailablePeriodSeconds: 1}")
	s.eventually("v1", func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(2, "config", "v1")()) })
	s.override("ResourceOverride", "two", "resourceSelectors", "config", "s2", "/data/key", "ours")
	s.eventually("the override", s.has(2, "config", "ours"))
	if err := s.has(1, "config", "v1")(); err != nil {
		t.Error(err)
	}
	for i, want := range []string{"cluster", ""} {
		ns, err := s.read(s.member(i+1), "ns/NAME")
		if err != nil || ns.GetLabels()["from"] != want {
			t.Errorf("the namespace of member %d has the labels %v: %v", i+1, ns.GetLabels(), err)
		}
	}
	s.delete("ro/NAME/NAME-two")
	s.eventually("the override to end", s.has(2, "config", "v1"))
}

func (s *scenario) override(kind, name, selectors, object, stage, path, value string) {
	s.Helper()
	selected := `{group: "", version: v1, kind: Namespace, name: ` + object + `}`
	if kind == "ResourceOverride" {
		selected = `{group: "", version: v1, kind: ConfigMap, name: ` + object + `}`
	}
	namespace := ""
	if kind == "ResourceOverride" {
		namespace = ", namespace: NAME"
	}
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ` + kind + `
metadata: {name: NAME-` + name + namespace + `}
spec:
  placement: {name: NAME}
  ` + selectors + `: [` + selected + `]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {stage: ` + stage + `}}}]}
      overrideType: JSONPatch
      jsonPatchOverrides: [{op: add, path: ` + path + `, value: ` + value + `}]`)
}

// TestAnOverrideWithoutAScope: a ResourceOverride that names its placement without a scope applies
// to the ResourcePlacement of that name in its namespace.
func TestAnOverrideWithoutAScope(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.override("ResourceOverride", "plain", "resourceSelectors", "config", "s1", "/data/key", "ours")
	s.twins("NAME")
	s.apply(`{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: StagedUpdateRun, metadata: {name: own, namespace: NAME}, spec: {placementName: NAME, stagedRolloutStrategyName: NAME, state: Run}}`)
	s.approved("areq/NAME/own-s1")
	s.eventually("the run to succeed", s.condition("sur/NAME/own", "Succeeded", "True", ""))
	s.eventually("the member to have what the override says", s.has(1, "config", "ours"))
}

// TestAnOverrideThatNamesAnotherScopeIsReported: if a ResourceOverride names a placement with the
// scope Cluster and only a ResourcePlacement of its namespace has the name, an event of the
// override says that it has no effect.
func TestAnOverrideThatNamesAnotherScopeIsReported(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: lost, namespace: NAME}
spec:
  placement: {name: NAME, scope: Cluster}
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: config}]
  policy: {overrideRules: [{overrideType: JSONPatch, jsonPatchOverrides: [{op: replace, path: /data/key, value: ours}]}]}`)
	s.twins("NAME")
	events := func() (list []string, err error) {
		client, err := kubernetes.NewForConfig(s.server.Config())
		if err != nil {
			return nil, err
		}
		all, err := client.CoreV1().Events(s.name).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=ResourceOverride"})
		if err != nil {
			return nil, err
		}
		for _, e := range all.Items {
			list = append(list, e.Reason+": "+e.Message)
		}
		return list, nil
	}
	s.eventually("an event that names the scope", func() error {
		list, err := events()
		if said := strings.Join(list, " "); err == nil && (!strings.Contains(said, "PlacementNotFound") || !strings.Contains(said, "spec.placement.scope: Namespaced")) {
			err = fmt.Errorf("the events are %q", list)
		}
		return err
	})
}

// TestOverridesThatFailAreNamed: an override that cannot be carried out keeps a run from being
// planned, and the condition names the override, the object and the cluster.
func TestOverridesThatFailAreNamed(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: External")
	s.strategy("")
	s.scheduled()
	s.override("ResourceOverride", "bad", "resourceSelectors", "config", "s1", "/no/such/path", "x")
	s.run("a", "")
	for _, want := range []string{"NAME-bad", "config", "NAME-1"} {
		s.comes("csur/NAME-a", "Initialized", "False", want)
	}
	s.eventually("the member to have nothing", s.has(1, "config", ""))
}

// TestDriftIsReportedAsTheSeedPrintsIt: ReportDiff writes nothing and lists the differences in
// diffedPlacements, so that the jsonpath command prints the expected output.
func TestDriftIsReportedAsTheSeedPrintsIt(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.patch("ns/NAME", `{metadata: {labels: {owner: simon}}}`)
	for i, owner := range []string{"simon", "chen"} {
		if err := s.applyTo(s.member(i+1), s.objects(`{apiVersion: v1, kind: Namespace, metadata: {name: NAME, labels: {story: NAME, owner: ` + owner + `}}}`)[0]); err != nil {
			t.Fatal(err)
		}
	}
	s.place("type: RollingUpdate, applyStrategy: {type: ReportDiff}, rollingUpdate: {maxUnavailable: 100%, unavailablePeriodSeconds: 1}")
	s.eventually("the difference", func() error {
		out, err := s.kubectl("get", "clusterresourceplacement.v1beta1.placement.kubernetes-fleet.io", s.name, "-o", "jsonpath={.status.placementStatuses}")
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return s.differs(out)
	})
	ns, err := s.read(s.member(2), "ns/NAME")
	if err != nil || ns.GetLabels()["owner"] != "chen" {
		t.Errorf("the namespace of the member has the labels %v: %v", ns.GetLabels(), err)
	}
}

// differs checks that the output of the seed's command shows one label of the second member.
func (s *scenario) differs(out string) error {
	type detail struct{ Path, ValueInHub, ValueInMember string }
	type diffed struct {
		Kind, Name, Version, FirstDiffedObservedTime, ObservationTime string
		ObservedDiffs                                                 []detail
	}
	var all []struct {
		ClusterName      string
		DiffedPlacements []diffed
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var found []string
	for _, c := range all {
		for _, d := range c.DiffedPlacements {
			if d.Kind != "Namespace" || d.Name != s.name || d.Version != "v1" || d.FirstDiffedObservedTime == "" || d.ObservationTime == "" {
				return fmt.Errorf("%+v", d)
			}
			for _, o := range d.ObservedDiffs {
				found = append(found, fmt.Sprint(c.ClusterName, o))
			}
		}
	}
	if want := s.name + "-2{/metadata/labels/owner simon chen}"; strings.Join(found, " ") != want {
		return fmt.Errorf("%q, want %q", found, want)
	}
	return nil
}

// TestDriftIsReportedOrCorrected: with whenToApply IfNotDrifted a change on a member stays and is
// reported; with Always it is reverted.
func TestDriftIsReportedOrCorrected(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"IfNotDrifted", "Always"} {
		t.Run(when, func(t *testing.T) {
			s := newScenario(t, openVouched, 1)
			s.put("v1")
			s.place("type: RollingUpdate, applyStrategy: {whenToApply: " + when + "}, rollingUpdate: {maxUnavailable: 100%, unavailablePeriodSeconds: 1}")
			s.eventually("it", s.has(1, "config", "v1"))
			s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
			if err := s.tryPatch(s.member(1), "cm/NAME/config", `{data: {key: theirs}}`); err != nil {
				t.Fatal(err)
			}
			if when == "Always" {
				s.eventually("it to be put back", s.has(1, "config", "v1"))
				return
			}
			s.eventually("the status to tell", func() error {
				out, err := s.kubectl("get", "crp", s.name, "-o", "jsonpath={.status.placementStatuses[0].driftedPlacements[0].observedDrifts}")
				if err == nil && (!strings.Contains(out, `"/data/key"`) || !strings.Contains(out, `"theirs"`) || !strings.Contains(out, `"v1"`)) {
					err = errors.New(out)
				}
				return err
			})
			s.eventually("the object to be told as failed", func() error { return s.failed(s.own("ConfigMap NAME/config FoundDrifts")) })
			s.stays("theirs stays", time.Second, s.has(1, "config", "theirs"))
			s.put("v2")
			s.eventually("a new change to come through", s.has(1, "config", "v2"))
			s.eventually("nothing to fail any more", func() error { return s.failed("") })
		})
	}
}

// TestTheDefaultApplyStrategyRestores: without an applyStrategy, or with an empty one, an object
// that is edited or deleted on a member is restored, for both types of strategy.
func TestTheDefaultApplyStrategyRestores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, strategy string }{
		{"rolling", "type: RollingUpdate"},
		{"external", "type: External"},
		{"external-empty", "type: External, applyStrategy: {}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScenario(t, openVouched, 1)
			s.put("v1")
			s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: gone, namespace: NAME}, data: {key: here}}`)
			s.place(c.strategy)
			if strings.Contains(c.strategy, "External") {
				s.strategy("")
				s.run("one", "")
			}
			s.eventually("it", func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(1, "gone", "here")()) })
			s.comes("crp/NAME", "ClusterResourcePlacementAvailable", "True", "")
			if err := s.tryPatch(s.member(1), "cm/NAME/config", `{data: {key: theirs}}`); err != nil {
				t.Fatal(err)
			}
			s.deleteOn(s.member(1), "cm/NAME/gone")
			s.within(time.Minute, "both to be put back", func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(1, "gone", "here")()) })
		})
	}
}

// failed checks the objects in failedPlacements of the placement's status, each with its reason.
func (s *scenario) failed(want string) error {
	obj, err := s.get("crp/NAME")
	if err != nil {
		return err
	}
	var got []string
	clusters, _, _ := unstructured.NestedSlice(obj.Object, "status", "placementStatuses")
	for _, c := range clusters {
		objects, _, _ := unstructured.NestedSlice(c.(map[string]any), "failedPlacements")
		for _, o := range objects {
			o := &unstructured.Unstructured{Object: o.(map[string]any)}
			kind, _, _ := unstructured.NestedString(o.Object, "kind")
			namespace, _, _ := unstructured.NestedString(o.Object, "namespace")
			name, _, _ := unstructured.NestedString(o.Object, "name")
			reason, _, _ := unstructured.NestedString(o.Object, "condition", "reason")
			got = append(got, fmt.Sprintf("%s %s/%s %s", kind, namespace, name, reason))
		}
	}
	if strings.Join(got, ", ") != want {
		return fmt.Errorf("failedPlacements are %q, want %q", got, want)
	}
	return nil
}

// TestFailuresNameObjectAndMember: an object that a member refuses is in the status of run and
// placement, with the member and the reason.
func TestFailuresNameObjectAndMember(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		begin func(s *scenario)
		want  []string
		// failed is the object that the placement's status names, with the reason; "" if the member
		// gives no object.
		failed string
	}{
		{"forbidden", func(s *scenario) {
			s.place("type: External")
			// later it would not be, since it is not healthy
			s.eventually("the member to be picked", func() error {
				if n := len(s.placed()); n != 1 {
					return fmt.Errorf("%d members are", n)
				}
				return nil
			})
			s.route.set(s.name+"-1", s.members[0].ConfigFor(s.name+"-nobody"))
			s.route.lose(s.name + "-1")
		}, []string{"forbidden", "NAME-nobody"}, ""},
		{"no-such-kind", func(s *scenario) {
			s.letHubRead("NAME.example.com", "widgets")
			s.apply(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.NAME.example.com}
spec:
  group: NAME.example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}]`)
			s.eventually("the kind", func() error {
				return s.applyTo(s.admin, s.objects(`{apiVersion: NAME.example.com/v1, kind: Widget, metadata: {name: one, namespace: NAME}, spec: {}}`)[0])
			})
			// A namespace is searched with a list of kinds that may be a second old, and the server
			// lists a new kind with a delay.
			time.Sleep(3 * time.Second)
		}, []string{"Widget"}, "Widget NAME/one DecodingErred"},
		{"terminating-namespace", func(s *scenario) {
			s.terminating()
		}, []string{"Namespace.v1 NAME is being deleted"}, "Namespace /NAME ManifestApplyFailed"},
		{"immutable", func(s *scenario) {
			const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: job, namespace: NAME}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: IMAGE}]}}}}`
			s.apply(strings.ReplaceAll(job, "IMAGE", "two"))
			for _, text := range []string{`{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`, strings.ReplaceAll(job, "IMAGE", "one")} {
				if err := s.applyTo(s.member(1), s.objects(text)[0]); err != nil {
					s.Fatal(err)
				}
			}
		}, []string{"Job.v1.batch NAME/job", "spec.template: Invalid value: field is immutable; delete"}, "Job NAME/job ManifestApplyFailed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScenario(t, openVouched, 1)
			s.put("v1")
			c.begin(s)
			s.place("type: External")
			s.strategy("")
			s.scheduled()
			s.run("a", "")
			s.eventually("the statuses to tell", func() error {
				var problems []error
				for _, want := range c.want {
					problems = append(problems, s.says("csur/NAME-a", s.own(want)), s.says("crp/NAME", s.own(want)))
				}
				if c.failed != "" {
					problems = append(problems, s.failed(s.own(c.failed)))
				}
				return errors.Join(problems...)
			})
		})
	}
}

// letHubRead grants the hub a kind before the kind is defined. Until it is defined, placements of
// whole namespaces fail.
func (s *scenario) letHubRead(group, resource string) {
	s.Helper()
	s.apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: NAME-for-the-hub, labels: {slipway.dev/aggregate-to-hub-source: "true"}}
rules: [{apiGroups: [` + group + `], resources: [` + resource + `], verbs: [get, list, watch]}]`)
	k, err := kubernetes.NewForConfig(s.server.ConfigFor(hubUser))
	if err != nil {
		s.Fatal(err)
	}
	s.eventually("the hub to have the right", func() error {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Group: s.own(group), Resource: resource},
		}}
		review, err := k.AuthorizationV1().SelfSubjectAccessReviews().Create(s.Context(), review, metav1.CreateOptions{})
		if err == nil && !review.Status.Allowed {
			err = errors.New("it has not")
		}
		return err
	})
}

// terminating puts a namespace on the first member that is being deleted and does not disappear.
func (s *scenario) terminating() {
	s.Helper()
	c := s.member(1)
	for _, text := range []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: holds, namespace: NAME, finalizers: [example.com/holds]}}`,
	} {
		if err := s.applyTo(c, s.objects(text)[0]); err != nil {
			s.Fatal(err)
		}
	}
	s.deleteOn(c, "ns/NAME")
}

// TestObjectsOverTheLimitsAreNamed: an object whose JSON is twice the maximum size of a record or a
// snapshot object either reaches the member, or the status names it. No other object is silently
// delayed.
func TestObjectsOverTheLimitsAreNamed(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.put("v1")
	s.place("type: RollingUpdate")
	s.eventually("the small one", s.has(1, "config", "v1"))
	s.mayWarn("at most 1556480 are allowed")
	huge := s.objects(`{apiVersion: v1, kind: ConfigMap, metadata: {name: huge, namespace: NAME}}`)[0]
	huge.Object["data"] = map[string]any{"key": strings.Repeat(`"`, 1_000_000)}
	if err := s.applyTo(s.admin, huge); err != nil {
		t.Fatal(err)
	}
	s.eventually("the huge one, or its name in the status", func() error {
		if _, err := s.read(s.member(1), "cm/NAME/huge"); err == nil {
			return nil
		}
		return s.says("crp/NAME", "huge")
	})
	u, err := s.get("crp/NAME")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(strings.Join(messages(u.Object["status"]), "\n"))
	s.delete("cm/NAME/huge")
	s.put("v2")
	s.eventually("what comes after it", s.has(1, "config", "v2"))
}

// TestT21ManyRunsOfOnePlacement is threat T21: a flood of runs of one placement. They wait for each
// other, each is shown, and none makes more than a few Events.
func TestT21ManyRunsOfOnePlacement(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	n := 15
	if os.Getenv("SLIPWAY_SOAK") != "" {
		n = 1000
	}
	s.put("v1")
	s.place("type: External")
	s.strategy(`beforeStageTasks: [{type: Approval}]`)
	s.scheduled()
	for i := range n {
		s.run(fmt.Sprint(i), "")
	}
	for i := range n {
		s.comes(fmt.Sprintf("csur/NAME-%d", i), "Progressing", "False", "UpdateRunWaiting")
		if got := s.events(fmt.Sprintf("csur/NAME-%d", i), ""); len(got) > 10 {
			t.Errorf("run %d made %d Events: %v", i, len(got), got)
		}
	}
	list, err := s.admin.Resource(s.resourceOf("careq")).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, u := range list.Items {
		if strings.HasPrefix(u.GetName(), s.name) {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("%d runs ask for approval at once", asked)
	}
}
