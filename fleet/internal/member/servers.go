package member

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/snapshot"
)

// servers decides which objects of an update wait for a server. An admission object whose server is
// still starting refuses other objects, and an object of a served kind is refused itself. Such
// objects wait until all objects of earlier phases are healthy, not only the server, because an
// admission object does not name the objects of its server.
type servers struct {
	targets     []*target
	definitions map[kind]*target
	apis        []*target // the APIServices
	probe       func(context.Context, *target) (health.Status, error)
	// earlier is the health of the objects before a phase, recorded once objects of the phase wait.
	earlier map[snapshot.Phase]*healthOf
}

// healthOf is the health of the objects that are applied before a phase.
type healthOf struct {
	sick   []*target // not healthy, or not applied
	failed bool      // waiting will not make one of them healthy
	why    string    // the first that failed, or else the first of sick
}

// apiServicesOf returns the desired APIServices.
func apiServicesOf(targets []*target) (out []*target) {
	for _, t := range targets {
		if t.want != nil && t.id.Group == "apiregistration.k8s.io" && t.id.Kind == "APIService" {
			out = append(out, t)
		}
	}
	return out
}

// waitFor returns the health that an object which needs a server waits for, or nil if it need not
// wait.
func (s *servers) waitFor(ctx context.Context, t *target) (*healthOf, error) {
	before, err := s.healthBefore(ctx, t.phase)
	if err != nil || len(before.sick) == 0 || blocks(t.live, before.sick) {
		return nil, err
	}
	return before, nil
}

// healthBefore returns the health of the objects that are applied before a phase. It is probed once
// per update.
func (s *servers) healthBefore(ctx context.Context, phase snapshot.Phase) (*healthOf, error) {
	if known := s.earlier[phase]; known != nil {
		return known, nil
	}
	out := &healthOf{}
	for _, t := range s.targets {
		if t.want == nil || t.phase >= phase || t.heldBack() != nil {
			continue
		}
		h := health.Status{Message: "it is not applied"}
		if (t.live != nil || t.ended != "") && t.problem() == nil {
			var err error
			if h, err = s.probe(ctx, t); err != nil {
				return nil, fmt.Errorf("health of %s: %w", t.id, err)
			}
		}
		if h.Healthy && !h.Failed {
			continue
		}
		if out.why == "" || h.Failed && !out.failed {
			out.why = illness(t, h)
		}
		out.sick, out.failed = append(out.sick, t), out.failed || h.Failed
	}
	s.earlier[phase] = out
	return out, nil
}

// need reports whether a server judges or serves an object. A server judges every admission object.
// It serves an object if a Service of the revision backs the APIService of its kind, or converts
// its version.
func (s *servers) need(t *target) bool {
	if t.phase == snapshot.Admission {
		return true
	}
	if crd := s.definitions[kind{t.id.Group, t.id.Kind}]; crd != nil && s.isConverted(crd.want.obj, t.id.Version) {
		return true
	}
	return slices.ContainsFunc(s.apis, func(api *target) bool {
		spec, _ := api.want.obj.Object["spec"].(map[string]any)
		return spec["group"] == t.id.Group && spec["version"] == t.id.Version && s.hasService(spec["service"])
	})
}

// isConverted reports whether a version of a definition is not the stored version, and a Service of
// the revision converts it.
func (s *servers) isConverted(crd *unstructured.Unstructured, version string) bool {
	spec, _ := crd.Object["spec"].(map[string]any)
	service, _, _ := unstructured.NestedFieldNoCopy(spec, "conversion", "webhook", "clientConfig", "service")
	versions, _ := spec["versions"].([]any)
	return s.hasService(service) && !slices.ContainsFunc(versions, func(v any) bool {
		m, _ := v.(map[string]any)
		return m["name"] == version && m["storage"] == true
	})
}

// hasService reports whether a reference names a Service of the revision.
func (s *servers) hasService(reference any) bool {
	to, _ := reference.(map[string]any)
	return to != nil && slices.ContainsFunc(s.targets, func(t *target) bool {
		return t.want != nil && t.id.Group == "" && t.id.Kind == "Service" && to["namespace"] == t.id.Namespace && to["name"] == t.id.Name
	})
}

// blocks reports whether a condition of an object in sick says that the admission object live,
// which may be nil, refused a request. For example, the ReplicaFailure condition of a Deployment
// quotes the API server's error, which contains the name.
func blocks(live *unstructured.Unstructured, sick []*target) bool {
	if live == nil {
		return false
	}
	var marks []string
	switch live.GetKind() {
	case "ValidatingAdmissionPolicy", "MutatingAdmissionPolicy":
		marks = []string{"Policy '" + live.GetName() + "'"}
	case "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding":
		marks = []string{"binding '" + live.GetName() + "'"}
	}
	hooks, _ := live.Object["webhooks"].([]any)
	for _, h := range hooks {
		h, _ := h.(map[string]any)
		if name, _ := h["name"].(string); name != "" {
			marks = append(marks, fmt.Sprintf("webhook %q", name))
		}
	}
	for _, t := range sick {
		if t.live == nil {
			continue
		}
		for _, c := range conditionsOf(t.live) {
			message, _ := c["message"].(string)
			if slices.ContainsFunc(marks, func(mark string) bool { return strings.Contains(message, mark) }) {
				return true
			}
		}
	}
	return false
}
