package member

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/snapshot"
)

func (c *conn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	return failed("delete", id, c.deleteOrRelease(ctx, id, o))
}

func (c *conn) deleteOrRelease(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	if err := c.recognize(ctx); err != nil {
		return err
	}
	at, err := c.locate(ctx, id, readFresh)
	if err != nil {
		return err
	}
	switch {
	case o.Absent:
		return c.demandAbsence(ctx, id)
	case o.Release:
		return c.release(ctx, id, at, o)
	}
	return c.delete(ctx, at, o.Precondition)
}

// demandAbsence answers a Delete or a release whose precondition is that the object does not
// exist.
func (c *conn) demandAbsence(ctx context.Context, id snapshot.ID) error {
	if _, err := c.get(ctx, id); err != nil {
		return err
	}
	return fmt.Errorf("the object exists: %w", backend.ErrConflict)
}

// delete deletes an object, and the garbage collector deletes its dependents afterwards.
func (c *conn) delete(ctx context.Context, at location, p backend.Precondition) error {
	background := metav1.DeletePropagationBackground
	o := metav1.DeleteOptions{
		TypeMeta:          metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		PropagationPolicy: &background,
	}
	if p.UID != "" || p.ResourceVersion != "" {
		o.Preconditions = &metav1.Preconditions{}
	}
	if p.UID != "" {
		uid := types.UID(p.UID)
		o.Preconditions.UID = &uid
	}
	if p.ResourceVersion != "" {
		o.Preconditions.ResourceVersion = &p.ResourceVersion
	}
	body, err := json.Marshal(o)
	if err != nil {
		return api.Permanent(err)
	}
	_, err = c.write(ctx, request{verb: http.MethodDelete, path: at.path, contentType: jsonType, body: body})
	return c.mapper.forgetUnserved(at, err)
}

// releaseRounds is the maximum number of attempts of a release without a demanded resourceVersion
// if it conflicts with other clients.
const releaseRounds = 5

// release removes the manager and the marks from an object. It reads the object and writes it
// back with preconditions.
func (c *conn) release(ctx context.Context, id snapshot.ID, at location, o backend.DeleteOptions) error {
	var err error
	for range releaseRounds {
		err = c.releaseOnce(ctx, id, at, o)
		if !apierrors.IsConflict(err) || o.ResourceVersion != "" {
			break
		}
	}
	return err
}

func (c *conn) releaseOnce(ctx context.Context, id snapshot.ID, at location, o backend.DeleteOptions) error {
	live, err := c.get(ctx, id)
	if err != nil {
		return err
	}
	if live.GetUID() == "" || live.GetResourceVersion() == "" {
		return api.Permanent(errors.New("the member returned the object without uid or resourceVersion, so that no write of it can be guarded"))
	}
	if err := holds(live, o.Precondition); err != nil {
		return err
	}
	patch := releasePatch(live, o)
	if patch == nil {
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": patch})
	if err != nil {
		return api.Permanent(err)
	}
	_, err = c.write(ctx, request{
		verb: http.MethodPatch, path: at.path, query: url.Values{"fieldManager": {"slipway-release"}},
		contentType: mergeType, body: body,
	})
	return c.mapper.forgetUnserved(at, err)
}

// holds returns a conflict unless an object meets the precondition.
func holds(live *unstructured.Unstructured, p backend.Precondition) error {
	switch {
	case p.UID != "" && p.UID != string(live.GetUID()):
		return fmt.Errorf("the object has another uid: %w", backend.ErrConflict)
	case p.ResourceVersion != "" && p.ResourceVersion != live.GetResourceVersion():
		return fmt.Errorf("the object has another resourceVersion: %w", backend.ErrConflict)
	}
	return nil
}

// releasePatch returns the changes to the metadata of an object, nil if there are none.
func releasePatch(live *unstructured.Unstructured, o backend.DeleteOptions) map[string]any {
	patch := map[string]any{}
	meta, _ := live.Object["metadata"].(map[string]any)
	if kept, owned := without(meta["managedFields"], o.Manager); owned {
		patch["managedFields"] = kept
	}
	for _, field := range []string{"annotations", "labels"} {
		values, _ := meta[field].(map[string]any)
		gone := map[string]any{}
		for _, mark := range o.Marks {
			if _, ok := values[mark]; ok {
				gone[mark] = nil
			}
		}
		if len(gone) > 0 {
			patch[field] = gone
		}
	}
	if len(patch) == 0 {
		return nil
	}
	patch["uid"], patch["resourceVersion"] = meta["uid"], meta["resourceVersion"]
	return patch
}

// without returns the entries of managedFields that belong to other managers, and whether the
// manager had any. An API server would ignore an empty list; one empty entry means none.
func without(managedFields any, manager string) (kept []any, owned bool) {
	entries, _ := managedFields.([]any)
	for _, e := range entries {
		if m, _ := e.(map[string]any); m["manager"] == manager {
			owned = true
		} else {
			kept = append(kept, e)
		}
	}
	if len(kept) == 0 {
		kept = []any{map[string]any{}}
	}
	return kept, owned
}
