// Package hubapi serves the API of package fleet/httpapi on a hub cluster, so that a command or a
// page for an engine works on a hub, too. It acts with the rights of its caller, as the API
// server of the hub authenticates the caller:
//
//   - it reads lists of placements, runs and approval requests from the objects of the Fleet API,
//     by one request each;
//   - it makes changes to those objects. An answer is a condition in the status of an
//     (Cluster)ApprovalRequest, and the admission policies of package hub/manifests record its
//     author. Start, stop and rollback set the spec.state of a (Cluster)StagedUpdateRun, which is
//     also created and deleted. The hub has 3 seconds to respond to a change, and if it refuses the
//     change, the refusal is the error. To cordon a member, it changes the MemberCluster; to drain
//     a member, it also creates ClusterResourcePlacementEvictions;
//   - it reads everything else from the records of the hub, for which the caller needs the right to
//     get and list the Secrets of the hub's namespace. No role of package hub/manifests gives that
//     right to people. If a run has an object and no record, the error has the state that the
//     object shows, and the reason: see [Hub.Unrecorded].
//
// Requests for which the Fleet API has no object are refused: skip, retry, abort, catch-up and
// caps. Reasons and titles are refused too, because a hub does not record them.
package hubapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	discached "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/kubehttp"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Config names the hub, the caller's access to it, and the objects to serve.
type Config struct {
	// Rest reaches the API server of the hub with the caller's rights. New copies it and does not
	// change it.
	Rest *rest.Config
	// Namespace is the namespace of the served objects; "" stands for the objects outside of all
	// namespaces.
	Namespace string
	// AllNamespaces serves the objects of all namespaces, named NAMESPACE/NAME, and the objects
	// outside of them. Namespace is then ignored.
	AllNamespaces bool
	// HubNamespace is the namespace of the hub's records; default slipway-system.
	HubNamespace string
	// Dialer reaches the members, for comparisons with them. If it is nil, these comparisons fail with
	// the error that members cannot be reached.
	Dialer backend.Dialer
	// Rules exclude objects that the hub never places, for previews. The zero value excludes the same
	// objects as the zero value of fleet.Config.Rules.
	Rules snapshot.Rules
}

// Hub is a hub cluster with the rights of one caller. Its methods may be called concurrently.
type Hub struct {
	namespace string
	all       bool
	client    dynamic.Interface
	metadata  metadata.Interface
	// mapper finds the resource of a kind; it asks the API server when it is first used.
	mapper meta.RESTMapper
	// raw requests objects as the API server's tables.
	raw rest.Interface
	// engine reads the records of the hub. It does not run.
	engine *fleet.Engine
	store  *records
	closes []func() error
}

// New returns the hub and sends no request. The caller must call Close.
func New(cfg Config) (*Hub, error) {
	if cfg.Rest == nil {
		return nil, errors.New("hubapi: Config.Rest is missing: it reaches the hub cluster")
	}
	config := rest.CopyConfig(cfg.Rest)
	if config.QPS == 0 && config.RateLimiter == nil {
		config.QPS = -1 // one request follows the other
	}
	h := &Hub{namespace: cfg.Namespace, all: cfg.AllNamespaces}
	if h.all {
		h.namespace = ""
	}
	var err error
	if h.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if h.metadata, err = kubehttp.Metadata(config, nil); err != nil {
		return nil, err
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	h.mapper = restmapper.NewDeferredDiscoveryRESTMapper(discached.NewMemCacheClient(kinds))
	plain := rest.CopyConfig(config)
	plain.NegotiatedSerializer, plain.DisableCompression = unstructuredscheme.NewUnstructuredNegotiatedSerializer(), true
	plain.Wrap(kubehttp.ReadRefusals)
	if h.raw, err = rest.UnversionedRESTClientFor(plain); err != nil {
		return nil, err
	}
	kept, err := store.New(config, store.Options{Namespace: cfg.HubNamespace})
	if err != nil {
		return nil, err
	}
	members, err := inventory.NewMemberClusters(config, inventory.Options{})
	if err != nil {
		return nil, err
	}
	objects, err := source.New(config, source.Options{Rules: cfg.Rules})
	if err != nil {
		return nil, err
	}
	h.closes = []func() error{kept.Close, members.Close, objects.Close}
	if cfg.Dialer == nil {
		cfg.Dialer = backend.DialerFunc(unreachable)
	}
	h.store = &records{kept, cmp.Or(cfg.HubNamespace, "slipway-system")}
	h.engine, err = fleet.New(fleet.Config{
		Store: h.store, Inventory: members, Dialer: cfg.Dialer, Source: objects, Rules: cfg.Rules,
	})
	return h, err
}

func unreachable(_ context.Context, c placement.Cluster) (backend.Conn, error) {
	return nil, fmt.Errorf("cluster %s: nothing says how members are reached: %w", c.Name, backend.ErrPermanent)
}

// Records returns the store of the hub's records, and an engine on it that does not run. They
// serve the workflows of applications, which the API does not have. They may be used until the
// hub is closed.
func (h *Hub) Records() (*fleet.Engine, backend.Store) { return h.engine, h.store }

// Identity returns the identity of the caller, as the API server authenticates it.
func (h *Hub) Identity(ctx context.Context) (approval.Identity, error) {
	question := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}}
	resource := schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "selfsubjectreviews"}
	answer, err := h.client.Resource(resource).Create(ctx, question, metav1.CreateOptions{})
	if err != nil {
		return approval.Identity{}, fmt.Errorf("the identity of the caller is unknown: %w", err)
	}
	name, _, _ := unstructured.NestedString(answer.Object, "status", "userInfo", "username")
	groups, _, _ := unstructured.NestedStringSlice(answer.Object, "status", "userInfo", "groups")
	return approval.Identity{Name: name, Groups: groups}, nil
}

// Close ends the connections.
func (h *Hub) Close() (err error) {
	for _, end := range h.closes {
		err = errors.Join(err, end())
	}
	return err
}

// records is the store of the hub. If the caller may not read it, the error names the missing
// rights.
type records struct {
	*store.Store
	namespace string
}

func (s *records) Get(ctx context.Context, key string) (backend.Record, error) {
	r, err := s.Store.Get(ctx, key)
	return r, s.explain(err)
}

func (s *records) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		for r, err := range s.Store.List(ctx, prefix) {
			if !yield(r, s.explain(err)) {
				return
			}
		}
	}
}

// explain adds the rights that reading records needs to a Forbidden error.
func (s *records) explain(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return &httpapi.Error{Code: http.StatusForbidden, Reason: string(metav1.StatusReasonForbidden), Message: fmt.Sprintf(
		"%v: this is read from the records of the hub, which takes the verbs get and list for Secrets in namespace %s; no role of the hub gives them to people, since the credentials of members may be there: kubectl create role slipway-records -n %s --verb=get,list --resource=secrets",
		err, s.namespace, s.namespace)}
}

// key returns the key of the object that a request names.
func (h *Hub) key(name string) types.NamespacedName {
	if namespace, rest, ok := strings.Cut(name, "/"); ok && h.all {
		return types.NamespacedName{Namespace: namespace, Name: rest}
	}
	return types.NamespacedName{Namespace: h.namespace, Name: name}
}

// shown returns the name of an object in answers.
func (h *Hub) shown(namespace, name string) string {
	if h.all && namespace != "" {
		return namespace + "/" + name
	}
	return name
}

// resource returns the client of a kind in a namespace, or of its cluster-scoped twin if
// namespace is "".
func (h *Hub) resource(kind, namespace string) dynamic.ResourceInterface {
	return h.client.Resource(api.Scope(namespace != "").GVR(kind)).Namespace(namespace)
}

// list returns the objects of a kind in the served namespaces.
func list[T any](h *Hub, kind string, get func(gvr schema.GroupVersionResource, namespace string) ([]T, error)) ([]T, error) {
	out, err := get(api.Scope(h.namespace != "").GVR(kind), h.namespace)
	if err == nil && h.all {
		var others []T
		others, err = get(api.NamespaceScope.GVR(kind), metav1.NamespaceAll)
		out = append(out, others...)
	}
	if err != nil {
		return nil, explain(err, h.namespace, "viewer")
	}
	return out, nil
}

// objects returns the full objects of a kind in the served namespaces.
func (h *Hub) objects(ctx context.Context, kind string) ([]unstructured.Unstructured, error) {
	return list(h, kind, func(gvr schema.GroupVersionResource, namespace string) ([]unstructured.Unstructured, error) {
		l, err := h.client.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return l.Items, nil
	})
}

// explain adds the remedy to an error of the API server: the role that allows a forbidden request,
// or how to install a hub if the cluster is none.
func explain(err error, namespace, role string) error {
	switch {
	case apierrors.IsForbidden(err):
		binding, name := "clusterrolebinding NAME", "slipway-cluster-"+role
		if namespace != "" {
			binding = "rolebinding NAME -n " + namespace
		}
		if namespace != "" || role == "approver" {
			name = "slipway-" + role
		}
		return fmt.Errorf("%w: the role %s allows it: kubectl create %s --clusterrole=%s --user=NAME", err, name, binding, name)
	case kubehttp.NoSuchKind(err):
		return fmt.Errorf("%w: the cluster is no hub: slipway hub install makes it one", err)
	}
	return err
}
