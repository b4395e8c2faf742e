package member

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
)

// List lists the metadata of all namespaced kinds that the API server serves and that can be
// listed and deleted. It discovers the kinds each time, because a forgotten kind would hide
// objects.
func (c *conn) List(ctx context.Context, namespace string) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		fail := func(err error) { yield(nil, api.Classify("list", "namespace "+namespace, err)) }
		if err := c.usable(ctx); err != nil {
			fail(err)
			return
		}
		kinds, err := c.client.listed(ctx)
		if err != nil {
			fail(err)
			return
		}
		for _, kind := range kinds {
			for obj, err := range c.client.list(ctx, kind, namespace) {
				if err != nil {
					fail(err)
					return
				}
				if !yield(obj, nil) {
					return
				}
			}
		}
	}
}

// listed returns the namespaced kinds, each in one version.
func (c *client) listed(ctx context.Context) ([]served, error) {
	var groups metav1.APIGroupList
	if err := c.discover(ctx, "/apis", &groups); err != nil {
		return nil, err
	}
	versions := []schema.GroupVersion{{Version: "v1"}}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			versions = append(versions, schema.GroupVersion{Group: g.Name, Version: v.Version})
		}
	}
	var out []served
	known := map[schema.GroupResource]bool{}
	for _, gv := range versions {
		var list metav1.APIResourceList
		if err := c.discover(ctx, groupPath(gv), &list); err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			at := schema.GroupResource{Group: gv.Group, Resource: r.Name}
			deletable := slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "delete")
			if !r.Namespaced || !deletable || strings.Contains(r.Name, "/") || known[at] {
				continue
			}
			known[at] = true
			out = append(out, served{gvk: gv.WithKind(r.Kind), resource: r.Name, namespaced: true})
		}
	}
	return out, nil
}

// list yields the metadata of the objects of a kind in a namespace.
func (c *client) list(ctx context.Context, kind served, namespace string) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		o := metav1.ListOptions{Limit: listPage}
		for range listPages {
			var page metaPage[map[string]any]
			if err := c.readPage(ctx, kind.collection(namespace), o, &page); err != nil {
				yield(nil, err)
				return
			}
			for _, item := range page.Items {
				obj := &unstructured.Unstructured{Object: map[string]any{"metadata": item["metadata"]}}
				obj.SetGroupVersionKind(kind.gvk)
				if !yield(obj, nil) {
					return
				}
			}
			if o.Continue = page.Metadata.Continue; o.Continue == "" {
				return
			}
		}
		yield(nil, api.Permanent(fmt.Errorf("the member's list of %s has more than %d pages", kind.resource, listPages)))
	}
}
