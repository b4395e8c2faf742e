package member

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/health"
)

// Health is what a [Prober] says of an object. An object that is neither
// healthy nor failed may become healthy.
type Health struct {
	Healthy bool
	// Failed reports that waiting will not make the object healthy.
	Failed bool
	// Message says what is wrong, for people. It is cut at 256 characters.
	Message string
}

// Prober reports whether an object is healthy. It must not change the object,
// may be called concurrently and honours ctx. An error means that the health is not known.
type Prober interface {
	Probe(ctx context.Context, obj *unstructured.Unstructured) (Health, error)
}

// ProberFunc makes a function a [Prober].
type ProberFunc func(ctx context.Context, obj *unstructured.Unstructured) (Health, error)

// Probe calls f.
func (f ProberFunc) Probe(ctx context.Context, obj *unstructured.Unstructured) (Health, error) {
	return f(ctx, obj)
}

// RuleProber is a [Prober] that evaluates the rules of a placement too.
type RuleProber interface {
	Prober
	// ProbeBy is Probe by the rule for the object's kind, and Probe where there is none. The rules were validated,
	// possibly by another process.
	ProbeBy(ctx context.Context, rules []health.Rule, obj *unstructured.Unstructured) (Health, error)
	// ValidateRules returns what is wrong with rules besides what health.Validate returns, with paths below at.
	ValidateRules(rules []health.Rule, at *field.Path) field.ErrorList
}

// ValidateRules returns what is wrong with the rules of a placement, with paths below at, where p is to evaluate them.
// Rules that are not well-formed, which health.Validate reports, are not given to p.
func ValidateRules(p Prober, rules []health.Rule, at *field.Path) field.ErrorList {
	if len(rules) == 0 || len(health.Validate(rules, at)) > 0 {
		return nil
	}
	r, ok := p.(RuleProber)
	if !ok {
		return field.ErrorList{field.Forbidden(at, "the Prober of the engine evaluates no rules")}
	}
	errs, err := guard.Recovered("ValidateRules", func() (field.ErrorList, error) { return r.ValidateRules(rules, at), nil })
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}
	}
	return errs
}

// kstatusProber is the default.
type kstatusProber struct{}

func (kstatusProber) Probe(_ context.Context, obj *unstructured.Unstructured) (Health, error) {
	ready, failed, message := health.Kstatus(obj)
	return Health{Healthy: ready, Failed: failed, Message: message}, nil
}

// probes calls a prober that may belong to the host.
type probes struct {
	prober Prober
	guard  *guard.Guard
}

// probe returns the health of an object by the rules of its placement, of which there may be none.
func (p probes) probe(ctx context.Context, cluster string, rules []health.Rule, obj *unstructured.Unstructured) (Health, error) {
	if len(rules) > 0 {
		return p.probeBy(ctx, cluster, rules, obj)
	}
	if k, ours := p.prober.(kstatusProber); ours || p.prober == nil {
		return guard.Recovered("Probe", func() (Health, error) { return k.Probe(ctx, obj) })
	}
	return guard.Call(ctx, p.guard, "Probe", cluster, func(ctx context.Context) (Health, error) {
		return p.prober.Probe(ctx, obj)
	})
}

// probeBy fails where the prober evaluates no rules: the placement was declared to an engine whose prober does, and
// what kstatus says instead may be that the object is healthy.
func (p probes) probeBy(ctx context.Context, cluster string, rules []health.Rule, obj *unstructured.Unstructured) (Health, error) {
	r, ok := p.prober.(RuleProber)
	if !ok {
		return Health{}, fmt.Errorf("the placement has health rules, and the Prober of this engine evaluates none: %w", backend.ErrPermanent)
	}
	return guard.Call(ctx, p.guard, "Probe", cluster, func(ctx context.Context) (Health, error) {
		return r.ProbeBy(ctx, rules, obj)
	})
}

// probeOf returns the health of an object of an assignment, and of a check object its verdict.
func (p probes) probeOf(ctx context.Context, a *Assignment, cluster string, obj *unstructured.Unstructured) (Health, error) {
	gvk, rules := obj.GroupVersionKind(), a.Strategy.Health
	if a.ofCheck && gvk.Group == "batch" && gvk.Kind == "Job" && health.Find(rules, gvk.Group, gvk.Version, gvk.Kind) < 0 {
		return jobVerdict(obj), nil
	}
	return p.probe(ctx, cluster, rules, obj)
}

// jobVerdict reports whether a Job has ended, and how: for kstatus one that runs is as it should be.
func jobVerdict(obj *unstructured.Unstructured) Health {
	obj, outdated := health.Evidence(obj)
	if outdated != "" {
		return Health{Message: outdated}
	}
	status, _ := obj.Object["status"].(map[string]any)
	conditions, _ := status["conditions"].([]any)
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		if c["status"] != "True" {
			continue
		}
		reason, _ := c["reason"].(string)
		message, _ := c["message"].(string)
		switch c["type"] {
		case "Complete":
			return Health{Healthy: true, Message: message}
		case "Failed":
			return Health{Failed: true, Message: strings.TrimPrefix(reason+": "+message, ": ")}
		}
	}
	return Health{Message: "it has not ended"}
}
