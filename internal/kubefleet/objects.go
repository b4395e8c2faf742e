package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// kindOf returns the resource with a plural name.
func kindOf(name string) schema.GroupVersionResource {
	switch name {
	case "configmaps", "namespaces":
		return schema.GroupVersionResource{Version: "v1", Resource: name}
	case "deployments":
		return schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: name}
	case "memberclusters":
		return schema.GroupVersionResource{Group: "cluster.kubernetes-fleet.io", Version: "v1beta1", Resource: name}
	default:
		return schema.GroupVersionResource{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Resource: name}
	}
}

// object is the location of an object: on a server, of a kind, in a namespace or in none.
type object struct {
	on                        dynamic.Interface
	resource, namespace, name string
}

func (o *object) client() dynamic.ResourceInterface {
	if o.namespace == "" {
		return o.on.Resource(kindOf(o.resource))
	}
	return o.on.Resource(kindOf(o.resource)).Namespace(o.namespace)
}

// create creates the objects of documents in YAML.
func create(ctx context.Context, on dynamic.Interface, text string) error {
	for document := range strings.SplitSeq(text, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			return fmt.Errorf("%w in %s", err, document)
		}
		o := object{on: on, resource: strings.ToLower(u.GetKind()) + "s", namespace: u.GetNamespace()}
		if stem, is := strings.CutSuffix(o.resource, "ys"); is {
			o.resource = stem + "ies"
		}
		if _, err := o.client().Create(ctx, u, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create %s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	return nil
}

func (o *object) patch(ctx context.Context, patch string, subresource ...string) error {
	_, err := o.client().Patch(ctx, o.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "kubectl-edit"}, subresource...)
	return err
}

func (o *object) get(ctx context.Context) (*unstructured.Unstructured, error) {
	return o.client().Get(ctx, o.name, metav1.GetOptions{})
}

// await watches the object until done accepts it. It fails after the duration within.
func (o *object) await(ctx context.Context, within time.Duration, what string, done func(*unstructured.Unstructured) bool) error {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var last *unstructured.Unstructured
	for limited.Err() == nil {
		events, err := o.client().Watch(limited, metav1.ListOptions{FieldSelector: "metadata.name=" + o.name})
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for event := range events.ResultChan() {
			u, is := event.Object.(*unstructured.Unstructured)
			if !is || event.Type == watch.Deleted || event.Type == watch.Bookmark {
				continue
			}
			if last = u; done(u) {
				events.Stop()
				return nil
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	text := []byte("it does not exist")
	if last != nil {
		text, _ = yaml.Marshal(last.Object["status"])
	}
	return fmt.Errorf("%s %s: not %s within %v: %w: %s", o.resource, o.name, what, within, errLate, text)
}

var errLate = errors.New("the time is up")

// condition reports whether a condition has a status.
func condition(u *unstructured.Unstructured, kind, status string) bool {
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range all {
		c, _ := c.(map[string]any)
		if c["type"] == kind {
			return c["status"] == status
		}
	}
	return false
}

// value returns the value in a ConfigMap of the measurement.
func value(u *unstructured.Unstructured) string {
	text, _, _ := unstructured.NestedString(u.Object, "data", "value")
	return text
}
