package member

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/snapshot"
)

const (
	// establishing is the time that an unserved kind is expected to appear after its
	// definition was applied or accepted by the API server; establishPoll is the interval of the
	// checks.
	establishing  = 30 * time.Second
	establishPoll = 100 * time.Millisecond
)

// place returns the location of an object for an apply. If the definition of its kind was applied
// shortly before, mostly by the same snapshot, place waits for the kind.
func (c *conn) place(ctx context.Context, id snapshot.ID) (location, error) {
	for {
		at, err := c.locate(ctx, id, writeFresh)
		if !meta.IsNoMatchError(err) || !c.comes(ctx, api.GVKOf(id)) {
			return at, err
		}
		if !backoff.Sleep(ctx, establishPoll) {
			return at, fmt.Errorf("%w: %w", api.ErrEstablishing, ctx.Err())
		}
	}
}

// comes reports whether an unserved kind will be served soon: its definition exists and is new.
func (c *conn) comes(ctx context.Context, gvk schema.GroupVersionKind) bool {
	if c.mapper.expects(gvk) {
		return true
	}
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	crd, err := c.client.do(ctx, request{verb: http.MethodGet, path: definitions + url.PathEscape(plural.Resource+"."+gvk.Group)})
	if err != nil {
		return false
	}
	obj, err := c.client.limits.object(crd)
	return err == nil && slices.Contains(definedKinds(obj), gvk) && isNew(obj)
}

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// isNew reports whether a definition is not established, or only for a short time by the clock of
// the API server, which may differ from the local one.
func isNew(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		if m["type"] != "Established" || m["status"] != "True" {
			continue
		}
		since, _ := m["lastTransitionTime"].(string)
		at, err := time.Parse(time.RFC3339, since)
		return err == nil && time.Since(at).Abs() < establishing
	}
	return !hasCondition(conditions, "NamesAccepted", "False")
}

func hasCondition(conditions []any, kind, status string) bool {
	for _, c := range conditions {
		if m, _ := c.(map[string]any); m["type"] == kind && m["status"] == status {
			return true
		}
	}
	return false
}

// definedKinds returns the served kinds of a CustomResourceDefinition, and none for another
// object.
func definedKinds(obj *unstructured.Unstructured) (kinds []schema.GroupVersionKind) {
	if gvk := obj.GroupVersionKind(); gvk.Group != "apiextensions.k8s.io" || gvk.Kind != "CustomResourceDefinition" {
		return nil
	}
	group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
	spec, _ := obj.Object["spec"].(map[string]any)
	versions, _ := spec["versions"].([]any)
	for _, v := range versions {
		if m, _ := v.(map[string]any); m["served"] == true {
			version, _ := m["name"].(string)
			kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
		}
	}
	return kinds
}

// applied remembers the kinds that were defined through this connection.
func (m *mapper) applied(obj *unstructured.Unstructured) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, gvk := range definedKinds(obj) {
		m.defined[gvk] = time.Now()
	}
}

// expects reports whether a kind was defined a short time ago.
func (m *mapper) expects(gvk schema.GroupVersionKind) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.defined[gvk]
	return ok && time.Since(at) < establishing
}

// isAbsent reports whether an object, or its kind, does not exist.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
