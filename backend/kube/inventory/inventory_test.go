package inventory_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
)

func members() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: "memberclusters"}
}

func member(name string, labels map[string]string) *unstructured.Unstructured {
	obj := kubetest.Object("cluster.kubernetes-fleet.io/v1beta1", "MemberCluster", "", name)
	obj.SetLabels(labels)
	return obj
}

func membersOf(t *testing.T, cfg *rest.Config, o inventory.Options) *inventory.Inventory {
	t.Helper()
	inv, err := inventory.NewMemberClusters(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inv.Close() })
	return inv
}

func clustersOf(t *testing.T, inv backend.Inventory) ([]placement.Cluster, error) {
	t.Helper()
	var out []placement.Cluster
	for c, err := range inv.Clusters(t.Context()) {
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// An inventory keeps the contract even if the kind is installed after the inventory was created.
func TestMemberClusters(t *testing.T) {
	h := theHub(t)
	inv := membersOf(t, h.Config(), inventory.Options{})
	_, err := clustersOf(t, inv)
	if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "install the CustomResourceDefinition memberclusters.cluster.kubernetes-fleet.io") {
		t.Errorf("without the definition: %v, want that it is missing", err)
	}
	h.Define(t, members(), "MemberCluster", "Cluster")
	var want []placement.Cluster
	for name, labels := range map[string]map[string]string{"member1": {"environment": "canary", "order": "2"}, "member2": nil} {
		made := h.Create(t, members(), member(name, labels))
		listed := map[string]string{"kubernetes-fleet.io/member-name": name}
		maps.Copy(listed, labels)
		want = append(want, placement.Cluster{Name: name, UID: string(made.GetUID()) + "/", Labels: listed})
	}
	kubetest.Eventually(t, "listing both clusters", func() bool { got, err := clustersOf(t, inv); return err == nil && len(got) == 2 })
	backendtest.TestInventory(t, inv, want...)
	backendtest.TestInventory(t, membersOf(t, h.Config(), inventory.Options{}), want...)
}

// The inventory announces clusters that join, leave, change their labels or are recreated. It does
// not announce heartbeats.
func TestMemberClustersThatChange(t *testing.T) {
	h := theHub(t)
	h.Define(t, members(), "MemberCluster", "Cluster")
	inv := membersOf(t, h.Config(), inventory.Options{})
	changes := kubetest.TicksOf(t, inv.WatchClusters)
	changes.Next(t, "the beginning")
	first := h.Create(t, members(), member("a", map[string]string{"x": "1"}))
	changes.Next(t, "a new cluster")
	h.Patch(t, members(), "", "a", `{"metadata":{"labels":{"x":"2"}}}`)
	changes.Next(t, "a label")
	if got, err := clustersOf(t, inv); err != nil || len(got) != 1 || got[0].Labels["x"] != "2" {
		t.Errorf("clusters = %v, %v, want one with its new label", got, err)
	}
	h.Patch(t, members(), "", "a", `{"status":{"heartbeat":1}}`, "status")
	h.Patch(t, members(), "", "a", `{"metadata":{"labels":{"kubernetes-fleet.io/member-name":"b"}}}`)
	h.Patch(t, members(), "", "a", `{"metadata":{"annotations":{"x":"y"}}}`)
	h.Create(t, members(), member("b", nil))
	changes.Next(t, "another cluster")
	if n := changes.Drain(); n != 0 {
		t.Errorf("what is no change was told %d times", n)
	}
	if got, err := clustersOf(t, inv); err != nil || got[0].Labels[inventory.MemberNameLabel] != "a" {
		t.Errorf("clusters = %v, %v, want the first with its own name in its label", got, err)
	}
	h.Remove(t, members(), "", "a")
	changes.Next(t, "a cluster that left")
	second := h.Create(t, members(), member("a", nil))
	changes.Next(t, "a cluster that was made again")
	got, err := clustersOf(t, inv)
	if err != nil || len(got) != 2 || got[0].UID != string(second.GetUID())+"/" || first.GetUID() == second.GetUID() {
		t.Errorf("clusters = %v, %v, want the new one", got, err)
	}
	h.Patch(t, members(), "", "a", `{"metadata":{"annotations":{"slipway.dev/kube-system-uid":"k"}}}`)
	changes.Next(t, "a pin")
	if got, err := clustersOf(t, inv); err != nil || !strings.HasSuffix(got[0].UID, "/k") {
		t.Errorf("clusters = %v, %v, want one that is pinned", got, err)
	}
	h.Patch(t, members(), "", "b", `{"metadata":{"finalizers":["example.com/wait"]}}`)
	h.Remove(t, members(), "", "b")
	changes.Next(t, "a cluster that leaves")
	if got, err := clustersOf(t, inv); err != nil || len(got) != 2 || got[0].Leaving || !got[1].Leaving {
		t.Errorf("clusters = %v, %v, want that the one which is being deleted is leaving", got, err)
	}
	h.Patch(t, members(), "", "b", `{"metadata":{"finalizers":null}}`)
	changes.Next(t, "a cluster that has left")
}

// A MemberCluster reports taints, properties and the data of its agent. A heartbeat alone is no
// change, but a missing heartbeat is one.
func TestMemberClustersThatReport(t *testing.T) {
	h := theHub(t)
	h.Define(t, members(), "MemberCluster", "Cluster")
	obj := member("a", nil)
	obj.Object["spec"] = map[string]any{"taints": []any{map[string]any{"key": "k", "value": "v", "effect": "NoSchedule"}, "none", map[string]any{"value": "keyless"}}}
	uid := string(h.Create(t, members(), obj).GetUID()) + "/"
	inv := membersOf(t, h.Config(), inventory.Options{})
	changes := kubetest.TicksOf(t, inv.WatchClusters)
	changes.Next(t, "the beginning")
	beat := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339) }
	report := func(conditions string, ago time.Duration) {
		h.Patch(t, members(), "", "a", `{"status":{
			"properties":{"kubernetes-fleet.io/node-count":{"value":"3","observationTime":"`+beat(ago)+`"},"no name":{"value":"1"},"words":{"value":"many"},"huge":{"value":"1e1000000000"},"flat":1},
			"resourceUsage":{"capacity":{"cpu":"8"},"allocatable":{"cpu":7,"memory":"1Gi"},"available":{"cpu":"1500m"}},
			"agentStatus":[{"type":"ServiceExportImportAgent","lastReceivedHeartbeat":"2001-01-01T00:00:00Z"},
				{"type":"MemberAgent","conditions":[`+conditions+`],"lastReceivedHeartbeat":"`+beat(ago)+`"}]}}`, "status")
	}
	want := placement.Cluster{
		Name: "a", UID: uid, Labels: map[string]string{inventory.MemberNameLabel: "a"}, Taints: []placement.Taint{{Key: "k", Value: "v", Effect: placement.NoSchedule}},
		Properties: map[string]resource.Quantity{
			"kubernetes-fleet.io/node-count":                   resource.MustParse("3"),
			"resources.kubernetes-fleet.io/total-cpu":          resource.MustParse("8"),
			"resources.kubernetes-fleet.io/allocatable-cpu":    resource.MustParse("7"),
			"resources.kubernetes-fleet.io/allocatable-memory": resource.MustParse("1Gi"),
			"resources.kubernetes-fleet.io/available-cpu":      resource.MustParse("1.5"),
		},
	}
	report("", time.Second)
	kubetest.Eventually(t, "the properties", func() bool { got, err := clustersOf(t, inv); return err == nil && len(got[0].Properties) > 0 })
	backendtest.TestInventory(t, inv, want)
	report(`{"type":"Joined","status":"True"},{"type":"Healthy","status":"False","reason":"Unreachable","message":"no route"}`, 0)
	changes.Next(t, "a cluster that is not healthy")
	want.Unhealthy = "its condition Healthy is False: Unreachable"
	backendtest.TestInventory(t, inv, want)
	report(`{"type":"Healthy","status":"Unknown"}`, 0)
	changes.Next(t, "a cluster that is healthy again")
	report(`{"type":"Healthy","status":"Unknown"}`, time.Second)
	if n := changes.Drain(); n != 0 {
		t.Errorf("a heartbeat was told %d times", n)
	}
	report("", 5*time.Minute-2*time.Second)
	changes.Next(t, "a heartbeat that does not come")
	want.Unhealthy = "its agent was last heard of more than 5m0s ago"
	backendtest.TestInventory(t, inv, want)
	report("", 0)
	changes.Next(t, "a heartbeat that comes again")
	want.Unhealthy = ""
	backendtest.TestInventory(t, inv, want)
}

// TestTheNamespacesOfMemberClusters: the namespaces are known if a condition reports their
// collection, even if there are none.
func TestTheNamespacesOfMemberClusters(t *testing.T) {
	h := theHub(t)
	h.Define(t, members(), "MemberCluster", "Cluster")
	h.Create(t, members(), member("a", nil))
	inv := membersOf(t, h.Config(), inventory.Options{})
	for _, c := range []struct {
		status string
		want   []string
	}{
		{`{"namespaces":{"web":""}}`, nil},
		{`{"conditions":[{"type":"NamespaceCollectionSucceeded","status":"False"}]}`, []string{"web"}},
		{`{"namespaces":{"web":null}}`, []string{}},
		{`{"namespaces":{"b":"work","a":""}}`, []string{"a", "b"}},
		{`{"conditions":null}`, nil},
	} {
		h.Patch(t, members(), "", "a", `{"status":`+c.status+`}`, "status")
		kubetest.Eventually(t, c.status, func() bool {
			got, err := clustersOf(t, inv)
			return err == nil && (got[0].Namespaces == nil) == (c.want == nil) && slices.Equal(got[0].Namespaces, c.want)
		})
	}
}

// A name that no cluster can have is logged, and stops no other cluster.
func TestMemberClustersWithOtherNames(t *testing.T) {
	h := theHub(t)
	h.Define(t, members(), "MemberCluster", "Cluster")
	h.Create(t, members(), member("a.b", nil))
	h.Create(t, members(), member("good", nil))
	var log bytes.Buffer
	inv := membersOf(t, h.Config(), inventory.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	got, err := clustersOf(t, inv)
	if err != nil || len(got) != 1 || got[0].Name != "good" {
		t.Errorf("clusters = %v, %v, want the good one", got, err)
	}
	_ = inv.Close()
	if !strings.Contains(log.String(), "name=a.b") {
		t.Errorf("log = %q, want the name", &log)
	}
	if _, err := clustersOf(t, inv); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("after Close: %v", err)
	}
}

// ending answers a watch with an empty stream that ends.
func ending(_ http.RoundTripper, r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: http.NoBody,
	}, nil
}

// If the hub cannot be watched, calls do not return old data. Expired versions and ended watches
// do not make the data unknown.
func TestInventoryErrorsSurface(t *testing.T) {
	h := theHub(t)
	h.Define(t, members(), "MemberCluster", "Cluster")
	var faults kubeenv.Faults
	cfg := h.Config()
	cfg.Wrap(faults.Wrap)
	inv := membersOf(t, cfg, inventory.Options{})
	changes := kubetest.TicksOf(t, inv.WatchClusters)
	changes.Next(t, "the beginning")

	gone := faults.Add(kubeenv.Rule{Verb: "watch", Path: "/memberclusters", Fault: kubeenv.Gone()})
	kubetest.Eventually(t, "an expired version", func() bool { faults.CutWatches(); return gone() == 1 })
	h.Create(t, members(), member("a", nil))
	changes.Next(t, "a cluster after an expired version")

	faults.Add(kubeenv.Rule{Path: "/memberclusters", Verb: "list", Times: -1, Fault: kubeenv.Answer(500, metav1.StatusReasonInternalError)})
	faults.Add(kubeenv.Rule{Path: "/memberclusters", Verb: "watch", Times: -1, Fault: ending})
	var err error
	kubetest.Eventually(t, "an error", func() bool { faults.CutWatches(); _, err = clustersOf(t, inv); return err != nil })
	kubetest.WantTransient(t, err)
	if err := <-changes.End; err == nil || errors.Is(err, backend.ErrPermanent) {
		t.Errorf("the watch ended with %v", err)
	}
	faults.Heal()
	kubetest.Eventually(t, "the clusters", func() bool { got, err := clustersOf(t, inv); return err == nil && len(got) == 1 })
}

func TestInventoryThatIsForbidden(t *testing.T) {
	h := theHub(t)
	h.Define(t, members(), "MemberCluster", "Cluster")
	_, err := clustersOf(t, membersOf(t, h.ConfigFor("nobody"), inventory.Options{}))
	if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), `User "nobody"`) ||
		!strings.Contains(err.Error(), "grant this user list and watch on memberclusters.cluster.kubernetes-fleet.io") {
		t.Errorf("error = %v, want the right that is missing", err)
	}
}

func TestClusterProfiles(t *testing.T) {
	h := theHub(t)
	profiles := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	h.Define(t, profiles, "ClusterProfile", "Namespaced")
	ns, other := h.Namespace(t), h.Namespace(t)
	profile := kubetest.Object("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", ns, "one")
	profile.SetLabels(map[string]string{"x-k8s.io/cluster-manager": "m", "region": "north"})
	made := h.Create(t, profiles, profile)
	h.Create(t, profiles, kubetest.Object("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", other, "two"))
	h.Patch(t, profiles, ns, "one", `{"status":{"properties":[
		{"name":"location","value":"apac"},{"name":"region","value":"south"},{"name":"bad key","value":"v"},{"name":"long","value":"a b"},{"name":"nodes","value":"3"}],
		"conditions":[{"type":"ControlPlaneHealthy","status":"False","reason":"Down"}]}}`, "status")
	inv, err := inventory.NewClusterProfiles(h.Config(), ns, inventory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inv.Close() })
	backendtest.TestInventory(t, inv, placement.Cluster{
		Name: "one", UID: string(made.GetUID()) + "/",
		Labels:     map[string]string{"x-k8s.io/cluster-manager": "m", "region": "north", "location": "apac", "nodes": "3"},
		Properties: map[string]resource.Quantity{"nodes": resource.MustParse("3")}, Unhealthy: "its condition ControlPlaneHealthy is False: Down",
	})
	if _, err := inventory.NewClusterProfiles(h.Config(), "", inventory.Options{}); !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("of all namespaces: %v", err)
	}
}

// Excessive data in a MemberCluster affects only its own cluster, which receives nothing new and
// states the reason.
func TestOversizedMemberClusterAffectsNoOther(t *testing.T) {
	h := theHub(t)
	h.Define(t, members(), "MemberCluster", "Cluster")
	labels := map[string]string{"environment": "canary"}
	for i := range 2 * placement.MaxLabels {
		labels[fmt.Sprintf("k%d", i)] = "v"
	}
	h.Create(t, members(), member("many", labels))
	pinned := member("pinned", nil)
	pinned.SetAnnotations(map[string]string{inventory.KubeSystemUID: strings.Repeat("x", 100_000)})
	h.Create(t, members(), pinned)
	h.Create(t, members(), member("status", nil))
	properties := make([]string, 5_000)
	for i := range properties {
		properties[i] = fmt.Sprintf(`"p%04d":{"value":"1"}`, i)
	}
	h.Patch(t, members(), "", "status", `{"status":{"properties":{`+strings.Join(properties, ",")+`,"huge":{"value":"`+strings.Repeat("9", 100_000)+`"}},
		"conditions":[{"type":"Joined","status":"False","reason":"`+strings.Repeat("r", 100_000)+`"}]}}`, "status")
	h.Create(t, members(), member("plain", map[string]string{"environment": "canary"}))
	inv := membersOf(t, h.Config(), inventory.Options{})
	var got []placement.Cluster
	kubetest.Eventually(t, "listing all clusters", func() (ok bool) { got, _ = clustersOf(t, inv); return len(got) == 4 })
	for i, want := range []struct {
		name, why                string
		labels, properties, uids int
	}{
		{"many", "too much is said of it: 2002 labels, 0 too long, at most 1000", placement.MaxLabels, 0, 64},
		{"pinned", "too much is said of it: a UID of 100037 bytes that is none", 1, 0, 64},
		{"plain", "", 2, 0, 64},
		{"status", "its condition Joined is False: rrr", 1, placement.MaxProperties, 64},
	} {
		c := got[i]
		if c.Name != want.name || !strings.HasPrefix(c.Unhealthy, want.why) || want.why == "" && c.Unhealthy != "" || len(c.Unhealthy) > placement.MaxUnhealthy+3 ||
			len(c.Labels) != want.labels || len(c.Properties) != want.properties || len(c.UID) > want.uids {
			t.Errorf("%s: not healthy for %q, %d labels, %d properties, a UID of %d bytes, want %+v", c.Name, c.Unhealthy, len(c.Labels), len(c.Properties), len(c.UID), want)
		}
	}
}

// A status cannot crowd out the labels of its object.
func TestClusterProfileStatusLabelsAreBounded(t *testing.T) {
	h := theHub(t)
	profiles := schema.GroupVersionResource{Group: "multicluster.x-k8s.io", Version: "v1alpha1", Resource: "clusterprofiles"}
	h.Define(t, profiles, "ClusterProfile", "Namespaced")
	ns := h.Namespace(t)
	profile := kubetest.Object("multicluster.x-k8s.io/v1alpha1", "ClusterProfile", ns, "one")
	profile.SetLabels(map[string]string{"zone": "z", "region": "north"})
	h.Create(t, profiles, profile)
	properties := make([]string, 3*placement.MaxLabels)
	for i := range properties {
		properties[i] = fmt.Sprintf(`{"name":"a%05d","value":"v"}`, i)
	}
	h.Patch(t, profiles, ns, "one", `{"status":{"properties":[`+strings.Join(properties, ",")+`,{"name":"zone","value":"mine"}]}}`, "status")
	inv, err := inventory.NewClusterProfiles(h.Config(), ns, inventory.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inv.Close() })
	got, err := clustersOf(t, inv)
	if err != nil || len(got) != 1 || len(got[0].Labels) != placement.MaxLabels || got[0].Labels["zone"] != "z" || got[0].Labels["region"] != "north" || got[0].Unhealthy != "" {
		t.Errorf("clusters = %.500v, %v, want one that is healthy, with its own labels", got, err)
	}
}

func TestKubeconfigClusters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("apiVersion: v1\nkind: Config\ncontexts:\n- {name: b, context: {cluster: c, user: u}}\n- {name: a, context: {cluster: c, user: u}}\n")
	labels := map[string]map[string]string{"a": {"environment": "canary"}}
	a := placement.Cluster{Name: "a", Labels: map[string]string{"environment": "canary", inventory.LabelContext: "a"}}
	b := placement.Cluster{Name: "b", Labels: map[string]string{inventory.LabelContext: "b"}}
	backendtest.TestInventory(t, inventory.KubeconfigClusters{Path: path, Labels: labels}, a, b)
	backendtest.TestInventory(t, inventory.KubeconfigClusters{Path: path, Contexts: []string{"b", "b"}}, b)
	backendtest.TestInventory(t, inventory.KubeconfigClusters{Path: path, Except: []string{"a"}}, b)
	backendtest.TestInventory(t, inventory.KubeconfigClusters{Path: path, Contexts: []string{"b"}, Except: []string{"b"}}, b)
	fails := func(k inventory.KubeconfigClusters, want string, permanent bool) {
		t.Helper()
		_, err := clustersOf(t, k)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, backend.ErrPermanent) != permanent {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
	fails(inventory.KubeconfigClusters{Path: path, Contexts: []string{"c"}}, `there is no context "c"`, true)
	fails(inventory.KubeconfigClusters{Path: path + "x"}, "no such file", false)
	write("apiVersion: v1\nkind: Config\ncontexts:\n- {name: b, context: {cluster: c, user: u}}\n- {name: 'arn:aws:eks:x', context: {cluster: c, user: u}}\n")
	fails(inventory.KubeconfigClusters{Path: path, Contexts: []string{"b", "arn:aws:eks:x"}}, `context "arn:aws:eks:x" cannot be a cluster, because its name is no DNS label: rename it`, true)
	var unusable []string
	got, err := clustersOf(t, inventory.KubeconfigClusters{Path: path, Unusable: func(name string) { unusable = append(unusable, name) }})
	if err != nil || len(got) != 1 || got[0].Name != "b" || !slices.Equal(unusable, []string{"arn:aws:eks:x"}) {
		t.Errorf("clusters %v, %v, unusable %q", got, err, unusable)
	}
	write("users: [{name: u, user: {token: hunter2, token: hunter2}}]\n\t")
	_, err = clustersOf(t, inventory.KubeconfigClusters{Path: path})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error = %v, want one without credentials", err)
	}
}
