package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

// noVersion is a resourceVersion that no object has: the revisions of etcd begin at 1 with an
// empty store, so the first object gets 2. An apply with it atomically creates a missing object,
// or fails with a conflict if the object exists. (An apply without a uid creates a missing object
// whatever version it carries, so a version alone protects nothing.)
const noVersion = "1"

// isUnappliable reports whether a server-side apply must not have a field of metadata, or reads
// it as a precondition.
func isUnappliable(k string, _ any) bool {
	return k == "managedFields" || k == "uid" || k == "resourceVersion"
}

func (c *conn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	live, err := c.apply(ctx, obj, o, false)
	if err != nil {
		return nil, failed("apply", snapshot.IDOf(obj), err)
	}
	return live, nil
}

func (c *conn) DryRun(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	live, err := c.apply(ctx, obj, o, true)
	if err != nil {
		return nil, failed("dry run", snapshot.IDOf(obj), err)
	}
	return live, nil
}

// apply applies an object; if dry, it only returns the result.
func (c *conn) apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions, dry bool) (*unstructured.Unstructured, error) {
	id := snapshot.IDOf(obj)
	if o.Manager == "" {
		return nil, api.Permanent(errors.New("the manager is empty, it must be named"))
	}
	if err := c.recognize(ctx); err != nil {
		return nil, err
	}
	at, err := c.place(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(o.Owners) > 0 && !dry {
		if o.ResourceVersion, err = c.setOwners(ctx, at, o); err != nil {
			return nil, err
		}
	}
	want, err := c.complete(ctx, id, o.Precondition)
	if err != nil {
		return nil, err
	}
	if c.fenced {
		want.labelled = o.Fence.Annotation != "" && obj.GetAnnotations()[o.Fence.Annotation] == ""
		if o.Absent {
			want.annotation, want.mark = o.Fence.Annotation, o.Fence.Mark
		}
	}
	body, err := applyBody(obj, want)
	if err != nil {
		return nil, err
	}
	query := url.Values{"fieldManager": {o.Manager}, "force": {strconv.FormatBool(!o.RefuseConflicts)}}
	if dry {
		query.Set("dryRun", "All")
	}
	patch := request{verb: http.MethodPatch, path: at.path, query: query, contentType: applyType, body: body}
	read := c.client.limits.object
	if o.Brief {
		patch.accept = briefType
		read = func(answer []byte) (*unstructured.Unstructured, error) { return briefOf(obj, answer) }
	}
	answer, err := c.write(ctx, patch)
	if err != nil {
		return nil, want.explain(c.mapper.forgetUnserved(at, err))
	}
	live, err := read(answer)
	if err == nil && !dry {
		c.mapper.applied(obj)
	}
	return live, err
}

// setOwners replaces only the managedFields of an object, and returns its new resourceVersion.
func (c *conn) setOwners(ctx context.Context, at location, o backend.ApplyOptions) (version string, err error) {
	if o.UID == "" || o.ResourceVersion == "" {
		return "", api.Permanent(errors.New("the owners of fields are replaced of an object with a uid and a resourceVersion only"))
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.UID, "resourceVersion": o.ResourceVersion, "managedFields": o.Owners,
	}})
	if err != nil {
		return "", api.Permanent(err)
	}
	answer, err := c.write(ctx, request{
		verb: http.MethodPatch, path: at.path, query: url.Values{"fieldManager": {"slipway-owners"}}, contentType: mergeType, body: body,
		accept: briefType,
	})
	if err != nil {
		return "", demand{Precondition: o.Precondition}.explain(c.mapper.forgetUnserved(at, err))
	}
	live, err := briefOf(&unstructured.Unstructured{Object: map[string]any{}}, answer)
	if err != nil {
		return "", err
	}
	return live.GetResourceVersion(), nil
}

// briefType requests only the metadata of an object; an API server that does not support that
// sends the whole object.
const briefType = eventType + "," + jsonType

// briefOf returns the object for [backend.ApplyOptions.Brief] from the answer to the apply of
// obj.
func briefOf(obj *unstructured.Unstructured, answer []byte) (*unstructured.Unstructured, error) {
	var got struct {
		Metadata struct {
			Name            string    `json:"name"`
			Namespace       string    `json:"namespace"`
			UID             types.UID `json:"uid"`
			ResourceVersion string    `json:"resourceVersion"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(answer, &got); err != nil || got.Metadata.Name == "" {
		return nil, api.Permanent(errors.New("the member returned no JSON object with metadata.name"))
	}
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": obj.GetAPIVersion(), "kind": obj.GetKind()}}
	out.SetNamespace(got.Metadata.Namespace)
	out.SetName(got.Metadata.Name)
	out.SetUID(got.Metadata.UID)
	out.SetResourceVersion(got.Metadata.ResourceVersion)
	return out, nil
}

// demand is a precondition that an apply can carry. For a creation, it also has the mark by which
// the policies of [FenceManifests] recognize the writer.
type demand struct {
	backend.Precondition
	annotation, mark string
	// labelled reports whether the object is under a fence, so that the policies apply to it, and
	// does not carry the mark already.
	labelled bool
}

// appliedLabel is on every object that is applied under a fence, so that the policies of
// [FenceManifests] find it. A policy without a selector would be evaluated, and could fail, for
// every object of the cluster.
const appliedLabel = "slipway.dev/applied"

// complete returns the preconditions for an apply. A resourceVersion alone would let the apply
// create a missing object, so complete looks up the uid.
func (c *conn) complete(ctx context.Context, id snapshot.ID, p backend.Precondition) (demand, error) {
	switch {
	case p.Absent && (p.UID != "" || p.ResourceVersion != ""):
		return demand{}, fmt.Errorf("the object cannot be absent and have a uid or a resourceVersion: %w", backend.ErrConflict)
	case p.Absent:
		return demand{Precondition: backend.Precondition{ResourceVersion: noVersion}}, nil
	case p.UID != "" || p.ResourceVersion == "":
		return demand{Precondition: p}, nil
	}
	live, err := c.get(ctx, id)
	switch {
	case isAbsent(err):
		return demand{}, fmt.Errorf("the object does not exist: %w", backend.ErrConflict)
	case err != nil:
		return demand{}, err
	}
	p.UID = string(live.GetUID())
	return demand{Precondition: p}, nil
}

// explain distinguishes a uid that did not match, and a refusal by [FenceManifests], from an
// invalid object: an API server reports all of them as invalid.
func (d demand) explain(err error) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return api.ErrTerminating
	}
	if owners := ownersOf(err); len(owners) > 0 {
		return &backend.FieldConflictError{Managers: owners}
	}
	if schema := schemaErrorOf(err); schema != nil {
		return schema
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) || status.Status().Details == nil {
		return err
	}
	if isFence(status.Status().Message) {
		return fmt.Errorf("a policy of the member refuses it: %w", backend.ErrFenced)
	}
	if d.UID == "" {
		return err
	}
	for _, c := range status.Status().Details.Causes {
		if c.Field == "metadata.uid" {
			return fmt.Errorf("the object has another uid: %w", backend.ErrConflict)
		}
	}
	return err
}

// ownersOf returns the owners of the fields that an apply without force would change.
func ownersOf(err error) (owners []string) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsConflict(err) || status.Status().Details == nil {
		return nil
	}
	for _, c := range status.Status().Details.Causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		_, quoted, _ := strings.Cut(c.Message, "conflict with ")
		quoted, _ = strconv.QuotedPrefix(quoted) // the rest has operation and time
		owner, err := strconv.Unquote(quoted)
		if err != nil || len(owner) > metav1validation.FieldManagerMaxLength {
			owner = ""
		}
		if !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
	}
	return owners
}

// schemaErrorOf parses the message with which an API server refuses an object because of the
// schema of its kind. The server sends no reason beside the message. It returns nil if the object
// has any other problem.
func schemaErrorOf(err error) *backend.SchemaError {
	status, ok := api.StatusOf(err)
	said, refused := strings.CutPrefix(status.Message, "failed to create typed patch object (")
	if _, said, _ = strings.Cut(said, "): "); !ok || !refused {
		return nil
	}
	out := &backend.SchemaError{}
	for line := range strings.Lines(strings.TrimPrefix(said, "errors:\n")) {
		line = strings.TrimSpace(line)
		if path, ok := strings.CutSuffix(line, ": field not declared in schema"); ok {
			out.Unknown = append(out.Unknown, path)
			continue
		}
		list, key, ok := strings.Cut(line, ": duplicate entries for key ")
		if !ok {
			return nil
		}
		out.Repeated = append(out.Repeated, list+key)
	}
	return out
}

// isFence reports whether a message is the refusal of a policy of [FenceManifests], and not an
// error that quotes an object with the same text.
func isFence(message string) bool {
	object, why, _ := strings.Cut(message, " is forbidden: ")
	return strings.HasPrefix(why, "ValidatingAdmissionPolicy 'slipway-fence-") && !strings.Contains(object, " is invalid: ")
}

// applyBody returns the body of an apply: the object without the fields that must not be applied,
// and with its preconditions.
func applyBody(obj *unstructured.Unstructured, d demand) ([]byte, error) {
	meta, _ := obj.Object["metadata"].(map[string]any)
	meta = maps.Clone(meta)
	maps.DeleteFunc(meta, isUnappliable)
	if d.UID != "" {
		meta["uid"] = d.UID
	}
	if d.ResourceVersion != "" {
		meta["resourceVersion"] = d.ResourceVersion
	}
	set := func(field, key, value string) {
		values, _ := meta[field].(map[string]any)
		if values = maps.Clone(values); values == nil {
			values = map[string]any{}
		}
		values[key] = value
		meta[field] = values
	}
	if d.annotation != "" {
		set("annotations", d.annotation, d.mark)
	}
	if d.labelled {
		set("labels", appliedLabel, "true")
	}
	out := maps.Clone(obj.Object)
	out["metadata"] = meta
	body, err := json.Marshal(out)
	if err != nil {
		return nil, api.Permanent(errors.New("the object makes no JSON"))
	}
	return body, nil
}
