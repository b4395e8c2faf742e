package hubtarget

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// The kinds of the Fleet API by the resources of their namespaced twins.
const (
	placementKind = "resourceplacements"
	snapshotKind  = "resourcesnapshots"
	strategyKind  = "stagedupdatestrategies"
	runKind       = "stagedupdateruns"
	requestKind   = "approvalrequests"
)

// Hub is a hub cluster as a person sees it who is authenticated by its API server. Its methods may be called
// concurrently.
type Hub struct {
	flags    *Flags
	client   dynamic.Interface
	metadata metadata.Interface
	// engine reads the store of the hub. It is not run.
	engine *fleet.Engine
	closes []func() error
}

// Open returns the hub that the flags name; nothing is asked of it yet. Members are reached by clusters, a kubeconfig
// whose contexts they are or a directory that has NAME.kubeconfig for each; without it what has to reach them says
// so. Close has to be called.
func Open(flags *Flags, clusters string) (*Hub, error) {
	config, err := flags.Config()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // a person's requests, of which one follows the other
	h := &Hub{flags: flags}
	if h.client, err = dynamic.NewForConfig(config); err != nil {
		return nil, err
	}
	if h.metadata, err = metadata.NewForConfig(config); err != nil {
		return nil, err
	}
	kept, err := store.New(config, store.Options{Namespace: flags.HubNamespace})
	if err != nil {
		return nil, err
	}
	members, err := inventory.NewMemberClusters(config, inventory.Options{})
	if err != nil {
		return nil, err
	}
	objects, err := source.New(config, source.Options{})
	if err != nil {
		return nil, err
	}
	h.closes = []func() error{kept.Close, members.Close, objects.Close}
	h.engine, err = fleet.New(fleet.Config{
		Store: &records{kept, flags.HubNamespace}, Inventory: members, Dialer: dialer(clusters), Source: objects, Name: "slipway",
		Rules: snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "Secret"}}}, // as a hub that is not told otherwise
	})
	return h, err
}

// Close ends the connections.
func (h *Hub) Close() (err error) {
	for _, end := range h.closes {
		err = errors.Join(err, end())
	}
	return err
}

func dialer(clusters string) backend.Dialer {
	if clusters == "" {
		return backend.DialerFunc(func(_ context.Context, c placement.Cluster) (backend.Conn, error) {
			return nil, fmt.Errorf("cluster %s: --clusters is not set: it names a kubeconfig whose contexts are the members, or a directory with NAME.kubeconfig for each: %w", c.Name, backend.ErrPermanent)
		})
	}
	configs := member.KubeconfigContexts(clusters, member.Trusted())
	if info, err := os.Stat(clusters); err == nil && info.IsDir() {
		configs = member.KubeconfigDirectory(clusters, member.Trusted())
	}
	return member.NewDialer(configs, member.Options{})
}

// records is the store of the hub. Where it may not be read, it says what that takes.
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

// explain says what it takes to read records.
func (s *records) explain(err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	return fmt.Errorf("%w: this is read from the records of the hub, which takes the verbs get and list for Secrets in namespace %s; no role of the hub gives them to people, since the credentials of members may be there: kubectl create role slipway-records -n %s --verb=get,list --resource=secrets", err, s.namespace, s.namespace)
}

// key is the object that a person names: of --namespace, or, with --all-namespaces, NAMESPACE/NAME.
func (h *Hub) key(name string) types.NamespacedName {
	if namespace, rest, ok := strings.Cut(name, "/"); ok && h.flags.AllNamespaces {
		return types.NamespacedName{Namespace: namespace, Name: rest}
	}
	return types.NamespacedName{Namespace: h.flags.namespace(), Name: name}
}

// shown is how a person names an object.
func (h *Hub) shown(namespace, name string) string {
	if h.flags.AllNamespaces && namespace != "" {
		return namespace + "/" + name
	}
	return name
}

// resource is a kind in a namespace, or its twin outside of all.
func (h *Hub) resource(kind, namespace string) dynamic.ResourceInterface {
	return h.client.Resource(gvr(kind, namespace != "")).Namespace(namespace)
}

func gvr(kind string, namespaced bool) schema.GroupVersionResource {
	if !namespaced {
		kind = "cluster" + kind
	}
	return schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Resource: kind}
}

// list returns the objects of a kind that the flags ask for.
func list[T any](h *Hub, kind string, get func(gvr schema.GroupVersionResource, namespace string) ([]T, error)) ([]T, error) {
	namespace := h.flags.namespace()
	out, err := get(gvr(kind, namespace != ""), namespace)
	if err == nil && h.flags.AllNamespaces {
		var others []T
		others, err = get(gvr(kind, true), metav1.NamespaceAll)
		out = append(out, others...)
	}
	if err != nil {
		return nil, h.explain(err, namespace, "viewer")
	}
	return out, nil
}

// objects returns the objects of a kind that the flags ask for.
func (h *Hub) objects(ctx context.Context, kind string) ([]unstructured.Unstructured, error) {
	return list(h, kind, func(gvr schema.GroupVersionResource, namespace string) ([]unstructured.Unstructured, error) {
		l, err := h.client.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		return l.Items, nil
	})
}

// explain adds to an error of the API server which role allows what it refuses, that of reading where it is that, or
// that the cluster is no hub.
func (h *Hub) explain(err error, namespace, role string) error {
	switch {
	case apierrors.IsForbidden(err):
		if strings.Contains(err.Error(), "cannot get") || strings.Contains(err.Error(), "cannot list") {
			role = "viewer"
		}
		binding, name := "clusterrolebinding NAME", "slipway-cluster-"+role
		if namespace != "" {
			binding = "rolebinding NAME -n " + namespace
		}
		if namespace != "" || role == "approver" {
			name = "slipway-" + role
		}
		return fmt.Errorf("%w: the role %s allows it: kubectl create %s --clusterrole=%s --user=NAME", err, name, binding, name)
	case err != nil && strings.Contains(err.Error(), "could not find the requested resource"):
		return fmt.Errorf("%w: the cluster is no hub: %s hub install makes it one", err, h.flags.command)
	}
	return err
}
