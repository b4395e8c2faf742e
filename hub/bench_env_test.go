//go:build unix

package hub_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
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

	"github.com/slipway-dev/slipway/backend"
	kubemember "github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// benchEnv is a hub with members that a benchmark times.
type benchEnv struct {
	b       *testing.B
	hub     *hub.Hub
	config  *rest.Config
	client  dynamic.Interface
	members []*rest.Config
	// account reaches the hub cluster as the service account of an installation.
	account *rest.Config
	// onHub and onMembers count requests.
	onHub, onMembers kubeenv.Counts
	names            []string
}

// newBenchEnv starts API servers and a hub. labels has the labels of each member. Member i is on
// server i modulo servers.
func newBenchEnv(b *testing.B, servers int, controllers bool, labels []map[string]string) *benchEnv {
	b.Helper()
	s := &benchEnv{b: b}
	env := kubeenv.ForTest(b)
	server := env.Server(b, "hub")
	s.config = server.Config()
	for i := range servers {
		server := env.Server(b, fmt.Sprintf("member%d", i))
		if controllers {
			s.must(server.StartControllerManager(b.Context(), "deployment-controller", "namespace-controller"))
		}
		s.members = append(s.members, server.Config())
	}
	hubs := manifests.HubOptions{Namespace: "slipway-system", Secrets: true}
	s.must(manifests.Install(b.Context(), s.config, manifests.Options{Hub: &hubs}))
	var err error
	s.account, err = server.ConfigForAccount(b.Context(), hubs.Namespace, "slipway-hub")
	s.must(err)
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
func (s *benchEnv) start(servers int, shared bool) {
	config := rest.CopyConfig(s.account)
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
	c := hub.Config{Rest: config, AlwaysLead: true, Collect: 100 * time.Millisecond, Dialer: &tenants{counted, of, kubemember.Options{QPS: -1}}}
	if !shared {
		c.Dialer = kubemember.NewDialer(func(_ context.Context, m placement.Cluster) (*rest.Config, error) { return counted[of(m.Name)], nil }, kubemember.Options{QPS: -1})
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

func (s *benchEnv) must(err error) {
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

func (s *benchEnv) create(group, resource, kind, name string, labels map[string]string, spec map[string]any) {
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
func (s *benchEnv) place(namespace string) { s.placeAs("web", namespace, "External") }

// placeAs declares a placement of a namespace with a rollout of a type.
func (s *benchEnv) placeAs(name, namespace, rollout string) {
	s.b.Helper()
	s.create(placementGroup, "clusterresourceplacements", "ClusterResourcePlacement", name, nil, map[string]any{
		"resourceSelectors": []any{map[string]any{"group": "", "version": "v1", "kind": "Namespace", "name": namespace}},
		"policy":            map[string]any{"placementType": "PickAll"},
		"strategy":          map[string]any{"type": rollout},
	})
}

func (s *benchEnv) strategy(stages ...any) {
	s.create(placementGroup, "clusterstagedupdatestrategies", "ClusterStagedUpdateStrategy", "order", nil, map[string]any{"stages": stages})
}

func (s *benchEnv) run(name string) {
	s.create(placementGroup, "clusterstagedupdateruns", "ClusterStagedUpdateRun", name, nil, map[string]any{
		"placementName": "web", "stagedRolloutStrategyName": "order", "state": "Run",
	})
}

// await waits for a run to begin and to end, with as few requests to the API server as possible.
func (s *benchEnv) await(name string) fleet.Status {
	s.b.Helper()
	ctx, cancel := context.WithTimeout(s.b.Context(), 5*time.Minute)
	defer cancel()
	status, err := s.hub.Engine().Run(name).Wait(ctx)
	for errors.Is(err, backend.ErrNotFound) {
		time.Sleep(50 * time.Millisecond)
		status, err = s.hub.Engine().Run(name).Wait(ctx)
	}
	s.must(err)
	if status.Run.State != stages.Completed {
		s.b.Fatalf("run %s is %s: %s", name, status.Run.State, status.Run.Reason)
	}
	return status
}

// declared waits for the engine to have the placement.
func (s *benchEnv) declared() {
	s.b.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, err := s.hub.Engine().Placement("web").View(s.b.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			s.b.Fatalf("the placement is not declared: %v", err)
		}
	}
}

// content creates the namespace and its objects on the hub.
func (s *benchEnv) content(namespace string, configMaps int) *kubernetes.Clientset {
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

// cpu returns the processor time of the process so far.
func cpu() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// peakMemory returns the peak memory of the process, in MiB.
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
