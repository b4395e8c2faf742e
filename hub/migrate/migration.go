package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/kubehttp"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Config says which fleet is meant. Hub and Members are required.
type Config struct {
	// Hub is how the API server of the hub is reached, with the rights of cluster-admin. It is neither changed nor kept.
	Hub *rest.Config
	// Members is how the API servers of members are reached, by the names of their MemberClusters, with the rights of
	// cluster-admin: [member.KubeconfigDirectory] and its siblings are such.
	Members member.ConfigFunc
	// Namespace is where a hub of package hub keeps its records; empty is slipway-system.
	Namespace string
	// Rules are those of the hub that will serve: what they exclude is not taken over. They exclude Secrets unless Secrets
	// is set, as the hub of the command does.
	Rules   snapshot.Rules
	Secrets bool
	// NamespaceRules are those of the hub that will serve; nil is snapshot.NamespaceRules().
	NamespaceRules *snapshot.Rules
	// Backup is the file to which TakeOver and GiveBack write what they remove; they require it. Secrets may be in it.
	Backup string
	// AcceptDifferences lets a placement be taken over that Slipway would change at once.
	AcceptDifferences bool
	// Done, where it is set, is called with each thing that was changed, one after the other.
	Done func(change string)
}

// Migration moves a fleet from KubeFleet to package hub, and back. Its methods must not be called at the same time.
type Migration struct {
	cfg  Config
	hub  *cluster
	now  func() time.Time
	wait time.Duration
}

// cluster is an API server.
type cluster struct {
	name    string
	config  *rest.Config
	objects dynamic.Interface
	// metadata reads and writes objects of which nothing else is needed: what is in Secrets is not read.
	metadata metadata.Interface
	kube     kubernetes.Interface
}

// New returns a migration. No request is made.
func New(cfg Config) (*Migration, error) {
	if cfg.Hub == nil || cfg.Members == nil {
		return nil, errors.New("migrate: Config: Hub and Members are required")
	}
	if cfg.Namespace == "" {
		cfg.Namespace = api.DefaultNamespace
	}
	if cfg.NamespaceRules == nil {
		cfg.NamespaceRules = new(snapshot.NamespaceRules())
	}
	if !cfg.Secrets {
		cfg.Rules.Never = append(slices.Clone(cfg.Rules.Never), snapshot.GroupKind{Kind: "Secret"})
	}
	if cfg.Done == nil {
		cfg.Done = func(string) {}
	}
	hub, err := newCluster(onHub, cfg.Hub)
	if err != nil {
		return nil, fmt.Errorf("migrate: hub: %w", err)
	}
	return &Migration{cfg: cfg, hub: hub, now: time.Now, wait: time.Minute}, nil
}

func newCluster(name string, cfg *rest.Config) (*cluster, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // one request after the other
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	meta, err := kubehttp.Metadata(cfg, nil)
	if err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(cfg)
	return &cluster{name: name, config: cfg, objects: objects, metadata: meta, kube: kube}, err
}

// member returns a member of the fleet.
func (m *Migration) member(ctx context.Context, name string) (*cluster, error) {
	cfg, err := m.cfg.Members(ctx, placement.Cluster{Name: name})
	if err != nil {
		return nil, err
	}
	return newCluster(name, cfg)
}

// done reports a change.
func (m *Migration) done(c *cluster, format string, args ...any) {
	m.cfg.Done(c.name + ": " + fmt.Sprintf(format, args...))
}

// list returns the objects of a kind in all namespaces, none where the server does not have the kind.
func (c *cluster) list(ctx context.Context, gvr schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	return c.listIn(ctx, gvr, metav1.NamespaceAll, metav1.ListOptions{})
}

// listIn returns those objects of a kind in a namespace that options select, none where the server does not have the kind.
func (c *cluster) listIn(ctx context.Context, gvr schema.GroupVersionResource, namespace string, o metav1.ListOptions) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	page := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.objects.Resource(gvr).Namespace(namespace).List(ctx, o)
	}
	err := pager.New(page).EachListItem(ctx, o, func(obj runtime.Object) error {
		all = append(all, obj.(*unstructured.Unstructured))
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: list %s: %w", c.name, gvr.Resource, err)
	}
	return all, nil
}

// agents returns the controllers of KubeFleet on the cluster.
func (c *cluster) agents(ctx context.Context, now time.Time) ([]Agent, error) {
	var all []Agent
	deployments, err := c.kube.AppsV1().Deployments("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: list deployments: %w", c.name, err)
	}
	for i := range deployments.Items {
		if a, ok := deploymentAgent(c.name, &deployments.Items[i]); ok {
			all = append(all, a)
		}
	}
	leases, err := c.kube.CoordinationV1().Leases("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("%s: list leases: %w", c.name, err)
	}
	for i := range leases.Items {
		if a, ok := leaseAgent(c.name, &leases.Items[i], now); ok {
			all = append(all, a)
		}
	}
	return all, nil
}

// uid identifies the cluster.
func (c *cluster) uid(ctx context.Context) (string, error) {
	ns, err := c.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.name, err)
	}
	return string(ns.UID), nil
}

// source returns what placements select from.
func (m *Migration) source() (*source.Source, error) {
	return source.New(m.cfg.Hub, source.Options{Rules: m.cfg.Rules})
}

// RefusedError says why nothing was changed.
type RefusedError struct {
	// Blockers name what has to be done first.
	Blockers []string
}

func (e *RefusedError) Error() string {
	return "nothing was changed:\n  " + strings.Join(e.Blockers, "\n  ")
}
