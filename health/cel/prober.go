// Package celhealth evaluates rules of health in the Common Expression Language, for kinds whose status kstatus does
// not understand. It is a module of its own, so that an importer of the engine does not get the compiler.
//
// A [health.Rule] names a kind and has expressions over the object, self:
//
//	group: argoproj.io
//	kind: Rollout
//	ready: self.status.phase == 'Healthy'
//	failed: self.status.phase == 'Degraded'
//	message: self.status.?message.orValue('no message')
//
// Beside the standard functions and macros of CEL there are optional values (self.?status.?phase) and, for texts, charAt,
// indexOf, lastIndexOf, lowerAscii, split, substring, trim, upperAscii and join. A number compares with one of another
// type. What could make a text much larger than an object, such as replace and format, is left out, and the pattern of
// matches is a literal.
//
// # What an evaluation comes to
//
// An object is failed where failed is true, healthy where ready is, and otherwise not healthy yet, with what message
// says. An object that is being deleted, or whose status is of an older generation, is not healthy yet whatever the rule
// says, and self has no conditions of an older generation, see [health.Evidence]. [health.Rule].AnyGeneration is for
// controllers that do not keep observedGeneration.
//
// A status is untrusted input of any shape. A field that is missing makes ready, and failed, not true, and the message
// says which expression and field that was; so does a value of another type than the expression needs. An expression
// is stopped at a limit of cost and a limit of time, which counts as not healthy. An object with a text of more than 256 KiB is
// not healthy, because one call may read all of it. Expressions are nested at most 32 deep. An error of [Prober.Probe] means that
// the context of the call has ended, or that Otherwise failed.
//
// # Rules of placements
//
// [New] takes the rules of a host, for all placements. Those of one placement are in apply.Strategy.Health and go
// first; the engine has them compiled by [Prober.ValidateRules] when the placement is declared, and a run keeps those
// that its placement had when it was created. Authors of placements need no trust for that: all that an expression can
// do is to say something of an object of the placement.
package celhealth

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cel.dev/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/internal/lru"
)

// The defaults of [Options].
const (
	// DefaultCostLimit is the limit that Kubernetes has for an expression of an admission policy, about a tenth of a second.
	DefaultCostLimit = 1_000_000
	DefaultTimeout   = time.Second
)

// validateMost bounds the time in which all rules of a placement are compiled. One expression takes less than a second.
const validateMost = 5 * time.Second

// compiledMost is how many rules of placements are kept compiled.
const compiledMost = 1024

// Options are for [New]; zero values mean defaults.
type Options struct {
	// Otherwise is asked about objects for whose kind there is no rule; nil is kstatus, as the engine's default.
	Otherwise health.Prober
	// CostLimit bounds one evaluation of one expression, in the units of CEL, in which to read a field costs 1. An
	// expression that would cost more for lists of 100 entries does not compile; one that does for what it reads is stopped.
	CostLimit uint64
	// Timeout bounds the expressions of one object together.
	Timeout time.Duration
}

// Prober is a [health.Prober] that evaluates rules, a [health.RuleProber]. It may be used concurrently.
type Prober struct {
	otherwise health.Prober
	compiler  compiler
	timeout   time.Duration
	// rules are the host's, with the programs at the same index.
	rules    []health.Rule
	programs []*program
	// compiled are rules of placements.
	compiled *lru.Cache[health.Rule, *program]
}

// New compiles rules. Its error has every problem of every rule, with the field and the line and column in it:
//
//	rules[1].ready: Invalid value: "slef.status.ready": 1:1: undeclared reference to 'slef'
func New(rules []health.Rule, o Options) (*Prober, error) {
	p := &Prober{
		otherwise: o.Otherwise, compiler: compiler{limit: o.CostLimit}, timeout: o.Timeout,
		rules: slices.Clone(rules), compiled: lru.New[health.Rule, *program](compiledMost, nil),
	}
	if p.compiler.limit == 0 {
		p.compiler.limit = DefaultCostLimit
	}
	if p.timeout <= 0 {
		p.timeout = DefaultTimeout
	}
	if p.otherwise == nil {
		p.otherwise = health.ProberFunc(kstatus)
	}
	var err error
	if p.compiler.env, err = newEnv(); err != nil {
		return nil, fmt.Errorf("celhealth: %w", err)
	}
	at := field.NewPath("rules")
	errs := health.Validate(rules, at)
	if len(rules) <= health.MaxRules {
		for i := range p.rules {
			compiled, wrong := p.compiler.compile(&p.rules[i], at.Index(i))
			p.programs, errs = append(p.programs, compiled), append(errs, wrong...)
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("celhealth: %w", errs.ToAggregate())
	}
	return p, nil
}

func kstatus(_ context.Context, obj *unstructured.Unstructured) (health.Status, error) {
	ready, failed, message := health.Kstatus(obj)
	return health.Status{Healthy: ready, Failed: failed, Message: message}, nil
}

// Probe returns the health of an object by the rule for its kind, and what Otherwise says where there is none.
func (p *Prober) Probe(ctx context.Context, obj *unstructured.Unstructured) (health.Status, error) {
	i := find(p.rules, obj)
	if i < 0 {
		return p.otherwise.Probe(ctx, obj)
	}
	return p.programs[i].probe(ctx, p.timeout, obj)
}

// ProbeBy is Probe with rules of a placement that go before those of the host.
func (p *Prober) ProbeBy(ctx context.Context, rules []health.Rule, obj *unstructured.Unstructured) (health.Status, error) {
	i := find(rules, obj)
	if i < 0 {
		return p.Probe(ctx, obj)
	}
	compiled, ok := p.compiled.Get(rules[i])
	if !ok {
		var wrong field.ErrorList
		at := field.NewPath("health")
		compiled, wrong = p.compiler.compile(&rules[i], at.Index(i))
		if errs := append(health.Validate(rules, at), wrong...); len(errs) > 0 {
			// Another process validated the rules, with other limits or functions than this one has.
			return health.Status{}, fmt.Errorf("celhealth: %w: %w", errs.ToAggregate(), backend.ErrPermanent)
		}
		p.compiled.Add(rules[i], compiled)
	}
	return compiled.probe(ctx, p.timeout, obj)
}

// ValidateRules returns the problems of the expressions of rules, with paths below at. It compiles for at most validateMost.
func (p *Prober) ValidateRules(rules []health.Rule, at *field.Path) (errs field.ErrorList) {
	return p.validateWithin(validateMost, rules, at)
}

func (p *Prober) validateWithin(most time.Duration, rules []health.Rule, at *field.Path) (errs field.ErrorList) {
	begin := time.Now() //nolint:forbidigo // a bound on real time
	for i := range rules {
		if time.Since(begin) > most { //nolint:forbidigo // a bound on real time
			return append(errs, field.Forbidden(at.Index(i), fmt.Sprintf("the rules before it took more than %s to compile: write fewer or simpler rules", most)))
		}
		_, wrong := p.compiler.compile(&rules[i], at.Index(i))
		errs = append(errs, wrong...)
	}
	return errs
}

// find returns the index of the rule for an object, as health.Find finds it, or -1.
func find(rules []health.Rule, obj *unstructured.Unstructured) int {
	if len(rules) == 0 {
		return -1
	}
	gvk := obj.GroupVersionKind()
	return health.Find(rules, gvk.Group, gvk.Version, gvk.Kind)
}

// compiler makes programs of rules.
type compiler struct {
	env   *cel.Env
	limit uint64
}
