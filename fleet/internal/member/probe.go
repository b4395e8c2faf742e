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

// ValidateRules returns the errors of the rules of a placement that p must evaluate, with paths
// below at. Rules that are not well-formed, which health.Validate reports, are not passed to p.
func ValidateRules(p health.Prober, rules []health.Rule, at *field.Path) field.ErrorList {
	if len(rules) == 0 || len(health.Validate(rules, at)) > 0 {
		return nil
	}
	r, ok := p.(health.RuleProber)
	if !ok {
		return field.ErrorList{field.Forbidden(at, "the Prober of the engine evaluates no rules")}
	}
	errs, err := guard.Recovered("ValidateRules", func() (field.ErrorList, error) { return r.ValidateRules(rules, at), nil })
	if err != nil {
		return field.ErrorList{field.InternalError(at, err)}
	}
	return errs
}

// kstatusProber is the default prober.
type kstatusProber struct{}

func (kstatusProber) Probe(_ context.Context, obj *unstructured.Unstructured) (health.Status, error) {
	ready, failed, message := health.Kstatus(obj)
	return health.Status{Healthy: ready, Failed: failed, Message: message}, nil
}

// probes calls a prober that may belong to the host.
type probes struct {
	prober health.Prober
	guard  *guard.Guard
}

// probe returns the health of an object by the rules of its placement, which may be empty.
func (p probes) probe(ctx context.Context, cluster string, rules []health.Rule, obj *unstructured.Unstructured) (health.Status, error) {
	if len(rules) > 0 {
		return p.probeBy(ctx, cluster, rules, obj)
	}
	if k, ours := p.prober.(kstatusProber); ours || p.prober == nil {
		return guard.Recovered("Probe", func() (health.Status, error) { return k.Probe(ctx, obj) })
	}
	return guard.Call(ctx, p.guard, "Probe", cluster, func(ctx context.Context) (health.Status, error) {
		return p.prober.Probe(ctx, obj)
	})
}

// probeBy evaluates rules. It fails if the prober evaluates none: the placement was declared to an
// engine whose prober does, and kstatus might report an object as healthy that the rules do not.
func (p probes) probeBy(ctx context.Context, cluster string, rules []health.Rule, obj *unstructured.Unstructured) (health.Status, error) {
	r, ok := p.prober.(health.RuleProber)
	if !ok {
		return health.Status{}, fmt.Errorf("the placement has health rules, and the Prober of this engine evaluates none: %w", backend.ErrPermanent)
	}
	return guard.Call(ctx, p.guard, "Probe", cluster, func(ctx context.Context) (health.Status, error) {
		return r.ProbeBy(ctx, rules, obj)
	})
}

// probeOf returns the health of an object of an assignment. For the Job of a check it returns the
// verdict.
func (p probes) probeOf(ctx context.Context, a *Assignment, cluster string, obj *unstructured.Unstructured) (health.Status, error) {
	gvk, rules := obj.GroupVersionKind(), a.Strategy.Health
	if a.ofCheck && gvk.Group == "batch" && gvk.Kind == "Job" && health.Find(rules, gvk.Group, gvk.Version, gvk.Kind) < 0 {
		return jobVerdict(obj), nil
	}
	return p.probe(ctx, cluster, rules, obj)
}

// jobVerdict reports whether a Job has ended, and how. kstatus would report a running Job as
// healthy.
func jobVerdict(obj *unstructured.Unstructured) health.Status {
	obj, outdated := health.Evidence(obj)
	if outdated != "" {
		return health.Status{Message: outdated}
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
			return health.Status{Healthy: true, Message: message}
		case "Failed":
			return health.Status{Failed: true, Message: strings.TrimPrefix(reason+": "+message, ": ")}
		}
	}
	return health.Status{Message: "it has not ended"}
}
