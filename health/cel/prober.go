// Package celhealth evaluates health rules in the Common Expression Language, for kinds whose
// status kstatus does not understand. It is a separate module, so that an importer of the engine
// does not get the compiler.
//
// A [health.Rule] names a kind and has expressions over the object, self:
//
//	group: argoproj.io
//	kind: Rollout
//	ready: self.status.phase == 'Healthy'
//	failed: self.status.phase == 'Degraded'
//	message: self.status.?message.orValue('no message')
//
// Beside the standard functions and macros of CEL there are optional values (self.?status.?phase)
// and, for texts, charAt, indexOf, lastIndexOf, lowerAscii, split, substring, trim, upperAscii
// and join. Numbers of different types can be compared. Functions that could make a text much
// larger than an object, such as replace and format, are left out, and the pattern of matches
// must be a literal.
//
// # Results
//
// An object is failed if failed is true, healthy if ready is true, and otherwise not healthy yet,
// with the text of message. An object that is being deleted, or whose status has an older
// generation, is not healthy yet for any rule, and self has no conditions of an older generation,
// see [health.Evidence]. [health.Rule].AnyGeneration is for controllers that do not keep
// observedGeneration.
//
// A status is untrusted input of any shape. A missing field, or a value of the wrong type, makes
// ready, or failed, not true, and the message names the expression and the field. An expression
// is stopped at a limit of cost and a limit of time, which counts as not healthy. An object with
// a text of more than 256 KiB is not healthy, because one call may read all of it. Expressions
// are nested at most 32 deep. An error of [Prober.Probe] means that the context of the call has
// ended, or that Otherwise failed.
//
// # Rules of placements
//
// [New] accepts the rules of a host, for all placements. The rules of one placement are in
// apply.Strategy.Health and take precedence. The engine compiles them by [Prober.ValidateRules]
// when the placement is declared, and a run keeps the rules that its placement had when it was
// created. Authors of placements need no trust for that, because an expression can only judge an
// object of the placement.
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
	// DefaultCostLimit is Kubernetes' limit for an expression of an admission policy, about a tenth
	// of a second.
	DefaultCostLimit = 1_000_000
	DefaultTimeout   = time.Second
)

// validateMost limits the time for compiling all rules of a placement. One expression takes less
// than a second.
const validateMost = 5 * time.Second

// compiledMost is the maximum number of compiled rules of placements in the cache.
const compiledMost = 1024

// Options configure [New]; zero values mean defaults.
type Options struct {
	// Otherwise judges objects without a rule for their kind; nil is kstatus, like the engine's
	// default.
	Otherwise health.Prober
	// CostLimit limits one evaluation of one expression, in the units of CEL, in which reading a
	// field costs 1. An expression that would cost more for lists of 100 entries does not compile;
	// an evaluation that costs more is stopped.
	CostLimit uint64
	// Timeout limits the expressions of one object together.
	Timeout time.Duration
}

// Prober is a [health.Prober] that evaluates rules, a [health.RuleProber]. It may be used
// concurrently.
type Prober struct {
	otherwise health.Prober
	compiler  compiler
	timeout   time.Duration
	// rules are the rules of the host, and programs are their programs, at the same index.
	rules    []health.Rule
	programs []*program
	// compiled has rules of placements.
	compiled *lru.Cache[health.Rule, *program]
}

// New compiles rules. Its error has every problem of every rule, with the field and the line and
// column in it:
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

// Probe returns the health of an object by the rule for its kind, or the result of Otherwise if
// there is none.
func (p *Prober) Probe(ctx context.Context, obj *unstructured.Unstructured) (health.Status, error) {
	i := find(p.rules, obj)
	if i < 0 {
		return p.otherwise.Probe(ctx, obj)
	}
	return p.programs[i].probe(ctx, p.timeout, obj)
}

// ProbeBy is Probe with rules of a placement that take precedence over the host's.
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
			// Another process validated the rules, with other limits or functions.
			return health.Status{}, fmt.Errorf("celhealth: %w: %w", errs.ToAggregate(), backend.ErrPermanent)
		}
		p.compiled.Add(rules[i], compiled)
	}
	return compiled.probe(ctx, p.timeout, obj)
}

// ValidateRules returns the problems of the expressions of rules, with paths below at. It
// compiles for at most validateMost.
func (p *Prober) ValidateRules(rules []health.Rule, at *field.Path) (errs field.ErrorList) {
	return p.validateWithin(validateMost, rules, at)
}

func (p *Prober) validateWithin(most time.Duration, rules []health.Rule, at *field.Path) (errs field.ErrorList) {
	begin := time.Now() //nolint:forbidigo // the limit of the validation is real time
	for i := range rules {
		if time.Since(begin) > most { //nolint:forbidigo // the limit of the validation is real time
			return append(errs, field.Forbidden(at.Index(i), fmt.Sprintf("the rules before it took more than %s to compile: write fewer or simpler rules", most)))
		}
		_, wrong := p.compiler.compile(&rules[i], at.Index(i))
		errs = append(errs, wrong...)
	}
	return errs
}

// find returns the index of the rule for an object by health.Find, or -1.
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
