package hub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/backend"
	kubemember "github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// sharedCluster is a hub cluster with a hub, and two API servers that are the members of all
// stories on it.
type sharedCluster struct {
	once     sync.Once
	server   *kubeenv.Server
	members  []*kubeenv.Server
	route    *routes
	registry *prometheus.Registry
	served   *hub.Hub
	warnings kubeenv.Warnings
	logged   kubeenv.Logged
	err      error
	// setting is the compatibility setting of the hub.
	setting compat.Setting
}

// vouched is a hub with everything installed. Its hub has exactly the rights of manifests.HubRBAC,
// without the right to read Secrets. bare has no admission policies, and its hub places Secrets.
var vouched, bare sharedCluster

// kubeFleet018 is vouched with the compatibility setting of KubeFleet 0.18.
var kubeFleet018 = sharedCluster{setting: compat.KubeFleet018}

// hubUser is the user of the hubs, and memberUser their user on the members.
const (
	hubUser    = "system:serviceaccount:slipway-system:slipway-hub"
	memberUser = "slipway-on-member"
)

// routes maps members to API servers.
type routes struct {
	mu   sync.Mutex
	to   map[string]*rest.Config
	cuts map[string]*kubeenv.Faults
}

func (r *routes) set(member string, cfg *rest.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to[member] = cfg
}

func (r *routes) config(_ context.Context, c placement.Cluster) (*rest.Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cfg := r.to[c.Name]; cfg != nil {
		cfg = rest.CopyConfig(cfg)
		if r.cuts[c.Name] == nil {
			r.cuts[c.Name] = &kubeenv.Faults{}
		}
		cfg.Wrap(r.cuts[c.Name].Wrap)
		return cfg, nil
	}
	return nil, fmt.Errorf("no route to %s: %w", c.Name, backend.ErrNotFound)
}

// lose cuts the existing connections to a member.
func (r *routes) lose(member string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cut := r.cuts[member]; cut != nil {
		cut.Add(kubeenv.Rule{Times: -1, Fault: kubeenv.ResetBefore()})
		cut.CutWatches()
	}
	delete(r.cuts, member)
}

// open starts everything, once.
func (w *sharedCluster) open(t *testing.T, name string, engine fleet.Config, install func(context.Context, *rest.Config) error) *sharedCluster {
	t.Helper()
	servers := startServers(t, name, "proof1", "proof2")
	w.once.Do(func() {
		w.server, w.members = servers[0], servers[1:]
		for _, m := range w.members {
			if w.err = prepare(context.WithoutCancel(t.Context()), m); w.err != nil {
				return
			}
		}
		if w.err = w.server.StartControllerManager(context.WithoutCancel(t.Context()), "clusterrole-aggregation-controller"); w.err != nil {
			return
		}
		if w.err = install(context.WithoutCancel(t.Context()), w.server.Config()); w.err == nil {
			w.err = w.serve(name, engine)
		}
	})
	if w.err != nil {
		t.Fatal(w.err)
	}
	return w
}

// deleteDeadline is how long an unreachable member holds up a deletion. It is long enough for
// reachable members, even on a busy machine.
const deleteDeadline = 20 * time.Second

// serve runs the hub until the process ends.
func (w *sharedCluster) serve(name string, engine fleet.Config) error {
	w.route, w.registry = &routes{to: map[string]*rest.Config{}, cuts: map[string]*kubeenv.Faults{}}, prometheus.NewRegistry()
	account, err := w.server.ConfigForAccount(context.Background(), "slipway-system", "slipway-hub")
	if err != nil {
		return err
	}
	account.Wrap(w.warnings.Wrap)
	h, err := hub.New(hub.Config{
		Rest: account, Name: name, Engine: engine, AlwaysLead: true, Registry: w.registry, Compatibility: w.setting,
		Dialer: kubemember.NewDialer(w.route.config, kubemember.Options{}),
		Log:    w.logged.Logger(), DeleteDeadline: deleteDeadline,
	})
	if err != nil {
		return err
	}
	w.served = h
	go func() { _ = h.Run(context.Background()) }()
	return nil
}

// prepare gives a member the hubs' user with the rights of kubemember.RBACManifests, and the
// controller that empties namespaces, once.
func prepare(ctx context.Context, m *kubeenv.Server) error {
	begin, _ := prepared.LoadOrStore(m, sync.OnceValue(func() error {
		objects, err := kubemember.RBACManifests(rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: memberUser})
		if err != nil {
			return err
		}
		client, err := dynamic.NewForConfig(m.Config())
		if err != nil {
			return err
		}
		for _, u := range objects {
			gvr, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
			if _, err := client.Resource(gvr).Namespace(u.GetNamespace()).Apply(ctx, u.GetName(), u, metav1.ApplyOptions{FieldManager: "story"}); err != nil {
				return err
			}
		}
		return m.StartControllerManager(ctx, "namespace-controller")
	}))
	return begin.(func() error)()
}

// prepared has the functions that prepare members, by server.
var prepared sync.Map

// neverSecrets is for engines of hubs that may not read Secrets.
func neverSecrets() fleet.Config {
	return fleet.Config{Rules: snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "Secret"}}}}
}

func openVouched(t *testing.T) *sharedCluster {
	return vouched.open(t, "stories", neverSecrets(), func(ctx context.Context, cfg *rest.Config) error {
		return manifests.Install(ctx, cfg, manifests.Options{Hub: &manifests.HubOptions{}})
	})
}

func openKubeFleet018(t *testing.T) *sharedCluster {
	return kubeFleet018.open(t, "kubefleet018", neverSecrets(), func(ctx context.Context, cfg *rest.Config) error {
		return manifests.Install(ctx, cfg, manifests.Options{Hub: &manifests.HubOptions{}, Compatibility: compat.KubeFleet018})
	})
}

func openBare(t *testing.T) *sharedCluster {
	return bare.open(t, "bare", fleet.Config{}, func(ctx context.Context, cfg *rest.Config) error {
		if err := manifests.Install(ctx, cfg, manifests.Options{Hub: &manifests.HubOptions{Secrets: true}}); err != nil {
			return err
		}
		return uninstallPolicies(ctx, cfg)
	})
}

// uninstallPolicies removes the policies that record the authors of answers.
func uninstallPolicies(ctx context.Context, cfg *rest.Config) error {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return err
	}
	policies, err := manifests.Policies()
	for _, p := range policies {
		gvr, _ := meta.UnsafeGuessKindToResource(p.GroupVersionKind())
		err = errors.Join(err, client.Resource(gvr).Delete(ctx, p.GetName(), metav1.DeleteOptions{}))
	}
	return err
}

// scenario is the story of one test: a namespace on the hub, members and objects of its own. In the
// objects that it applies, NAME stands for its name.
type scenario struct {
	*testing.T
	*sharedCluster
	name  string
	admin dynamic.Interface
}

// newScenario begins a story with members NAME-1, NAME-2 and so on, with the labels story=NAME and
// stage=s1, stage=s2 and so on, and a namespace NAME with the label story=NAME. It runs beside
// other stories.
func newScenario(t *testing.T, w func(*testing.T) *sharedCluster, members int) *scenario {
	t.Helper()
	t.Parallel()
	return performAs(t, w, storyName(t), members)
}

// performAs begins a story of that name, of at most 61 characters.
func performAs(t *testing.T, w func(*testing.T) *sharedCluster, name string, members int) *scenario {
	t.Helper()
	s := &scenario{T: t, sharedCluster: w(t), name: name}
	s.admin = s.client(s.server.Config())
	for i := range members {
		s.join(i+1, fmt.Sprintf("s%d", i+1))
	}
	s.apply(`{apiVersion: v1, kind: Namespace, metadata: {name: NAME, labels: {story: NAME}}}`)
	t.Cleanup(s.leave)
	t.Cleanup(func() {
		// it may be about another story that runs at the same time
		for _, said := range s.warnings.Take() {
			t.Errorf("the API server warns the hub: %s", said)
		}
		for _, line := range s.logged.Take() {
			t.Errorf("the hub warns: %s", line)
		}
	})
	return s
}

// mayWarn allows the hub to log warnings that contain the name of the story and one of the texts.
func (s *scenario) mayWarn(texts ...string) {
	for _, text := range texts {
		s.logged.May(s.name, text)
	}
}

// leave deletes the runs, the placements and the members of a successful story. Other stories share
// the hub, which would otherwise decide for each of these placements whenever a member of a later
// story joins.
func (s *scenario) leave() {
	// members may have other objects in the namespace, or have left
	s.mayWarn("msg=released", `msg="left behind"`)
	if s.Failed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, short := range []string{"csur", "sur"} {
		all, err := s.admin.Resource(s.resourceOf(short)).List(ctx, metav1.ListOptions{})
		if err != nil {
			s.Log(err)
			return
		}
		for i := range all.Items {
			if u := &all.Items[i]; u.GetNamespace() == s.name || placementOfRun(u) == s.name {
				_ = s.admin.Resource(s.resourceOf(short)).Namespace(u.GetNamespace()).Delete(ctx, u.GetName(), metav1.DeleteOptions{})
			}
		}
	}
	_ = s.admin.Resource(s.resourceOf("rp")).Namespace(s.name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	placements := s.admin.Resource(s.resourceOf("crp"))
	_ = placements.Delete(ctx, s.name, metav1.DeleteOptions{})
	_ = wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := placements.Get(ctx, s.name, metav1.GetOptions{})
		return err != nil, nil // it is gone, or the time is up
	})
	_ = s.admin.Resource(s.resourceOf("mc")).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "story=" + s.name})
}

func placementOfRun(u *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(u.Object, "spec", "placementName")
	return name
}

// storyName returns the first words of a test's name, and a number.
func storyName(t *testing.T) string {
	var b strings.Builder
	for _, r := range strings.TrimPrefix(t.Name(), "Test") {
		if r >= 'A' && r <= 'Z' && b.Len() > 0 {
			b.WriteByte('-')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	name := strings.NewReplacer("/", "-", "_", "-", "--", "-").Replace(b.String())
	const most = 24
	return fmt.Sprintf("%s-%d", strings.Trim(name[:min(len(name), most)], "-"), worlds.Add(1))
}

func (s *scenario) client(cfg *rest.Config) dynamic.Interface {
	s.Helper()
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// join registers member i.
func (s *scenario) join(i int, stage string) {
	s.Helper()
	member := fmt.Sprintf("%s-%d", s.name, i)
	s.route.set(member, s.way(i))
	s.apply(fmt.Sprintf(`{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: %s, labels: {story: NAME, stage: %s}}, spec: {}}`, member, stage))
}

// way returns the hub's configuration for the API server of member i.
func (s *scenario) way(i int) *rest.Config {
	return s.members[(i-1)%len(s.members)].ConfigFor(memberUser)
}

// member returns a client of the API server of member i.
func (s *scenario) member(i int) dynamic.Interface {
	return s.client(s.members[(i-1)%len(s.members)].Config())
}

func (s *scenario) own(text string) string { return strings.ReplaceAll(text, "NAME", s.name) }

// objects reads YAML documents.
func (s *scenario) objects(text string) (out []*unstructured.Unstructured) {
	s.Helper()
	for doc := range strings.SplitSeq(s.own(text), "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			s.Fatalf("%v in\n%s", err, doc)
		}
		out = append(out, u)
	}
	return out
}

// apply creates or changes objects on the hub, as its administrator.
func (s *scenario) apply(text string) {
	s.Helper()
	for _, u := range s.objects(text) {
		if err := s.applyTo(s.admin, u); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *scenario) applyTo(c dynamic.Interface, u *unstructured.Unstructured) error {
	_, err := s.of(c, u.GroupVersionKind(), u.GetNamespace()).Apply(s.Context(), u.GetName(), u, metav1.ApplyOptions{FieldManager: "story", Force: true})
	return err
}

func (s *scenario) of(c dynamic.Interface, gvk schema.GroupVersionKind, namespace string) dynamic.ResourceInterface {
	gvr, _ := meta.UnsafeGuessKindToResource(gvk)
	return c.Resource(gvr).Namespace(namespace)
}

// resourceOf returns the resource with that short name.
func (s *scenario) resourceOf(short string) schema.GroupVersionResource {
	s.Helper()
	for _, k := range append(kinds(), others()...) {
		if k.short == short {
			return k.gvr
		}
	}
	s.Fatalf("tests know no kind %q: add it to others", short)
	return schema.GroupVersionResource{}
}

// on splits short/name or short/namespace/name.
func (s *scenario) on(c dynamic.Interface, what string) (dynamic.ResourceInterface, string) {
	parts := strings.Split(s.own(what), "/")
	namespace := ""
	if len(parts) == 3 {
		namespace = parts[1]
	}
	return c.Resource(s.resourceOf(parts[0])).Namespace(namespace), parts[len(parts)-1]
}
