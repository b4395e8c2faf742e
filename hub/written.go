package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// written are the statuses that the hub wrote last, by the UID of the object: as
// long as an object is as the hub left it, what it says need not be compared field
// by field.
type written struct{ last sync.Map }

// statusMark is a status, and the version of the object that has it.
type statusMark struct {
	version string
	sum     [sha256.Size]byte
}

// is tells whether an object has a status; known is false where the object is not
// as the hub left it.
func (w *written) is(obj *unstructured.Unstructured, sum [sha256.Size]byte) (same, known bool) {
	last, ok := w.last.Load(obj.GetUID())
	if !ok || last.(statusMark).version != obj.GetResourceVersion() {
		return false, false
	}
	return last.(statusMark).sum == sum, true
}

func (w *written) note(uid types.UID, version string, sum [sha256.Size]byte) {
	w.last.Store(uid, statusMark{version, sum})
}

func (w *written) forget(uid types.UID) { w.last.Delete(uid) }

// writeStatus writes a status where it differs from what the object has.
func (s *service) writeStatus(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, status any) error {
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	same, known := s.written.is(obj, sum)
	if !known {
		next, err := toMap(status)
		if err != nil {
			return err
		}
		if same = reflect.DeepEqual(obj.Object["status"], any(next)); same {
			s.written.note(obj.GetUID(), obj.GetResourceVersion(), sum)
		}
	}
	if same {
		return nil
	}
	version, err := s.putStatus(ctx, gvr, obj, text)
	if err == nil && version != "" {
		s.written.note(obj.GetUID(), version, sum)
	}
	return settled(err)
}

// writeStatusMap is writeStatus for a status that others write too.
func (s *service) writeStatusMap(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, next map[string]any) error {
	if reflect.DeepEqual(obj.Object["status"], any(next)) {
		return nil
	}
	text, err := json.Marshal(next)
	if err != nil {
		return err
	}
	_, err = s.putStatus(ctx, gvr, obj, text)
	return settled(err)
}

// putStatus writes a status, if the object is still the one that obj is, and returns
// the object's version with it. It sends and asks for no more than that: the rest
// of an object is not changed by a write of its status, and what was written comes
// back by the watch.
func (s *service) putStatus(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, status json.RawMessage) (string, error) {
	head, err := json.Marshal(map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": obj.GetKind(),
		"metadata": map[string]any{
			"name": obj.GetName(), "namespace": obj.GetNamespace(), "uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(),
		},
	})
	if err != nil {
		return "", err
	}
	// The status is long, and JSON already.
	body := slices.Concat(bytes.TrimSuffix(head, []byte("}")), []byte(`,"status":`), []byte(status), []byte("}"))
	segments := []string{"apis", gvr.Group, gvr.Version}
	if ns := obj.GetNamespace(); ns != "" {
		segments = append(segments, "namespaces", ns)
	}
	segments = append(segments, gvr.Resource, obj.GetName(), "status")
	answer, err := s.kube.Discovery().RESTClient().Put().AbsPath(segments...).
		Param("fieldManager", manager).
		SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json").
		Body(body).DoRaw(ctx)
	if err != nil {
		return "", err
	}
	var now metav1.PartialObjectMetadata
	err = json.Unmarshal(answer, &now)
	return now.ResourceVersion, err
}
