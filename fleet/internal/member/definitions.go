package member

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/snapshot"
)

// establishMost is the maximum wait of an update for a definition to be established before it
// leaves the rest to its next try; establishPoll is the poll interval. A healthy API server takes
// some milliseconds.
const (
	establishMost = 5 * time.Second
	establishPoll = 50 * time.Millisecond
)

// defines returns the kind that a CustomResourceDefinition defines, and false if obj is not a
// definition.
func defines(obj *unstructured.Unstructured) (kind, bool) {
	if id := snapshot.IDOf(obj); id.Group != "apiextensions.k8s.io" || id.Kind != "CustomResourceDefinition" {
		return kind{}, false
	}
	group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
	name, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
	return kind{group, name}, name != ""
}

// definitionsOf returns the desired definitions by the kind that they define.
func definitionsOf(targets []*target) map[kind]*target {
	out := map[kind]*target{}
	for _, t := range targets {
		if t.phase != snapshot.Definitions || t.want == nil {
			continue
		}
		if k, ok := defines(t.want.obj); ok {
			out[k] = t
		}
	}
	return out
}

// established reports whether an API server serves the kind of a definition, and if not, why.
func established(crd *unstructured.Unstructured) (done bool, why string) {
	for _, m := range conditionsOf(crd) {
		switch {
		case m["type"] == "Established" && m["status"] == "True":
			return true, ""
		case m["type"] == "NamesAccepted" && m["status"] == "False":
			why, _ = m["message"].(string)
		}
	}
	return false, why
}

// defined waits briefly until the kind of an object is established, if the update has a definition
// of the kind. If that is not enough, it records that the update waits for the definition.
func (w *work) defined(ctx context.Context, t *target) (bool, error) {
	crd := w.definitions[kind{t.id.Group, t.id.Kind}]
	if crd == nil || crd.live == nil || crd.definition == isServed { // a refused definition is a problem already
		return true, nil
	}
	done, why, err := w.m.establish(ctx, crd)
	if done {
		crd.definition = isServed
	}
	if done || err != nil {
		return done, err
	}
	missing := fmt.Sprintf("%s is not established, which %s needs", crd.id, t.id)
	if why != "" {
		missing += ": " + guard.Clip(why)
	}
	w.await(t, missing)
	return false, nil
}

// establish waits for a definition, once per update. If the member says why the definition is not
// established, establish returns the reason.
func (m *memberConn) establish(ctx context.Context, crd *target) (done bool, why string, err error) {
	for end := time.Now().Add(establishMost); ; {
		done, why = established(crd.live)
		if done || why != "" || crd.definition == isHopeless {
			return done, why, nil
		}
		if !time.Now().Before(end) {
			crd.definition = isHopeless
			return false, "", nil
		}
		select {
		case <-time.After(establishPoll):
		case <-ctx.Done():
			return false, "", ctx.Err()
		}
		live, err := m.get(ctx, crd.id)
		if err != nil || live == nil { // the apply notices a definition that is gone
			return live == nil && err == nil, "", err
		}
		crd.live = live
	}
}
