//go:build unix

package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// BenchmarkTutorial measures the tutorial's rollout on real API servers with three members, from
// the creation of the run to its success. Requests are approved at once, and there is no timed
// wait.
func BenchmarkTutorial(b *testing.B) {
	s := newBenchEnv(b, 3, false, []map[string]string{
		{"environment": "canary", "order": "2"}, {"environment": "staging"}, {"environment": "canary", "order": "1"},
	})
	client := s.content("test-namespace", 1)
	s.strategy(stageOf("staging", 1), map[string]any{
		"name": "canary", "sortingLabelKey": "order", "labelSelector": selecting("canary"),
		"afterStageTasks": []any{map[string]any{"type": "Approval"}},
	})
	s.place("test-namespace")
	s.declared()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go approve(ctx, s.client)
	n := 0
	var took time.Duration
	for b.Loop() {
		n++
		edit(b, client, "test-namespace", fmt.Sprintf("value%d", n))
		begun := time.Now()
		s.run(fmt.Sprintf("run-%d", n))
		s.await(fmt.Sprintf("run-%d", n))
		took += time.Since(begun)
	}
	b.ReportMetric(took.Seconds()/float64(n), "s/run")
}

// approve approves every request as soon as it is visible.
func approve(ctx context.Context, client dynamic.Interface) {
	gvr := schema.GroupVersionResource{Group: placementGroup, Version: "v1beta1", Resource: "clusterapprovalrequests"}
	w, err := client.Resource(gvr).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	defer w.Stop()
	done := map[types.UID]bool{}
	for e := range w.ResultChan() {
		if u, ok := e.Object.(*unstructured.Unstructured); ok && !done[u.GetUID()] {
			done[u.GetUID()] = true
			_, _ = client.Resource(gvr).Patch(ctx, u.GetName(), types.MergePatchType, approved, metav1.PatchOptions{}, "status")
		}
	}
}

// approved is the patch that approves a request.
var approved = []byte(`{"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "fine", "message": "",
	"observedGeneration": 1, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}`)

func selecting(environment string) map[string]any {
	return map[string]any{"matchLabels": map[string]any{"environment": environment}}
}

func stageOf(environment string, maxConcurrency any) map[string]any {
	if n, ok := maxConcurrency.(int); ok {
		maxConcurrency = int64(n)
	}
	return map[string]any{"name": environment, "labelSelector": selecting(environment), "maxConcurrency": maxConcurrency}
}

// BenchmarkHundredMembers rolls out a Deployment with 0 replicas to 100 members on four API
// servers, in three stages of 20, 30 and 50 members, half of them at a time.
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
	s := newBenchEnv(b, 4, true, labels)
	client := s.content("shop", 0)
	deploy(b, client, "shop", 0)
	s.strategy(stageOf("first", "50%"), stageOf("second", "50%"), stageOf("third", "50%"))
	s.place("shop")
	s.declared()
	n := 0
	var took time.Duration
	for b.Loop() {
		n++
		begun := time.Now()
		s.run(fmt.Sprintf("run-%d", n))
		s.await(fmt.Sprintf("run-%d", n))
		took += time.Since(begun)
		deploy(b, client, "shop", n)
	}
	b.ReportMetric(took.Seconds()/float64(n), "s/run")
	b.ReportMetric(peakMemory(), "MiB-peak")
}

// deploy creates or changes the Deployment.
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

// BenchmarkClusterUpdate compares a hub with a bare loop of client-go that reads and applies the
// same objects, in turns: 10 runs of 100 members, 32 at a time, with 3 objects each, one of them
// changed. x-cpu and more-requests are the hub's cost beyond the loop's. The cost of a run includes
// the work of the hub until the final statuses are written.
func BenchmarkClusterUpdate(b *testing.B) {
	const members, runs, workers = 100, 10, 32
	labels := make([]map[string]string, members)
	for i := range labels {
		labels[i] = map[string]string{"environment": "all"}
	}
	s := newBenchEnv(b, 1, false, labels)
	client := s.content("shop", 2)
	s.strategy(stageOf("all", workers))
	s.place("shop")
	s.declared()
	s.run("run-0")
	s.await("run-0")
	bare := newBareLoop(b, s.members[0], s.names)
	var hub, loop spent
	number, took := 0, time.Duration(0)
	for b.Loop() {
		for range runs {
			number++
			edit(b, client, "shop", fmt.Sprintf("value%d", number))
			time.Sleep(settles)
			s.onHub.Reset()
			hub.add(&s.onMembers, func() {
				begun := time.Now()
				s.run(fmt.Sprintf("run-%d", number))
				s.await(fmt.Sprintf("run-%d", number))
				took += time.Since(begun)
				time.Sleep(settles)
			})
			hub.others += s.onHub.Requests()
			loop.add(&bare.counts, func() { bare.pass(number, workers) })
		}
		b.Log("last run, hub:", s.onHub.Calls())
		b.Log("last run, members:", s.onMembers.Calls())
	}
	updates := float64(number * members)
	b.ReportMetric(hub.cpu.Seconds()*1e3/updates, "ms-cpu/update")
	b.ReportMetric(loop.cpu.Seconds()*1e3/updates, "ms-cpu/bare")
	b.ReportMetric(hub.cpu.Seconds()/loop.cpu.Seconds(), "x-cpu")
	b.ReportMetric(float64(hub.requests)/updates, "member-requests/update")
	b.ReportMetric(float64(loop.requests)/updates, "requests/bare")
	b.ReportMetric(float64(hub.requests-loop.requests)/updates, "more-requests")
	b.ReportMetric(float64(hub.others)/updates, "hub-requests/update")
	b.ReportMetric(updates/took.Seconds(), "updates/s")
}

// settles is longer than statuses of 100 clusters wait for each other.
const settles = 2 * time.Second

// spent has the processor time of a measurement, its requests to members, and all its other
// requests.
type spent struct {
	cpu              time.Duration
	requests, others int
}

func (s *spent) add(counts *kubeenv.Counts, do func()) {
	counts.Reset()
	before := cpu()
	do()
	s.cpu += cpu() - before
	s.requests += counts.Requests()
}

// bareLoop reads and applies three objects for each member, in a namespace of its own.
type bareLoop struct {
	b       *testing.B
	clients []dynamic.Interface
	members []string
	counts  kubeenv.Counts
}

func newBareLoop(b *testing.B, config *rest.Config, members []string) *bareLoop {
	b.Helper()
	l := &bareLoop{b: b, clients: make([]dynamic.Interface, len(members)), members: members}
	for i := range members {
		own := quick(config)
		own.Wrap(l.counts.Wrap)
		// Each member has its own connection, like real members.
		own.Dial = (&net.Dialer{}).DialContext
		var err error
		if l.clients[i], err = dynamic.NewForConfig(own); err != nil {
			b.Fatal(err)
		}
	}
	for i := range members { // connect and create
		if err := l.update(i, 0, true); err != nil {
			b.Fatal(err)
		}
	}
	return l
}

// update brings a member's objects to a number.
func (l *bareLoop) update(i, number int, create bool) error {
	namespace := "bare-" + l.members[i]
	for _, id := range []struct{ resource, kind, name string }{{"namespaces", "Namespace", namespace}, {"configmaps", "ConfigMap", "config0"}, {"configmaps", "ConfigMap", "config1"}} {
		r := l.clients[i].Resource(schema.GroupVersionResource{Version: "v1", Resource: id.resource})
		var at dynamic.ResourceInterface = r
		if id.kind != "Namespace" {
			at = r.Namespace(namespace)
		}
		_, err := at.Get(l.b.Context(), id.name, metav1.GetOptions{})
		if create && apierrors.IsNotFound(err) {
			err = nil
		}
		if err != nil {
			return err
		}
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": id.kind, "metadata": map[string]any{"name": id.name}}}
		if id.kind == "ConfigMap" {
			obj.Object["data"] = map[string]any{"key": fmt.Sprintf("bare%d", number)}
		}
		if _, err := at.Apply(l.b.Context(), id.name, obj, metav1.ApplyOptions{FieldManager: "bare", Force: true}); err != nil {
			return err
		}
	}
	return nil
}

// pass updates all members, with that many workers.
func (l *bareLoop) pass(number, workers int) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(l.members); i = int(next.Add(1)) - 1 {
				if err := l.update(i, number, false); err != nil {
					l.b.Error(err)
				}
			}
		})
	}
	group.Wait()
}

// BenchmarkApproval measures three times, as seen at the API servers: from the creation of a run to
// its condition Initialized; from the patch that approves the request after a stage to the
// condition ApprovalAccepted; and from that patch to the first apply on a member of the next stage.
// It does so for a placement that is alone on its hub, and for one beside nine other placements
// that were rolled out.
func BenchmarkApproval(b *testing.B) {
	for _, others := range []int{0, 9} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) { benchmarkApproval(b, others) })
	}
}

func benchmarkApproval(b *testing.B, others int) {
	s := newBenchEnv(b, 2, false, []map[string]string{{"environment": "staging"}, {"environment": "canary"}})
	client := s.content("test-namespace", 1)
	s.strategy(map[string]any{
		"name": "staging", "labelSelector": selecting("staging"), "afterStageTasks": []any{map[string]any{"type": "Approval"}},
	}, stageOf("canary", 1))
	resource := func(name string) dynamic.ResourceInterface {
		return s.client.Resource(schema.GroupVersionResource{Group: placementGroup, Version: "v1beta1", Resource: name})
	}
	requests, runs, placements := resource("clusterapprovalrequests"), resource("clusterstagedupdateruns"), resource("clusterresourceplacements")
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for i := range others {
		name := fmt.Sprintf("other-%d", i)
		s.content(name, 1)
		s.placeAs(name, name, "RollingUpdate")
		condition(ctx, b, placements, name, "ClusterResourcePlacementAvailable")
	}
	s.place("test-namespace")
	s.declared()
	member, err := kubernetes.NewForConfig(quick(s.members[1]))
	s.must(err)
	n := 0
	var initialized, accepted, applied time.Duration
	for b.Loop() {
		n++
		value, run := fmt.Sprintf("value%d", n), fmt.Sprintf("run-%d", n)
		edit(b, client, "test-namespace", value)
		created := time.Now()
		s.run(run)
		initialized += condition(ctx, b, runs, run, "Initialized").Sub(created)
		request := asked(ctx, b, requests, run)
		time.Sleep(settles) // the hub is idle
		seen := make(chan time.Time, 1)
		go func() { seen <- holds(ctx, member, value) }()
		begun := time.Now()
		_, err := requests.Patch(ctx, request, types.MergePatchType, approved, metav1.PatchOptions{}, "status")
		s.must(err)
		accepted += condition(ctx, b, requests, request, "ApprovalAccepted").Sub(begun)
		applied += (<-seen).Sub(begun)
		s.await(run)
	}
	b.ReportMetric(float64(initialized.Milliseconds())/float64(n), "ms/initialized")
	b.ReportMetric(float64(accepted.Milliseconds())/float64(n), "ms/accepted")
	b.ReportMetric(float64(applied.Milliseconds())/float64(n), "ms/applied")
}

// asked waits for the request of a run and returns its name.
func asked(ctx context.Context, b *testing.B, requests dynamic.ResourceInterface, run string) string {
	b.Helper()
	return until(ctx, b, requests, func(u *unstructured.Unstructured) bool {
		about, _, _ := unstructured.NestedString(u.Object, "spec", "parentStageRollout")
		return about == run
	})
}

// condition waits until a condition of an object is True, and returns the time.
func condition(ctx context.Context, b *testing.B, objects dynamic.ResourceInterface, name, kind string) time.Time {
	b.Helper()
	until(ctx, b, objects, func(u *unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		return u.GetName() == name && slices.ContainsFunc(conditions, func(c any) bool {
			m, _ := c.(map[string]any)
			return m["type"] == kind && m["status"] == "True"
		})
	})
	return time.Now()
}

// until watches objects until one of them satisfies is, and returns its name.
func until(ctx context.Context, b *testing.B, objects dynamic.ResourceInterface, is func(*unstructured.Unstructured) bool) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	w, err := objects.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if u, ok := e.Object.(*unstructured.Unstructured); ok && is(u) {
			return u.GetName()
		}
	}
	b.Fatal("no object is as it should be")
	return ""
}

// holds waits until the object on a member has a value, and returns the time.
func holds(ctx context.Context, member kubernetes.Interface, value string) time.Time {
	w, err := member.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=config0"})
	if err != nil {
		return time.Time{}
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if c, ok := e.Object.(*corev1.ConfigMap); ok && c.Data["key"] == value {
			return time.Now()
		}
	}
	return time.Time{}
}
