package hubtarget

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// The kinds of the Fleet API by the resources of their namespaced twins.
const (
	runs       = "stagedupdateruns"
	placements = "resourceplacements"
	requests   = "approvalrequests"
)

// Hub is a hub cluster as a person sees it who is authenticated by its API server. Its methods may be called
// concurrently.
type Hub struct {
	flags  *Flags
	client dynamic.Interface
	// engine reads the store of the hub. It is not run, and cannot write.
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
	records, err := store.New(config, store.Options{Namespace: flags.HubNamespace})
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
	h.closes = []func() error{records.Close, members.Close, objects.Close}
	h.engine, err = fleet.New(fleet.Config{
		Store: &readOnly{records, flags.HubNamespace}, Inventory: members, Dialer: dialer(clusters), Source: objects, Name: "slipway",
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

// Engine returns the engine by which the records of the hub are read, under the names that [Hub.EngineName] returns.
// What would write them fails.
func (h *Hub) Engine() *fleet.Engine { return h.engine }

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

// readOnly is a store whose records are the hub's to write.
type readOnly struct {
	*store.Store
	namespace string
}

func (s *readOnly) Put(_ context.Context, key string, _ []byte, _ backend.Revision) (backend.Revision, error) {
	return "", &backend.Error{Op: "put", Object: key, Err: s.refusal()}
}

func (s *readOnly) Delete(_ context.Context, key string, _ backend.Revision) error {
	return &backend.Error{Op: "delete", Object: key, Err: s.refusal()}
}

func (s *readOnly) refusal() error {
	return fmt.Errorf("the records in namespace %s are written by the hub alone: %w", s.namespace, backend.ErrPermanent)
}

// key is the object that a person names: of --namespace, or, with --all-namespaces, NAMESPACE/NAME.
func (h *Hub) key(name string) types.NamespacedName {
	if namespace, rest, ok := strings.Cut(name, "/"); ok && h.flags.AllNamespaces {
		return types.NamespacedName{Namespace: namespace, Name: rest}
	}
	return types.NamespacedName{Namespace: *h.flags.Namespace, Name: name}
}

// shown is how a person names an object.
func (h *Hub) shown(k types.NamespacedName) string {
	if h.flags.AllNamespaces && k.Namespace != "" {
		return k.Namespace + "/" + k.Name
	}
	return k.Name
}

// EngineName is what the records of the hub call the object that a person names.
func (h *Hub) EngineName(name string) string {
	k := h.key(name)
	return kubefleet.EngineName(k.Namespace, k.Name)
}

// ShownName is how a person names the object that the records call so; ok is false for one of another namespace than
// the flags ask for.
func (h *Hub) ShownName(engineName string) (name string, ok bool) {
	namespace, name, known := kubefleet.ObjectName(engineName)
	if !known {
		return engineName, h.flags.AllNamespaces
	}
	k := types.NamespacedName{Namespace: namespace, Name: name}
	return h.shown(k), h.flags.AllNamespaces || namespace == *h.flags.Namespace
}

// resource is a kind in a namespace, or outside of all.
func (h *Hub) resource(kind, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return h.client.Resource(gvr("cluster" + kind))
	}
	return h.client.Resource(gvr(kind)).Namespace(namespace)
}

func gvr(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Resource: resource}
}

// list returns the objects of a kind that the flags ask for.
func (h *Hub) list(ctx context.Context, kind string) ([]unstructured.Unstructured, error) {
	namespace := *h.flags.Namespace
	if !h.flags.AllNamespaces {
		l, err := h.resource(kind, namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, h.explain(err, namespace, "viewer")
		}
		return l.Items, nil
	}
	own, err := h.resource(kind, "").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, h.explain(err, "", "viewer")
	}
	all, err := h.client.Resource(gvr(kind)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, h.explain(err, "", "viewer")
	}
	return append(own.Items, all.Items...), nil
}

// explain adds to an error of the API server which role allows what it refuses, or that the cluster is no hub.
func (h *Hub) explain(err error, namespace, role string) error {
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
	case strings.Contains(err.Error(), "could not find the requested resource"):
		return fmt.Errorf("%w: the cluster is no hub: %s hub install makes it one", err, h.flags.command)
	}
	return err
}
