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

// Config describes the fleet. Hub and Members are required.
type Config struct {
	// Hub connects to the API server of the hub, with the rights of cluster-admin. It is neither
	// changed nor kept.
	Hub *rest.Config
	// Members returns the connection to a member's API server by the name of its MemberCluster,
	// with the rights of cluster-admin. Examples are [member.KubeconfigDirectory] and its siblings.
	Members member.ConfigFunc
	// Namespace is the namespace of the records of a hub of package hub; the default is
	// slipway-system.
	Namespace string
	// Rules are the rules of the future hub: excluded objects are not taken over. Secrets are
	// excluded unless Secrets is set, as in the hub of the command.
	Rules   snapshot.Rules
	Secrets bool
	// NamespaceRules are the rules of the future hub for placements in namespaces; nil is
	// snapshot.NamespaceRules().
	NamespaceRules *snapshot.Rules
	// Backup is the path of the backup file, which TakeOver and GiveBack require. TakeOver writes
	// the objects that it removes, GiveBack only the records and ledgers. The file may contain
	// Secrets.
	Backup string
	// AcceptDifferences allows taking over placements that Slipway would change at once.
	AcceptDifferences bool
	// Done is called after each change, never concurrently; may be nil.
	Done func(change string)
}

// Migration moves a fleet from KubeFleet to package hub, and back. Its methods must not be called
// concurrently.
type Migration struct {
	cfg  Config
	hub  *cluster
	now  func() time.Time
	wait time.Duration
}

// cluster is a connection to an API server.
type cluster struct {
	name    string
	config  *rest.Config
	objects dynamic.Interface
	// metadata reads and writes the metadata of objects, so that the content of Secrets is not
	// read.
	metadata metadata.Interface
	kube     kubernetes.Interface
}

// New returns a migration. It sends no request.
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

// list returns the objects of a kind in all namespaces; none if the server does not have the kind.
func (c *cluster) list(ctx context.Context, gvr schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	return c.listIn(ctx, gvr, metav1.NamespaceAll, metav1.ListOptions{})
}

// listIn returns the objects of a kind in a namespace that match the options; none if the server
// does not have the kind.
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

// uid returns the UID of the cluster's namespace kube-system.
func (c *cluster) uid(ctx context.Context) (string, error) {
	ns, err := c.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.name, err)
	}
	return string(ns.UID), nil
}

// source returns the source of the objects that placements select.
func (m *Migration) source() (*source.Source, error) {
	return source.New(m.cfg.Hub, source.Options{Rules: m.cfg.Rules})
}

// RefusedError says that the call was refused and changed nothing.
type RefusedError struct {
	// Blockers are the obstacles to remove first.
	Blockers []string
}

func (e *RefusedError) Error() string {
	return "nothing was changed:\n  " + strings.Join(e.Blockers, "\n  ")
}
