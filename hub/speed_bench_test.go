package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend/kube"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// speed is a hub with members that a benchmark times.
type speed struct {
	b       *testing.B
	hub     *hub.Hub
	config  *rest.Config
	client  dynamic.Interface
	members []*rest.Config
	// onHub and onMembers count requests.
	onHub, onMembers kubeenv.Counts
	names            []string
}

// newSpeed starts API servers and a hub. Members are label sets: element i is that of member i, on
// server i modulo servers.
func newSpeed(b *testing.B, servers int, controllers bool, labels []map[string]string) *speed {
	b.Helper()
	s := &speed{b: b}
	env := kubeenv.ForTest(b)
	s.config = env.Server(b, "hub").Config()
	for i := range servers {
		server := env.Server(b, fmt.Sprintf("member%d", i))
		if controllers {
			s.must(server.StartControllerManager(b.Context(), "deployment-controller", "namespace-controller"))
		}
		s.members = append(s.members, server.Config())
	}
	s.must(manifests.Install(b.Context(), s.config, manifests.Options{}))
	var err error
	s.client, err = dynamic.NewForConfig(quick(s.config))
	s.must(err)
	for i, l := range labels {
		name := fmt.Sprintf("m%04d", i)
		s.names = append(s.names, name)
		s.create("cluster.kubernetes-fleet.io", "memberclusters", "MemberCluster", name, l, map[string]any{})
	}
	s.start(servers, len(labels) > servers)
	return s
}

// start runs the hub until the benchmark ends.
func (s *speed) start(servers int, shared bool) {
	config := rest.CopyConfig(s.config)
	config.Wrap(s.onHub.Wrap)
	counted := make([]*rest.Config, len(s.members))
	for i := range s.members {
		counted[i] = rest.CopyConfig(s.members[i])
		counted[i].Wrap(s.onMembers.Wrap)
	}
	of := func(member string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(member, "m"))
		return n % servers
	}
	c := hub.Config{Rest: config, AlwaysLead: true, Collect: 100 * time.Millisecond, Dialer: &tenants{counted, of, kube.ConnOptions{QPS: -1}}}
	if !shared {
		c.Dialer = kube.NewDialer(func(_ context.Context, m placement.Cluster) (*rest.Config, error) { return counted[of(m.Name)], nil }, kube.ConnOptions{QPS: -1})
	}
	var err error
	s.hub, err = hub.New(c)
	s.must(err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.hub.Run(ctx) }()
	s.b.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			s.b.Error(err)
		}
	})
}

func (s *speed) must(err error) {
	s.b.Helper()
	if err != nil {
		s.b.Fatal(err)
	}
}

func quick(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.QPS = -1
	return c
}

func (s *speed) create(group, resource, kind, name string, labels map[string]string, spec map[string]any) {
	s.b.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": group + "/v1beta1", "kind": kind, "spec": spec}}
	u.SetName(name)
	u.SetLabels(labels)
	gvr := schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: resource}
	_, err := s.client.Resource(gvr).Create(s.b.Context(), u, metav1.CreateOptions{})
	s.must(err)
}

const placementGroup = "placement.kubernetes-fleet.io"

// place declares a placement of a namespace.
func (s *speed) place(namespace string) {
	s.create(placementGroup, "clusterresourceplacements", "ClusterResourcePlacement", "web", nil, map[string]any{
		"resourceSelectors": []any{map[string]any{"group": "", "version": "v1", "kind": "Namespace", "name": namespace}},
		"policy":            map[string]any{"placementType": "PickAll"},
		"strategy":          map[string]any{"type": "External"},
	})
}

func (s *speed) strategy(stages ...any) {
	s.create(placementGroup, "clusterstagedupdatestrategies", "ClusterStagedUpdateStrategy", "order", nil, map[string]any{"stages": stages})
}

func (s *speed) run(name string) {
	s.create(placementGroup, "clusterstagedupdateruns", "ClusterStagedUpdateRun", name, nil, map[string]any{
		"placementName": "web", "stagedRolloutStrategyName": "order",
	})
}

// await waits for a run without asking the API server.
func (s *speed) await(name string) fleet.Status {
	s.b.Helper()
	ctx, cancel := context.WithTimeout(s.b.Context(), 5*time.Minute)
	defer cancel()
	for {
		if _, err := s.hub.Engine().Status(ctx, name); err == nil {
			break
		}
		select {
		case <-ctx.Done():
			s.b.Fatalf("run %s did not begin", name)
		case <-time.After(5 * time.Millisecond):
		}
	}
	status, err := s.hub.Engine().Wait(ctx, name)
	s.must(err)
	if status.Run.State != stages.Completed {
		s.b.Fatalf("run %s is %s: %s", name, status.Run.State, status.Run.Reason)
	}
	return status
}

// snapshots waits for the placement to have so many.
func (s *speed) snapshots(n int) {
	s.b.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		all, err := s.hub.Engine().Snapshots(s.b.Context(), "web")
		if err == nil && len(all) > 0 && all[len(all)-1].Index >= n-1 {
			return
		}
		if time.Now().After(deadline) {
			s.b.Fatalf("there is no snapshot %d: %v", n-1, err)
		}
	}
}

// content makes the namespace and its objects on the hub.
func (s *speed) content(namespace string, configMaps int) *kubernetes.Clientset {
	s.b.Helper()
	client, err := kubernetes.NewForConfig(quick(s.config))
	s.must(err)
	_, err = client.CoreV1().Namespaces().Create(s.b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	s.must(err)
	for i := range configMaps {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(s.b.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("config%d", i)}, Data: map[string]string{"key": "value0"},
		}, metav1.CreateOptions{})
		s.must(err)
	}
	return client
}

func edit(b *testing.B, client *kubernetes.Clientset, namespace, value string) {
	b.Helper()
	patch := []byte(`{"data":{"key":"` + value + `"}}`)
	if _, err := client.CoreV1().ConfigMaps(namespace).Patch(b.Context(), "config0", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		b.Fatal(err)
	}
}

// cpu is what the process has used.
func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// peakMemory is the most memory that the process ever had, in MiB.
func peakMemory() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if n, _ := fmt.Sscanf(line, "VmHWM: %f kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}

// BenchmarkTutorial is the tutorial's rollout on real API servers, three members, from the creation of
// the run to its success, approved as soon as that is asked for and without a timed wait.
func BenchmarkTutorial(b *testing.B) {
	s := newSpeed(b, 3, false, []map[string]string{
		{"environment": "canary", "order": "2"}, {"environment": "staging"}, {"environment": "canary", "order": "1"},
	})
	client := s.content("test-namespace", 1)
	s.strategy(stageOf("staging", 1), map[string]any{
		"name": "canary", "sortingLabelKey": "order", "labelSelector": selecting("canary"),
		"afterStageTasks": []any{map[string]any{"type": "Approval"}},
	})
	s.place("test-namespace")
	s.snapshots(1)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go approve(ctx, s.client)
	n := 0
	var took time.Duration
	for b.Loop() {
		n++
		edit(b, client, "test-namespace", fmt.Sprintf("value%d", n))
		s.snapshots(n + 1)
		begun := time.Now()
		s.run(fmt.Sprintf("run-%d", n))
		s.await(fmt.Sprintf("run-%d", n))
		took += time.Since(begun)
	}
	b.ReportMetric(took.Seconds()/float64(n), "s/run")
}

// approve approves whatever is asked for, as soon as that can be seen.
func approve(ctx context.Context, client dynamic.Interface) {
	gvr := schema.GroupVersionResource{Group: placementGroup, Version: "v1beta1", Resource: "clusterapprovalrequests"}
	w, err := client.Resource(gvr).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	defer w.Stop()
	patch, _ := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": "Approved", "status": "True", "reason": "fine", "message": "", "observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z",
	}}}})
	done := map[types.UID]bool{}
	for e := range w.ResultChan() {
		if u, ok := e.Object.(*unstructured.Unstructured); ok && !done[u.GetUID()] {
			done[u.GetUID()] = true
			_, _ = client.Resource(gvr).Patch(ctx, u.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		}
	}
}

func selecting(environment string) map[string]any {
	return map[string]any{"matchLabels": map[string]any{"environment": environment}}
}

func stageOf(environment string, maxConcurrency any) map[string]any {
	if n, ok := maxConcurrency.(int); ok {
		maxConcurrency = int64(n)
	}
	return map[string]any{"name": environment, "labelSelector": selecting(environment), "maxConcurrency": maxConcurrency}
}

// BenchmarkHundredMembers rolls a Deployment with 0 replicas out to 100 members on two API servers, in
// three stages of 20, 30 and 50 at half of them at a time.
func BenchmarkHundredMembers(b *testing.B) {
	var labels []map[string]string
	for i := range 100 {
		environment := "first"
		if i >= 20 {
			environment = "second"
		}
		if i >= 50 {
			environment = "third"
		}
		labels = append(labels, map[string]string{"environment": environment})
	}
	s := newSpeed(b, 2, true, labels)
	client := s.content("shop", 0)
	deploy(b, client, "shop", 0)
	s.strategy(stageOf("first", "50%"), stageOf("second", "50%"), stageOf("third", "50%"))
	s.place("shop")
	s.snapshots(1)
	n := 0
	var took time.Duration
	for b.Loop() {
		n++
		begun := time.Now()
		s.run(fmt.Sprintf("run-%d", n))
		s.await(fmt.Sprintf("run-%d", n))
		took += time.Since(begun)
		deploy(b, client, "shop", n)
		s.snapshots(n + 1)
	}
	b.ReportMetric(took.Seconds()/float64(n), "s/run")
	b.ReportMetric(peakMemory(), "MiB-peak")
}

// deploy creates the Deployment, or changes it.
func deploy(b *testing.B, client *kubernetes.Clientset, namespace string, version int) {
	b.Helper()
	config, _ := json.Marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "web"},
		"spec": map[string]any{
			"replicas": 0, "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}, "annotations": map[string]any{"version": strconv.Itoa(version)}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "web:" + strconv.Itoa(version)}}},
			},
		},
	})
	force := true
	_, err := client.AppsV1().Deployments(namespace).Patch(b.Context(), "web", types.ApplyPatchType, config, metav1.PatchOptions{FieldManager: "author", Force: &force})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkClusterUpdate compares a hub with a bare loop of client-go that reads and applies the same
// objects: 10 runs of 100 members, 32 at a time, 3 objects each of which one changes. x-cpu and
// more-requests are the hub's beyond the loop's.
func BenchmarkClusterUpdate(b *testing.B) {
	const members, runs, workers = 100, 10, 32
	labels := make([]map[string]string, members)
	for i := range labels {
		labels[i] = map[string]string{"environment": "all"}
	}
	s := newSpeed(b, 1, false, labels)
	client := s.content("shop", 2)
	s.strategy(stageOf("all", workers))
	s.place("shop")
	s.snapshots(1)
	s.run("run-0")
	s.await("run-0")
	number, took := 0, time.Duration(0)
	var hubCPU, bareCPU time.Duration
	var hubRequests, memberRequests, bareRequests int
	for b.Loop() {
		for range runs {
			number++
			edit(b, client, "shop", fmt.Sprintf("value%d", number))
			s.snapshots(number + 1)
			s.onHub.Reset()
			s.onMembers.Reset()
			before, begun := cpu(), time.Now()
			s.run(fmt.Sprintf("run-%d", number))
			s.await(fmt.Sprintf("run-%d", number))
			hubCPU, took = hubCPU+cpu()-before, took+time.Since(begun)
			hubRequests += s.onHub.Requests()
			memberRequests += s.onMembers.Requests()
		}
		b.Log("last run, hub:", s.onHub.Calls())
		b.Log("last run, members:", s.onMembers.Calls())
		spent, requests := bareLoop(b, s.members[0], s.names, runs, workers)
		bareCPU, bareRequests = bareCPU+spent, bareRequests+requests
	}
	updates := float64(number * members)
	b.ReportMetric(hubCPU.Seconds()*1e3/updates, "ms-cpu/update")
	b.ReportMetric(bareCPU.Seconds()*1e3/updates, "ms-cpu/bare")
	b.ReportMetric(hubCPU.Seconds()/bareCPU.Seconds(), "x-cpu")
	b.ReportMetric(float64(memberRequests)/updates, "member-requests/update")
	b.ReportMetric(float64(bareRequests)/updates, "requests/bare")
	b.ReportMetric(float64(memberRequests-bareRequests)/updates, "more-requests")
	b.ReportMetric(float64(hubRequests)/updates, "hub-requests/update")
	b.ReportMetric(updates/took.Seconds(), "updates/s")
}

// bareLoop reads and applies three objects on each member, as often as there are runs, and returns
// the processor time and the requests that it took.
func bareLoop(b *testing.B, config *rest.Config, members []string, runs, workers int) (time.Duration, int) {
	b.Helper()
	var counts kubeenv.Counts
	clients := make([]dynamic.Interface, len(members))
	for i := range members {
		own := quick(config)
		own.Wrap(counts.Wrap)
		// A connection of its own for each member, as they have in truth.
		own.Dial = (&net.Dialer{}).DialContext
		var err error
		if clients[i], err = dynamic.NewForConfig(own); err != nil {
			b.Fatal(err)
		}
	}
	update := func(client dynamic.Interface, member string, run int) error {
		namespace := "shop-" + member
		for _, id := range []struct{ resource, kind, name string }{{"namespaces", "Namespace", namespace}, {"configmaps", "ConfigMap", "config0"}, {"configmaps", "ConfigMap", "config1"}} {
			r := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: id.resource})
			var at dynamic.ResourceInterface = r
			if id.kind != "Namespace" {
				at = r.Namespace(namespace)
			}
			if _, err := at.Get(b.Context(), id.name, metav1.GetOptions{}); err != nil {
				return err
			}
			obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": id.kind, "metadata": map[string]any{"name": id.name}}}
			if id.kind == "ConfigMap" {
				obj.Object["data"] = map[string]any{"key": fmt.Sprintf("bare%d", run)}
			}
			if _, err := at.Apply(b.Context(), id.name, obj, metav1.ApplyOptions{FieldManager: "bare", Force: true}); err != nil {
				return err
			}
		}
		return nil
	}
	for i, c := range clients { // connect
		if err := update(c, members[i], 0); err != nil {
			b.Fatal(err)
		}
	}
	counts.Reset()
	before := cpu()
	for run := range runs {
		var next atomic.Int64
		var group sync.WaitGroup
		for range workers {
			group.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(clients); i = int(next.Add(1)) - 1 {
					if err := update(clients[i], members[i], run+1); err != nil {
						b.Error(err)
					}
				}
			})
		}
		group.Wait()
	}
	return cpu() - before, counts.Requests()
}
