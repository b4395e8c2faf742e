package hub_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTwoOfFourSpreadOverRegions plays a placement that picks two of four members in two regions.
// Runs scale it out and in. One override changes the image in one region, and another one removes
// an object in the other. A run of an earlier index brings the latest overrides, because
// overrides have no index.
func TestTwoOfFourSpreadOverRegions(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 4)
	for i, m := range w.members {
		w.patch("mc", m.name, fmt.Sprintf(`{"metadata":{"labels":{"region":%q}}}`, regionOf(i)))
	}
	w.start("hub")
	w.placeTwo()
	w.staged("")

	w.finish("run-1", "")
	w.have("west", "east")
	w.shows("app:west-1", "app:0")
	w.appliesTo("image-0", "without-0")
	w.broughtBy("run-1", "image-0", "without-0")
	w.policySays("2", "True")
	first := w.holders()

	w.patch("crp", w.name, `{"spec":{"policy":{"numberOfClusters":3}}}`)
	w.finish("run-2", "")
	w.policySays("3", "True")
	if now := w.holders(); len(now) != 3 || !slices.Contains(now, first[0]) || !slices.Contains(now, first[1]) {
		t.Errorf("after scaling out %v have it, want %v and one more", now, first)
	}
	w.patch("crp", w.name, `{"spec":{"policy":{"numberOfClusters":2}}}`)
	w.finish("run-3", "")
	w.have("west", "east")

	w.override("image", "app:west-2")
	w.eventually("the new override to be seen", func() error { return w.overrideVersion("image-1", "true", "app:west-2") })
	w.finish("run-4", "")
	w.shows("app:west-2", "app:0")
	w.appliesTo("image-1", "without-0")
	w.broughtBy("run-4", "image-1", "without-0")
	w.finish("run-5", "0")
	w.shows("app:west-2", "app:0") // overrides have no index: index 0 has the last ones
	w.appliesTo("image-1", "without-0")
	w.broughtBy("run-5", "image-1", "without-0")
	w.broughtBy("run-1", "image-0", "without-0")
	w.eventually("both versions of the override to be shown", func() error {
		return errors.Join(w.overrideVersion("image-0", "false", "app:west-1"), w.overrideVersion("image-1", "true", "app:west-2"))
	})

	w.patch("crp", w.name, `{"spec":{"policy":{"numberOfClusters":5}}}`)
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "False")
	w.policySays("5", "False")
}

// regionOf returns the region of member i: the first two are in the west.
func regionOf(i int) string { return []string{"west", "west", "east", "east"}[i] }

// placeTwo creates a namespace with a CronJob and a ConfigMap, a placement that picks two members
// of different regions, and overrides: in the west the CronJob has another image, in the east there
// is no ConfigMap.
func (w *hubEnv) placeTwo() {
	w.createText(`{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}`)
	w.createText(`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: v1}}`)
	w.createText(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: app, namespace: $NAME}
spec:
  schedule: "0 0 1 1 *"
  suspend: true
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: "app:0"}]}}}}
`)
	w.override("image", "app:west-1")
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: without, namespace: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: cm}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {region: east}}}]}
      overrideType: Delete
`)
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}]
  policy:
    placementType: PickN
    numberOfClusters: 2
    topologySpreadConstraints: [{topologyKey: region}]
  strategy: {type: External}
`)
}

// override creates or changes the override of the image in the west.
func (w *hubEnv) override(name, image string) {
	w.t.Helper()
	u := w.parse(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceOverride
metadata: {name: ` + name + `, namespace: $NAME}
spec:
  resourceSelectors: [{group: batch, version: v1, kind: CronJob, name: app}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: [{labelSelector: {matchLabels: {region: west}}}]}
      jsonPatchOverrides:
      - {op: replace, path: /spec/jobTemplate/spec/template/spec/containers/0/image, value: "` + image + `"}
`)
	_, err := w.on(w.client, "ro", w.name).Apply(w.t.Context(), name, u, metav1.ApplyOptions{FieldManager: "test", Force: true})
	if err != nil {
		w.t.Fatal(err)
	}
}

// finish makes a run and waits until it has succeeded.
func (w *hubEnv) finish(run, index string) {
	w.t.Helper()
	w.run(run, index)
	w.await("csur", run, "Succeeded", "True")
}

// imageOn returns the image on a member, or "" if it does not have the CronJob.
func (w *hubEnv) imageOn(m *member) (string, error) {
	obj, err := w.on(m.client, "cronjob", w.name).Get(w.t.Context(), "app", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	containers, _, err := unstructured.NestedSlice(obj.Object, "spec", "jobTemplate", "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		return "", fmt.Errorf("member %s: %d containers: %w", m.name, len(containers), err)
	}
	image, _ := containers[0].(map[string]any)["image"].(string)
	return image, nil
}

// holders returns the indexes of the members that have the CronJob.
func (w *hubEnv) holders() (out []int) {
	w.t.Helper()
	for i, m := range w.members {
		image, err := w.imageOn(m)
		if err != nil {
			w.t.Fatal(err)
		}
		if image != "" {
			out = append(out, i)
		}
	}
	return out
}

// have fails unless one member of each of the regions, and no other member, has the CronJob.
func (w *hubEnv) have(regions ...string) {
	w.t.Helper()
	var got []string
	for _, i := range w.holders() {
		got = append(got, regionOf(i))
	}
	if !slices.Equal(got, regions) {
		w.t.Errorf("members in %v have it, want one in each of %v", got, regions)
	}
}

// shows fails unless the members in the west have one image and the ConfigMap, and the members in
// the east the other image and no ConfigMap.
func (w *hubEnv) shows(west, east string) {
	w.t.Helper()
	for _, i := range w.holders() {
		want, value := west, "v1"
		if regionOf(i) == "east" {
			want, value = east, ""
		}
		if image, err := w.imageOn(w.members[i]); err != nil || image != want {
			w.t.Errorf("member %d in the %s has the image %q (%v), want %q", i, regionOf(i), image, err, want)
		}
		if err := w.holds(w.members[i], value); err != nil {
			w.t.Error(err)
		}
	}
}

// appliesTo waits until the status of the placement names one version of an override for the member
// in the west, and another one for the member in the east.
func (w *hubEnv) appliesTo(west, east string) {
	w.t.Helper()
	w.eventually("the overrides "+west+" and "+east+" in the status", func() error {
		obj, err := w.at("crp").Get(w.t.Context(), w.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got []string
		clusters, _, _ := unstructured.NestedSlice(obj.Object, "status", "placementStatuses")
		for _, c := range clusters {
			overrides, _ := c.(map[string]any)["applicableResourceOverrides"].([]any)
			got = append(got, fmt.Sprint(overrides))
		}
		var want []string
		for _, i := range w.holders() {
			name := map[string]string{"west": west, "east": east}[regionOf(i)]
			want = append(want, fmt.Sprintf("[map[name:%s namespace:%s]]", name, w.name))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %v, want %v", got, want)
		}
		return nil
	})
}

// broughtBy waits until the status of a run names one version of an override for the clusters in
// the west, and another one for the clusters in the east.
func (w *hubEnv) broughtBy(run, west, east string) {
	w.t.Helper()
	w.eventually("the overrides "+west+" and "+east+" in the status of "+run, func() error {
		obj, err := w.at("csur").Get(w.t.Context(), run, metav1.GetOptions{})
		if err != nil {
			return err
		}
		told := 0
		listed, _, _ := unstructured.NestedSlice(obj.Object, "status", "stagesStatus")
		for _, st := range listed {
			clusters, _, _ := unstructured.NestedSlice(st.(map[string]any), "clusters")
			for _, c := range clusters {
				i := slices.IndexFunc(w.members, func(m *member) bool { return m.name == c.(map[string]any)["clusterName"] })
				want := fmt.Sprintf("[map[name:%s namespace:%s]]", map[string]string{"west": west, "east": east}[regionOf(i)], w.name)
				if got := fmt.Sprint(c.(map[string]any)["resourceOverrideSnapshots"]); got != want {
					return fmt.Errorf("they are %s on %s, want %s", got, w.members[i].name, want)
				}
				told++
			}
		}
		if told == 0 {
			return errors.New("no cluster is listed")
		}
		return nil
	})
}

// policySays waits until the policy snapshot of the placement has the number of clusters, gives the
// reason for each member, and is fulfilled or not.
func (w *hubEnv) policySays(number, fulfilled string) {
	w.t.Helper()
	w.eventually("the policy snapshot to say "+number, func() error {
		obj, err := w.at("csps").Get(w.t.Context(), w.name+"-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := obj.GetAnnotations()["kubernetes-fleet.io/number-of-clusters"]; got != number {
			return fmt.Errorf("it picks %s", got)
		}
		if got, text := conditionOf(obj, "Scheduled"); got != fulfilled {
			return fmt.Errorf("scheduled is %s (%s)", got, text)
		}
		targets, _, _ := unstructured.NestedSlice(obj.Object, "status", "targetClusters")
		if len(targets) != len(w.members) {
			return fmt.Errorf("it tells of %d members", len(targets))
		}
		for _, target := range targets {
			if m := target.(map[string]any); m["reason"] == "" || m["clusterScore"] == nil {
				return fmt.Errorf("it does not say why: %v", m)
			}
		}
		return nil
	})
	if list, err := w.at("csps").List(w.t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		w.t.Errorf("there is more than one policy snapshot (%v): a number is no other policy", err)
	}
}

// overrideVersion returns an error unless an override has a version with the image that is the
// latest or not.
func (w *hubEnv) overrideVersion(name, latest, image string) error {
	obj, err := w.on(w.client, "ros", w.name).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if got := obj.GetLabels()["kubernetes-fleet.io/is-latest-snapshot"]; got != latest {
		return fmt.Errorf("%s: latest is %s", name, got)
	}
	if text := fmt.Sprint(obj.Object["spec"]); !strings.Contains(text, image) {
		return fmt.Errorf("%s has no image %s: %s", name, image, text)
	}
	return nil
}
