package hub_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	kubemember "github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
)

var clusters kubeenv.Shared

// installs has the servers with a complete installation, by name.
var installs sync.Map

// worlds counts the environments, so that their names differ.
var worlds atomic.Int64

func TestMain(m *testing.M) {
	if isChild() {
		os.Exit(beHub())
	}
	os.Exit(clusters.Run(m))
}

// hubEnv is a hub cluster and members, on servers that the tests of the package share. One test at
// a time has the servers of a lane, and leaves no object of the Fleet API behind. The names of all
// its objects begin with the environment's name, and so does the namespace of the hubs.
type hubEnv struct {
	t       *testing.T
	name    string
	server  *kubeenv.Server
	client  dynamic.Interface
	kube    kubernetes.Interface
	members []*member
	audit   *audit
	// files is the directory with the input of hubs in their own processes.
	files string
	// account reaches the hub cluster as the service account that an installation makes for hubs.
	account  *rest.Config
	warnings kubeenv.Warnings
	logged   kubeenv.Logged
	// gated reports whether the strategy requires an approval.
	gated bool
}

// member is a cluster of the fleet.
type member struct {
	name   string // of its MemberCluster
	server *kubeenv.Server
	client dynamic.Interface
	// faults disturb the requests of hubs in this process to the member.
	faults *kubeenv.Faults
	audit  *audit
}

// lanes are the free hub servers; an environment takes one and returns it.
var lanes = sync.OnceValue(func() chan string {
	names := []string{"hub", "hub2", "hub3"}
	free := make(chan string, len(names))
	for _, name := range names {
		free <- name
	}
	return free
})

// newHubEnv returns an environment with n members. The first has the label stage=canary, the others
// stage=prod. The label order has their order.
func newHubEnv(t *testing.T, n int) *hubEnv {
	t.Helper()
	server := <-lanes()
	t.Cleanup(func() { lanes() <- server })
	return newHubEnvOn(t, server, n)
}

// newHubEnvAlone is [newHubEnv] on servers of its own, which end with the test. It waits for no
// other test.
func newHubEnvAlone(t *testing.T, server string, n int) *hubEnv {
	t.Helper()
	var w *hubEnv
	t.Cleanup(func() {
		if w == nil {
			return
		}
		for _, m := range w.members {
			_ = m.server.Kill()
		}
		_ = w.server.Kill()
	})
	w = newHubEnvOn(t, fmt.Sprintf("%s-%d", server, alone.Add(1)), n)
	return w
}

// alone counts the environments with servers of their own, so that the names of these differ.
var alone atomic.Int64

// newHubEnvOn is [newHubEnv] on the hub server of that name, which no other test may use at the
// same time.
func newHubEnvOn(t *testing.T, server string, n int) *hubEnv {
	t.Helper()
	w := &hubEnv{t: t, name: fmt.Sprintf("w%d", worlds.Add(1))}
	names := []string{server}
	for i := range n {
		names = append(names, fmt.Sprintf("member%d-of-%s", i+1, server))
	}
	servers := startServers(t, names...)
	w.server = servers[0]
	w.client, w.kube = clientsFor(t, w.server.Config())
	install(t, server, w.server)
	w.installAccount()
	w.audit = newAudit(t, clusters.Env(t), server)
	w.wipe()
	t.Cleanup(w.wipe)
	for i, s := range servers[1:] {
		w.join(names[i+1], s, i)
	}
	return w
}

// installAccount creates the service account of hubs with the rights of an installation that places
// Secrets. The test fails if the API server returns a warning to a hub.
func (w *hubEnv) installAccount() {
	w.t.Helper()
	namespace := w.name + "-hub"
	w.grant(manifests.HubOptions{Namespace: namespace, Secrets: true})
	var err error
	if w.account, err = w.server.ConfigForAccount(w.t.Context(), namespace, "slipway-hub"); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		for _, said := range w.warnings.Take() {
			w.t.Errorf("the API server warns a hub: %s", said)
		}
		for _, line := range w.logged.Take() {
			w.t.Errorf("a hub warns: %s", line)
		}
	})
}

// startServers returns servers with an audit log of all changes.
func startServers(t *testing.T, names ...string) []*kubeenv.Server {
	t.Helper()
	env := clusters.Env(t)
	out, problems := make([]*kubeenv.Server, len(names)), make([]error, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() { out[i], problems[i] = sharedServer(context.WithoutCancel(t.Context()), env, name) })
	}
	group.Wait()
	if err := errors.Join(problems...); err != nil {
		t.Fatal(err)
	}
	return out
}

// sharedServer starts a server on the first call for it.
func sharedServer(ctx context.Context, env *kubeenv.Env, name string) (*kubeenv.Server, error) {
	start, _ := started.LoadOrStore(name, sync.OnceValues(func() (*kubeenv.Server, error) {
		args, err := auditArgs(env, name)
		if err != nil {
			return nil, err
		}
		return env.StartServer(ctx, name, kubeenv.ServerOptions{Args: args})
	}))
	return start.(func() (*kubeenv.Server, error))()
}

// started has the functions that start servers, by name.
var started sync.Map

// install installs everything that a hub needs, once for each server.
func install(t *testing.T, name string, s *kubeenv.Server) {
	t.Helper()
	once, _ := installs.LoadOrStore(name, sync.OnceValue(func() error {
		return manifests.Install(context.WithoutCancel(t.Context()), s.Config(), manifests.Options{})
	}))
	if err := once.(func() error)(); err != nil {
		t.Fatal(err)
	}
}

func clientsFor(t *testing.T, cfg *rest.Config) (dynamic.Interface, kubernetes.Interface) {
	t.Helper()
	d, err := dynamic.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	k, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d, k
}

// join creates a MemberCluster with its address at a server.
func (w *hubEnv) join(serverName string, s *kubeenv.Server, i int) *member {
	w.t.Helper()
	m := &member{name: fmt.Sprintf("%s-m%d", w.name, i+1), server: s, faults: &kubeenv.Faults{}}
	m.client, _ = clientsFor(w.t, s.Config())
	m.audit = newAudit(w.t, clusters.Env(w.t), serverName)
	stage := "prod"
	if i == 0 {
		stage = "canary"
	}
	w.create(memberOf(m.name, map[string]string{"stage": stage, "order": fmt.Sprint(i)}))
	w.members = append(w.members, m)
	return m
}

// running is a hub in this process.
type running struct {
	*hub.Hub
	name string
	// faults and counts apply to the requests to the hub cluster.
	faults kubeenv.Faults
	counts kubeenv.Counts
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // read after ended
}

// start starts a hub, which ends at the latest with the test. Hubs of one environment share their
// store. name identifies the hub, and is also the user agent of its requests.
func (w *hubEnv) start(name string, change ...func(*hub.Config)) *running {
	w.t.Helper()
	r := &running{name: name, ended: make(chan struct{})}
	cfg := w.config(name)
	cfg.Rest.Wrap(r.counts.Wrap)
	cfg.Rest.Wrap(r.faults.Wrap)
	for _, c := range change {
		c(&cfg)
	}
	cfg.Rest.Wrap(w.warnings.Wrap)
	var err error
	if r.Hub, err = hub.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.WithoutCancel(w.t.Context()))
	go func() {
		defer close(r.ended)
		r.err = r.Run(ctx)
	}()
	w.t.Cleanup(func() { w.end(r) })
	return r
}

// config returns the configuration of a hub that leads alone.
func (w *hubEnv) config(name string) hub.Config {
	r := rest.CopyConfig(w.account)
	r.UserAgent = name
	return hub.Config{
		Rest: r, Dialer: kubemember.NewDialer(w.way(name), kubemember.Options{RequestTimeout: 5 * time.Second}),
		Namespace: w.name + "-hub", Name: name, LeaseDuration: 2 * time.Second, AlwaysLead: true,
		Collect: 100 * time.Millisecond, DeleteDeadline: 20 * time.Second, Log: w.log(name),
	}
}

// way returns how a hub of this process reaches the members.
func (w *hubEnv) way(name string) kubemember.ConfigFunc {
	return func(_ context.Context, c placement.Cluster) (*rest.Config, error) {
		for _, m := range w.members {
			if m.name == c.Name {
				cfg := m.server.Config()
				cfg.UserAgent = name
				cfg.Wrap(m.faults.Wrap)
				return cfg, nil
			}
		}
		return nil, fmt.Errorf("no server for %s", c.Name)
	}
}

// end stops a hub and fails if that fails or takes too long.
func (w *hubEnv) end(r *running) {
	w.t.Helper()
	r.stop()
	select {
	case <-r.ended:
		if r.err != nil {
			w.t.Errorf("hub %s ended with: %v", r.name, r.err)
		}
	case <-time.After(patience):
		w.t.Fatalf("hub %s does not end:\n%s", r.name, stacks())
	}
}

// log writes the warnings of a hub into the test's log, or everything if SLIPWAY_LOG is set.
func (w *hubEnv) log(name string) *slog.Logger {
	level := slog.LevelWarn
	if os.Getenv("SLIPWAY_LOG") != "" {
		level = slog.LevelDebug
	}
	out := testLog{w.t, &w.logged}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})).With("hub", name)
}

type testLog struct {
	t      *testing.T
	logged *kubeenv.Logged
}

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return l.logged.Write(p)
}

// mayWarn allows hubs to log warnings that contain one of the texts; without texts it allows all.
func (w *hubEnv) mayWarn(texts ...string) {
	if len(texts) == 0 {
		w.logged.May()
	}
	for _, text := range texts {
		w.logged.May(text)
	}
}

// patience is the time limit for everything, on a busy machine. It says nothing about the speed of
// a hub.
const patience = 6 * time.Minute

// eventually retries until there is no error, for at most patience.
func (w *hubEnv) eventually(what string, try func() error) {
	w.t.Helper()
	w.within(patience, what, try)
}

// within retries until there is no error, and fails the test after limit.
func (w *hubEnv) within(limit time.Duration, what string, try func() error) {
	w.t.Helper()
	err := try()
	pauses := breaths()
	for deadline := time.Now().Add(limit); err != nil && time.Now().Before(deadline); err = try() {
		select {
		case <-w.t.Context().Done():
			w.t.Fatal(w.t.Context().Err())
		case <-time.After(pauses.Step()):
		}
	}
	if err != nil {
		w.t.Fatalf("waiting for %s: %v\n%s", what, err, w.state())
	}
}

// breaths returns the pauses between two tries. They grow, because a server that answers tries has
// less time for its other work.
func breaths() wait.Backoff {
	return wait.Backoff{Duration: 20 * time.Millisecond, Factor: 1.3, Steps: 1000, Cap: 300 * time.Millisecond}
}

// wipe deletes every object of the Fleet API, together with its finalizers.
func (w *hubEnv) wipe() {
	// The test may be over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.t.Context()), patience)
	defer cancel()
	for _, k := range kinds() {
		r := w.client.Resource(k.gvr)
		if err := r.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil && !k.namespaced {
			w.t.Errorf("wiping %s: %v", k.gvr.Resource, err)
		}
		list, err := r.List(ctx, metav1.ListOptions{})
		if err != nil {
			w.t.Errorf("wiping %s: %v", k.gvr.Resource, err)
			continue
		}
		for i := range list.Items {
			w.release(ctx, k, &list.Items[i])
		}
	}
}

// release removes the finalizers of an object and deletes it.
func (w *hubEnv) release(ctx context.Context, k kind, obj *unstructured.Unstructured) {
	r := w.client.Resource(k.gvr).Namespace(obj.GetNamespace())
	_ = r.Delete(ctx, obj.GetName(), metav1.DeleteOptions{})
	if len(obj.GetFinalizers()) > 0 {
		_, _ = r.Patch(ctx, obj.GetName(), mergePatch, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	}
}
