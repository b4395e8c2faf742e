package hub_test

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	kubemember "github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// tenants is a dialer that makes many members out of one API server. Each member has the namespaces
// that end in its name. All members share the objects that are in no namespace.
type tenants struct {
	servers []*rest.Config
	of      func(member string) int
	options kubemember.Options
}

func (d *tenants) Dial(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
	conn, err := kubemember.NewConn(d.servers[d.of(c.Name)], d.options)
	if err != nil {
		return nil, err
	}
	return &tenant{conn.(kubeConn), "-" + c.Name}, nil
}

type kubeConn interface {
	backend.ConnWatcher
	backend.ConnDryRunner
}

// tenant is a connection to one of these members.
type tenant struct {
	next   kubeConn
	suffix string
}

// there converts an ID of the member to the API server's. here converts an object of the API server
// to the member's.
func (t *tenant) there(id snapshot.ID) snapshot.ID {
	switch {
	case id.Namespace != "" && id.Namespace != "kube-system":
		id.Namespace += t.suffix
	case id.Group == "" && id.Kind == "Namespace" && id.Name != "kube-system":
		id.Name += t.suffix
	}
	return id
}

func (t *tenant) rename(obj *unstructured.Unstructured) *unstructured.Unstructured {
	id := t.there(snapshot.IDOf(obj))
	out := obj.DeepCopy()
	out.SetNamespace(id.Namespace)
	out.SetName(id.Name)
	relabel(out, id.Name)
	return out
}

// relabel sets the label of a namespace that the API server would set.
func relabel(obj *unstructured.Unstructured, name string) {
	const label = "kubernetes.io/metadata.name"
	if labels := obj.GetLabels(); labels[label] != "" {
		labels[label] = name
		obj.SetLabels(labels)
	}
}

func (t *tenant) here(obj *unstructured.Unstructured, id snapshot.ID) *unstructured.Unstructured {
	if obj != nil {
		if obj.GetNamespace() != "" {
			obj.SetNamespace(id.Namespace)
		}
		obj.SetName(id.Name)
		relabel(obj, id.Name)
	}
	return obj
}

func (t *tenant) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	obj, err := t.next.Get(ctx, t.there(id))
	return t.here(obj, id), err
}

func (t *tenant) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	got, err := t.next.Apply(ctx, t.rename(obj), o)
	return t.here(got, snapshot.IDOf(obj)), err
}

func (t *tenant) DryRun(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	got, err := t.next.DryRun(ctx, t.rename(obj), o)
	return t.here(got, snapshot.IDOf(obj)), err
}

func (t *tenant) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	return t.next.Delete(ctx, t.there(id), o)
}

func (t *tenant) Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error] {
	mapped := make([]snapshot.ID, len(ids))
	for i, id := range ids {
		mapped[i] = t.there(id)
	}
	return t.next.Watch(ctx, mapped)
}

func (t *tenant) Close() error { return t.next.Close() }
