package status

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

// taken returns a snapshot of objects in the form of the store.
func taken(t testing.TB, index int, objs ...map[string]any) *SnapshotFacts {
	t.Helper()
	list := make([]*unstructured.Unstructured, len(objs))
	for i := range objs {
		list[i] = snapshot.Clean(&unstructured.Unstructured{Object: objs[i]})
	}
	set, err := snapshot.NewSet(list)
	if err != nil {
		t.Fatal(err)
	}
	return &SnapshotFacts{
		Placement: "example-placement", UID: "e7d59513-b3b6-4904-864a-c70678fd6f65",
		Snapshot: snapshot.New("example-placement", index, set, "", clock(t, "21:26:54")), Latest: true, Bodies: set.Bodies,
		Tag: func(digest string) string { return snapshot.Digest([]byte("tag " + digest)) },
	}
}

func resourceOf(apiVersion, kind, name string, rest map[string]any) map[string]any {
	out := map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "namespace": "test-namespace"}}
	maps.Copy(out, rest)
	return out
}

func shownBy(t testing.TB, f *SnapshotFacts) []*unstructured.Unstructured {
	t.Helper()
	out, err := ResourceSnapshots(f)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestASnapshotIsShownAsInTheTutorial(t *testing.T) {
	f := taken(t, 1,
		resourceOf("v1", "ConfigMap", "test-cm", map[string]any{"data": map[string]any{"key": "value2"}}),
		map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": "test-namespace", "labels": map[string]any{"kubernetes.io/metadata.name": "test-namespace"}},
			"spec":     map[string]any{"finalizers": []any{"kubernetes"}},
		})
	got := shownBy(t, f)
	if len(got) != 1 {
		t.Fatalf("%d objects", len(got))
	}
	want := golden(t, "tutorial-snapshot.yaml")
	delete(want["metadata"].(map[string]any)["annotations"].(map[string]any), api.AnnotationHash)
	annotations := got[0].GetAnnotations()
	if annotations[api.AnnotationHash] != f.Tag(f.Snapshot.Set) {
		t.Errorf("hash %s", annotations[api.AnnotationHash])
	}
	delete(annotations, api.AnnotationHash)
	got[0].SetAnnotations(annotations)
	if diff := cmp.Diff(want, got[0].Object); diff != "" {
		t.Errorf("(-tutorial +got):\n%s", diff)
	}
}

func TestASnapshotWithoutResourcesHasAMaster(t *testing.T) {
	f := taken(t, 0)
	f.Latest, f.Namespace = false, "web"
	got := shownBy(t, f)
	if len(got) != 1 || got[0].GetName() != "example-placement-0-snapshot" || got[0].GetKind() != "ResourceSnapshot" ||
		got[0].GetOwnerReferences()[0].Kind != "ResourcePlacement" || got[0].GetLabels()[api.LabelLatest] != "false" {
		t.Errorf("got %v", got)
	}
	if list, ok := got[0].Object["spec"].(map[string]any)["selectedResources"].([]any); !ok || len(list) != 0 {
		t.Errorf("resources %v", list)
	}
}

func TestSnapshotOver800KiBIsSplit(t *testing.T) {
	sized := func(name string, n int) map[string]any {
		return resourceOf("v1", "ConfigMap", name, map[string]any{"data": map[string]any{"x": strings.Repeat("x", n)}})
	}
	f := taken(t, 3, sized("a", 300<<10), sized("b", 300<<10), sized("c", 300<<10), sized("d", 900<<10), sized("e", 1), sized("f", 1200<<10))
	got := shownBy(t, f)
	var names []string
	var held [][]string
	for i, u := range got {
		names = append(names, u.GetName())
		var in []string
		for _, r := range u.Object["spec"].(map[string]any)["selectedResources"].([]any) {
			in = append(in, (&unstructured.Unstructured{Object: r.(map[string]any)}).GetName())
		}
		held = append(held, in)
		b, err := json.Marshal(u.Object)
		if err != nil || len(b) > 1<<20 {
			t.Errorf("%s has %d bytes, %v", u.GetName(), len(b), err)
		}
		labels := u.GetLabels()
		if labels[api.LabelResourceIndex] != "3" || labels[api.LabelParent] != "example-placement" || (labels[api.LabelLatest] != "") != (i == 0) {
			t.Errorf("%s has labels %v", u.GetName(), labels)
		}
		if i > 0 && u.GetAnnotations()[api.AnnotationPart] != fmt.Sprint(i-1) {
			t.Errorf("%s has annotations %v", u.GetName(), u.GetAnnotations())
		}
	}
	if diff := cmp.Diff([]string{"example-placement-3-snapshot", "example-placement-3-0", "example-placement-3-1", "example-placement-3-2"}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{"a", "b"}, {"c"}, {"d"}, {"e", "f"}}, held); diff != "" {
		t.Error(diff)
	}
	if got[0].GetAnnotations()[api.AnnotationParts] != "4" {
		t.Errorf("the master has annotations %v", got[0].GetAnnotations())
	}
	last := got[3].Object["spec"].(map[string]any)["selectedResources"].([]any)[1].(map[string]any)
	if last["data"] != nil || !strings.Contains(fmt.Sprint(last["metadata"]), "bytes, tag "+f.Tag(snapshot.Digest(f.Bodies[len(f.Bodies)-1]))) {
		t.Errorf("a resource that is too big is shown as %.300v", last)
	}
}

func TestALargeResourceThatComesFirstIsInTheMaster(t *testing.T) {
	f := taken(t, 0, resourceOf("v1", "ConfigMap", "a", map[string]any{"data": map[string]any{"x": strings.Repeat("x", 900<<10)}}))
	if got := shownBy(t, f); len(got) != 1 {
		t.Errorf("%d objects", len(got))
	}
}

func TestSnapshotObjectsHaveNoSecretValues(t *testing.T) {
	secret := resourceOf("v1", "Secret", "s", map[string]any{
		"type": "Opaque", "data": map[string]any{"password": "aHVudGVyMg=="}, "stringdata": map[string]any{"password": "hunter2"}, "extra": "hunter2",
	})
	secret["metadata"].(map[string]any)["annotations"] = map[string]any{"copy": "hunter2"}
	secret["metadata"].(map[string]any)["labels"] = map[string]any{"app": "web"}
	f := taken(t, 0, secret, resourceOf("example.com/v1", "Envelope", "e", map[string]any{"data": map[string]any{"s.yaml": secret, "list": []any{secret}}}))
	before := fmt.Sprint(secret)
	got, err := json.Marshal(shownBy(t, f))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"hunter2", "aHVudGVyMg"} {
		if strings.Contains(string(got), value) {
			t.Errorf("%s is shown: %s", value, got)
		}
	}
	for _, digest := range []string{f.Snapshot.Digest, f.Snapshot.Set, snapshot.Digest(f.Bodies[0]), snapshot.Digest(f.Bodies[1])} {
		if strings.Contains(string(got), digest) {
			t.Errorf("digest %s tells whether a guess is right: %s", digest, got)
		}
	}
	for _, kept := range []string{`"password":"(redacted)"`, `"type":"Opaque"`, `"app":"web"`} {
		if n := strings.Count(string(got), kept); n < 3 {
			t.Errorf("%s is there %d times: %s", kept, n, got)
		}
	}
	if fmt.Sprint(secret) != before {
		t.Error("the resource itself was changed")
	}
}

func TestABodyThatIsNoObjectIsAnErrorThatNamesTheSnapshot(t *testing.T) {
	f := taken(t, 2)
	f.Bodies = [][]byte{[]byte(`{"kind":`)}
	if _, err := ResourceSnapshots(f); err == nil || !strings.Contains(err.Error(), "example-placement-2-snapshot") {
		t.Errorf("got %v", err)
	}
}

func TestAPolicySnapshotNamesAThousandClustersAndTheirNumber(t *testing.T) {
	f := &PolicyFacts{
		Placement: "example-placement", UID: "u", Generation: 4, Latest: true, Decided: clock(t, "10:00:00"),
		Policy: &v1beta1.PlacementPolicy{PlacementType: v1beta1.PickAllPlacementType}, Decision: &Selection{},
	}
	f.Decision.Index, f.Decision.PolicyDigest = 2, "abc"
	for i := range 1001 {
		f.Decision.Clusters = append(f.Decision.Clusters, fmt.Sprintf("m%04d", i))
	}
	got, err := PolicySnapshot(f)
	if err != nil {
		t.Fatal(err)
	}
	targets := got.Object["status"].(map[string]any)["targetClusters"].([]any)
	if len(targets) != 1000 {
		t.Errorf("%d targets", len(targets))
	}
	if diff := cmp.Diff(map[string]any{"clusterName": "m0000", "selected": true, "reason": "picked by scheduling policy"}, targets[0]); diff != "" {
		t.Error(diff)
	}
	delete(got.Object["status"].(map[string]any), "targetClusters")
	listing := got.Object["status"].(map[string]any)["clusterListing"]
	if diff := cmp.Diff(map[string]any{"listed": int64(1000), "total": int64(1001), "message": "Clusters that were picked are listed before those that were not; a preview of the selection has all"}, listing); diff != "" {
		t.Error(diff)
	}
	delete(got.Object["status"].(map[string]any), "clusterListing")
	want := map[string]any{
		"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterSchedulingPolicySnapshot",
		"metadata": map[string]any{
			"name": "example-placement-2",
			"labels": map[string]any{
				"kubernetes-fleet.io/policy-index": "2", "kubernetes-fleet.io/is-latest-snapshot": "true", "kubernetes-fleet.io/parent-CRP": "example-placement",
			},
			"annotations": map[string]any{"kubernetes-fleet.io/number-of-clusters": "1001", "kubernetes-fleet.io/CRP-generation": "4"},
			"ownerReferences": []any{map[string]any{
				"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "name": "example-placement", "uid": "u",
				"controller": true, "blockOwnerDeletion": true,
			}},
		},
		"spec": map[string]any{"policy": map[string]any{"placementType": "PickAll"}, "policyHash": "YWJj"},
		"status": map[string]any{"observedCRPGeneration": int64(4), "conditions": []any{map[string]any{
			"type": "Scheduled", "status": "True", "reason": "SchedulingPolicyFulfilled", "observedGeneration": int64(1), "lastTransitionTime": "2025-07-22T10:00:00Z",
			"message": "found all cluster needed as specified by the scheduling policy, found 1001 cluster(s)",
		}}},
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheKindsOfTheAPIAndTheirTwins(t *testing.T) {
	var got []string
	for _, base := range []string{api.PlacementKind, api.SnapshotKind, api.PolicyKind, api.StrategyKind, api.RunKind, api.ApprovalKind, api.OverrideKind, api.OverrideSnapshotKind} {
		for _, in := range []api.Scope{api.ClusterScope, api.NamespaceScope} {
			got = append(got, in.GVK(base).Kind+" "+in.GVR(base).GroupResource().String())
		}
	}
	got = append(got, api.MemberGVK().Kind+" "+api.MemberGVR().GroupResource().String())
	want := []string{
		"ClusterResourcePlacement clusterresourceplacements.placement.kubernetes-fleet.io", "ResourcePlacement resourceplacements.placement.kubernetes-fleet.io",
		"ClusterResourceSnapshot clusterresourcesnapshots.placement.kubernetes-fleet.io", "ResourceSnapshot resourcesnapshots.placement.kubernetes-fleet.io",
		"ClusterSchedulingPolicySnapshot clusterschedulingpolicysnapshots.placement.kubernetes-fleet.io", "SchedulingPolicySnapshot schedulingpolicysnapshots.placement.kubernetes-fleet.io",
		"ClusterStagedUpdateStrategy clusterstagedupdatestrategies.placement.kubernetes-fleet.io", "StagedUpdateStrategy stagedupdatestrategies.placement.kubernetes-fleet.io",
		"ClusterStagedUpdateRun clusterstagedupdateruns.placement.kubernetes-fleet.io", "StagedUpdateRun stagedupdateruns.placement.kubernetes-fleet.io",
		"ClusterApprovalRequest clusterapprovalrequests.placement.kubernetes-fleet.io", "ApprovalRequest approvalrequests.placement.kubernetes-fleet.io",
		"ClusterResourceOverride clusterresourceoverrides.placement.kubernetes-fleet.io", "ResourceOverride resourceoverrides.placement.kubernetes-fleet.io",
		"ClusterResourceOverrideSnapshot clusterresourceoverridesnapshots.placement.kubernetes-fleet.io", "ResourceOverrideSnapshot resourceoverridesnapshots.placement.kubernetes-fleet.io",
		"MemberCluster memberclusters.cluster.kubernetes-fleet.io",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
