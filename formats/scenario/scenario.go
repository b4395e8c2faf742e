package scenario

import (
	"io"
	"iter"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/internal/rollback"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// MaxBytes is the greatest size of a scenario.
const MaxBytes = yamldoc.MaxBytes

// Scenario is the content of a file.
type Scenario struct {
	Strategy stages.Strategy
	// Clusters are in the order of the file.
	Clusters []placement.Cluster
	// Rules are the windows and freezes.
	Rules calendar.Rules
	// Plan is the strategy resolved for the clusters, by [simulate.NewPlan].
	Plan        *stages.Plan
	Environment simulate.Environment
}

// Read reads a scenario. Errors use the name for the input.
//
// The error is a problem.List with all problems, or the error of r.
func Read(r io.Reader, name string) (Scenario, error) {
	docs, err := yamldoc.Read(r, name)
	if err != nil {
		return Scenario{}, err
	}
	d := only(docs, name)
	if d.IsEmpty() || !d.OK() {
		return Scenario{}, d.Err()
	}
	rd := &reader{Doc: d, root: d.Root(), names: map[string]value{}, had: map[string]string{}}
	rd.read()
	rd.resolve()
	if err := d.Err(); err != nil {
		return Scenario{}, err
	}
	return rd.out, nil
}

// only returns the scenario of a file, or an empty document with the problem. A strategy may be a
// document of its own: it becomes the field strategy.
func only(docs iter.Seq[*yamldoc.Doc], name string) *yamldoc.Doc {
	var first, strategy *yamldoc.Doc
	for d := range docs {
		to := &first
		if !d.IsEmpty() && isObject(d.Root()) {
			to = &strategy
		}
		switch {
		case d.IsEmpty():
			return d
		case *to != nil:
			second := yamldoc.New(name)
			second.Tell(d.Root().Line(), "", "is a second document; a file has one scenario, and may have one strategy")
			return second
		}
		*to = d
	}
	if first == nil {
		first = yamldoc.New(name)
		first.Tell(1, "", "is empty; it needs at least clusters and a strategy")
		return first
	}
	if strategy == nil || !first.Root().IsObject() {
		return first
	}
	if v, is := first.Root().Get("strategy"); is {
		v.Fail("is in a document of its own, on line %d, too; leave one of them out", strategy.Root().Line())
		return first
	}
	first.Take("strategy", strategy)
	return first
}

type (
	value  = yamldoc.Value
	fields = yamldoc.Fields
)

// reader collects the content of a scenario.
type reader struct {
	*yamldoc.Doc
	root value
	out  Scenario
	// names has the places of the clusters. named reports whether an entry was meant to define
	// clusters, even if it is invalid.
	names map[string]value
	named bool
	// extras are the fields beside the strategy.
	extras extras
	faults []fault
	// measures are the places of the measures.
	measures []value
	churn    []change
	// had has the previous revisions of clusters, by name; empty means none. saidHad has the places
	// of these fields.
	had     map[string]string
	saidHad []value
}

// reads has the fields of a scenario.
func (r *reader) reads() fields {
	return fields{
		"profile":  func(v value) { r.extras.profile = profile(v) },
		"clusters": func(v value) { v.Each(r.cluster) },
		"count":    r.count,
		"strategy": func(value) {}, // read last, when the profile is known
		"start":    func(v value) { r.out.Environment.Start = moment(v) },
		"take":     func(v value) { r.out.Environment.Default.Take = v.Duration() },
		"faults":   func(v value) { v.Each(r.fault) },
		"churn":    func(v value) { v.Each(r.change) },
		"commands": func(v value) { v.Each(r.command) },
		"measures": func(v value) { v.Each(r.measure) },
		"until":    func(v value) { r.out.Environment.Until = v.Period() },
		"starter":  func(v value) { r.out.Environment.Starter = approval.Identity{Name: v.NonEmpty()} },

		"timeZone": func(v value) { r.out.Rules.TimeZone = v.NonEmpty() },
		"windows":  func(v value) { r.out.Rules.Run.Windows = windows(v) },
		"freezes":  func(v value) { r.out.Rules.Run.Freezes = freezes(v) },

		"attempts":            func(v value) { r.extras.attempts = v.Integer(-1, maxAttempts) },
		"backoff":             func(v value) { r.extras.backoff = v.Period() },
		"maxBackoff":          func(v value) { r.extras.maxBackoff = v.Period() },
		"progressDeadline":    func(v value) { r.extras.deadline = v.Period() },
		"unreachableDeadline": func(v value) { r.extras.unreachable = v.Period() },
		"minHealthy":          func(v value) { r.extras.minHealthy = v.Duration() },
		"maxFailures":         func(v value) { r.extras.maxFailures = intOrPercent(v) },
		"strictFailures":      func(v value) { r.extras.strict = v.Boolean() },
		"unassigned":          func(v value) { r.extras.unassigned = unassigned(v) },
		"domains":             func(v value) { v.Each(r.domain) },
		"shares":              func(v value) { v.Entries(r.share) },
		"rollback":            func(v value) { r.extras.rollback = rollback.Read(v) },
		"cap":                 func(v value) { r.out.Environment.Slots = v.Integer(1, stages.MaxCapLimit) },
	}
}

// read reads the document, and then checks that its parts are consistent.
func (r *reader) read() {
	if !r.root.Object(r.reads()) {
		return
	}
	if !r.named && !r.Failed("clusters") && !r.Failed("count") {
		r.root.Place("clusters").Fail("are required: name some, or let count make them")
	}
	r.strategy()
	r.checkLevel(r.root, &calendar.Level{
		TimeZone: r.out.Rules.TimeZone, Windows: r.out.Rules.Run.Windows, Freezes: r.out.Rules.Run.Freezes,
	})
	r.checkFaults()
	r.checkMeasures()
	r.checkChurn()
	r.previous()
}

// resolve makes the plan and its calendar, unless their input has problems.
func (r *reader) resolve() {
	for path := range r.Broken() {
		switch name, _, _ := strings.Cut(strings.ReplaceAll(path, "[", "."), "."); name {
		case "faults", "churn", "commands", "measures", "start", "take", "until", "starter":
		default:
			return
		}
	}
	p, err := simulate.NewPlan(r.out.Strategy, r.out.Clusters)
	if err != nil {
		r.planProblems(err)
		return
	}
	r.out.Plan = p
	if run := &r.out.Rules.Run; len(run.Windows)+len(run.Freezes)+len(r.out.Rules.Clusters) == 0 {
		return
	}
	if r.out.Strategy.Rollback != nil {
		r.out.Environment.Return.Calendar = r.out.Rules.For
	}
	if r.out.Environment.Calendar, err = r.out.Rules.For(p); err != nil {
		r.root.Check(err, r.place)
	}
}

func profile(v value) stages.Profile {
	return yamldoc.OneOf(v, stages.Staged, stages.ClusterUpdate, stages.Workflow)
}

func unassigned(v value) stages.Unassigned {
	return yamldoc.OneOf(v, stages.UnassignedError, stages.UnassignedExclude, stages.UnassignedFinalStage)
}

// moment reads a time.
func moment(v value) time.Time {
	s := v.Str()
	if !v.OK() {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Year() < 1971 || t.Year() > 9000 {
		v.Fail(`must be a time after 1970 with an offset, such as "2026-01-05T10:00:00Z", not %q`, yamldoc.Clip(s))
		return time.Time{}
	}
	return t
}
