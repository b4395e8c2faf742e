package objects

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// WriteStatus writes a status if it differs from the status in obj.
func (c *Client) WriteStatus(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, status any) error {
	next, err := api.ToMap(status)
	if err != nil {
		return err
	}
	return c.WriteStatusMap(ctx, gvr, obj, next)
}

// WriteStatusMap is [Client.WriteStatus] for a status that is a map already.
func (c *Client) WriteStatusMap(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, next map[string]any) error {
	if reflect.DeepEqual(obj.Object["status"], any(next)) {
		return nil
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return Settled(c.putStatus(ctx, gvr, obj, text))
}

// putStatus writes a status, if the object still has the UID and resourceVersion of obj. It sends
// and requests only the status: the write does not change the rest of the object, and the watch
// returns the result.
func (c *Client) putStatus(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, status json.RawMessage) error {
	head, err := json.Marshal(map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": obj.GetKind(),
		"metadata": map[string]any{
			"name": obj.GetName(), "namespace": obj.GetNamespace(), "uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(),
		},
	})
	if err != nil {
		return err
	}
	// The status is long and already encoded as JSON.
	body := slices.Concat(bytes.TrimSuffix(head, []byte("}")), []byte(`,"status":`), []byte(status), []byte("}"))
	segments := []string{"apis", gvr.Group, gvr.Version}
	if ns := obj.GetNamespace(); ns != "" {
		segments = append(segments, "namespaces", ns)
	}
	segments = append(segments, gvr.Resource, obj.GetName(), "status")
	return c.Kube.Discovery().RESTClient().Put().AbsPath(segments...).
		Param("fieldManager", api.Manager).
		SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json").
		Body(body).Do(ctx).Error()
}

// PatchStatusMap writes only the fields of a status that differ from obj, if the object still has
// the UID and resourceVersion of obj. A map in a field replaces the old map: keys that next lacks
// are removed.
func (c *Client) PatchStatusMap(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, next map[string]any) error {
	before, _ := obj.Object["status"].(map[string]any)
	fields := map[string]any{}
	for name, v := range next {
		if !reflect.DeepEqual(before[name], v) {
			fields[name] = replacing(before[name], v)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion()}, "status": fields,
	})
	if err != nil {
		return err
	}
	_, err = c.Dynamic.Resource(gvr).Namespace(obj.GetNamespace()).Patch(ctx, obj.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: api.Manager}, "status")
	return Settled(err)
}

// replacing returns the merge patch that turns before into next.
func replacing(before, next any) any {
	old, isMap := before.(map[string]any)
	now, areMaps := next.(map[string]any)
	if !isMap || !areMaps {
		return next
	}
	out := map[string]any{}
	for name := range old {
		if _, ok := now[name]; !ok {
			out[name] = nil
		}
	}
	for name, v := range now {
		if !reflect.DeepEqual(old[name], v) {
			out[name] = replacing(old[name], v)
		}
	}
	return out
}
