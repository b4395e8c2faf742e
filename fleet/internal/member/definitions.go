package member

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/snapshot"
)

// establishMost is how long an update waits for a definition to be established
// before it leaves the rest for its next try, establishPoll how often it looks. A
// healthy API server takes some milliseconds.
const (
	establishMost = 5 * time.Second
	establishPoll = 50 * time.Millisecond
)

// defines returns what an object defines; false where it is no definition.
func defines(obj *unstructured.Unstructured) (kind, bool) {
	if id := snapshot.IDOf(obj); id.Group != "apiextensions.k8s.io" || id.Kind != "CustomResourceDefinition" {
		return kind{}, false
	}
	group, _, _ := unstructured.NestedString(obj.Object, "spec", "group")
	name, _, _ := unstructured.NestedString(obj.Object, "spec", "names", "kind")
	return kind{group, name}, name != ""
}

// definitionsOf returns the definitions that are to be there, by what they define.
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

// established reports whether an API server says that it serves what a definition
// defines; if not, why.
func established(crd *unstructured.Unstructured) (done bool, why string) {
	field, _, _ := unstructured.NestedFieldNoCopy(crd.Object, "status", "conditions")
	conditions, _ := field.([]any)
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		switch {
		case m["type"] == "Established" && m["status"] == "True":
			return true, ""
		case m["type"] == "NamesAccepted" && m["status"] == "False":
			why, _ = m["message"].(string)
		}
	}
	return false, why
}

// defined makes sure that the kind of an object is established where a definition
// of it is to be there. It waits a moment; where that is not enough it says what
// the update waits for.
func (w *work) defined(ctx context.Context, t *target) (bool, error) {
	crd := w.definitions[kind{t.id.Group, t.id.Kind}]
	if crd == nil || crd.live == nil || crd.served { // one that was refused is a problem already
		return true, nil
	}
	done, why, err := w.establish(ctx, crd)
	if crd.served = done; done || err != nil {
		return done, err
	}
	missing := fmt.Sprintf("%s is not established, which %s needs", crd.id, t.id)
	if why != "" {
		missing += ": " + guard.Clip(why)
	}
	w.await(t, missing)
	return false, nil
}

// establish waits for a definition, once in an update, and says why it is not
// established where the member does.
func (w *work) establish(ctx context.Context, crd *target) (done bool, why string, err error) {
	for end := time.Now().Add(establishMost); ; {
		done, why = established(crd.live)
		if done || why != "" || crd.hopeless {
			return done, why, nil
		}
		if crd.hopeless = !time.Now().Before(end); crd.hopeless {
			return false, "", nil
		}
		select {
		case <-time.After(establishPoll):
		case <-ctx.Done():
			return false, "", ctx.Err()
		}
		live, err := w.m.get(ctx, crd.id)
		if err != nil || live == nil { // one that is gone is found out about by the apply
			return live == nil && err == nil, "", err
		}
		crd.live = live
	}
}
