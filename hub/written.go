package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// written are the statuses that the hub wrote last, by the UID of the object: as
// long as an object is as the hub left it, what it says need not be compared field
// by field, nor read back.
type written struct {
	mu   sync.Mutex
	last map[types.UID]statusMark
	// changed are objects of which the hub changed the metadata last.
	changed map[types.UID]ownChange
	// writing are the writes on their way: each is closed when it has ended.
	writing map[types.UID]chan struct{}
}

// ownChange is the version that an object got by a change of the hub's, and the object as
// the server answered it, until the watch tells of that.
type ownChange struct {
	version string
	obj     *unstructured.Unstructured
}

// statusMark is a status, and the version of the object that has it; before is the
// version in which it was written.
type statusMark struct {
	before, version string
	sum             [sha256.Size]byte
	// readAgain is what the hub reads of the status later on. It is shared.
	readAgain map[string]any
}

// readAgain is what is read again of the status of a placement or a run that the hub
// wrote.
type readAgain struct {
	Conditions  []metav1.Condition `json:"conditions,omitempty"`
	Events      int64              `json:"observedEvents,omitempty"`
	RollbackRun string             `json:"rollbackRunName,omitempty"`
}

func (s *placementStatus) readAgain() *readAgain { return &readAgain{Conditions: s.Conditions} }

func (s *runStatus) readAgain() *readAgain {
	return &readAgain{s.Conditions, s.Events, s.RollbackRun}
}

// is reports whether an object has a status; known is false where the object is not
// as the hub left it.
func (w *written) is(obj *unstructured.Unstructured, sum [sha256.Size]byte) (same, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.last[obj.GetUID()]
	if !ok || last.version != obj.GetResourceVersion() {
		return false, false
	}
	return last.sum == sum, true
}

func (w *written) note(uid types.UID, mark statusMark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil {
		w.last = map[types.UID]statusMark{}
	}
	w.last[uid] = mark
}

func (w *written) forget(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.last, uid)
	delete(w.changed, uid)
}

// keep keeps an object that the hub changed for the watch, which is told of that version.
func (w *written) keep(obj *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = map[types.UID]ownChange{}
	}
	w.changed[obj.GetUID()] = ownChange{obj.GetResourceVersion(), obj}
}

// take is the object that was kept in that version, which the watch is told of; nil for
// none.
func (w *written) take(uid types.UID, version string) *unstructured.Unstructured {
	w.mu.Lock()
	defer w.mu.Unlock()
	own, ok := w.changed[uid]
	if !ok || own.version != version {
		return nil
	}
	w.changed[uid] = ownChange{version: version}
	return own.obj
}

// isOwn reports whether an object is as a change of the hub's left it.
func (w *written) isOwn(obj *unstructured.Unstructured) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	own, ok := w.changed[obj.GetUID()]
	return ok && own.version == obj.GetResourceVersion()
}

// lay gives an object the status that was written since it was as it is, if nothing
// else was.
func (w *written) lay(obj *unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mark, ok := w.last[obj.GetUID()]
	if ok && mark.readAgain != nil && mark.before == obj.GetResourceVersion() && obj.GetDeletionTimestamp() == nil {
		obj.SetResourceVersion(mark.version)
		obj.Object["status"] = mark.readAgain
	}
}

// begin reports that a status is about to be written, end that this is noted, or came to
// nothing.
func (w *written) begin(uid types.UID) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.writing == nil {
		w.writing = map[types.UID]chan struct{}{}
	}
	done := make(chan struct{})
	w.writing[uid] = done
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.writing[uid] == done {
			delete(w.writing, uid)
		}
		close(done)
	}
}

// settled is what was written last, once a write that is on its way has ended, for
// which it waits a while.
func (w *written) settled(ctx context.Context, uid types.UID) (statusMark, bool) {
	w.mu.Lock()
	writing := w.writing[uid]
	w.mu.Unlock()
	if writing != nil {
		ctx, cancel := context.WithTimeout(ctx, longestWrite)
		defer cancel()
		select {
		case <-writing:
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	mark, ok := w.last[uid]
	return mark, ok
}

// longestWrite is how long a watch waits for the answer to a write, of which it may
// have been told before.
const longestWrite = time.Second

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
			s.written.note(obj.GetUID(), statusMark{version: obj.GetResourceVersion(), sum: sum})
		}
	}
	if same {
		return nil
	}
	mark := statusMark{before: obj.GetResourceVersion(), sum: sum}
	if again, ok := status.(interface{ readAgain() *readAgain }); ok {
		if mark.readAgain, err = toMap(again.readAgain()); err != nil {
			return err
		}
	}
	defer s.written.begin(obj.GetUID())()
	if mark.version, err = s.putStatus(ctx, gvr, obj, text); err == nil && mark.version != "" {
		s.written.note(obj.GetUID(), mark)
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
