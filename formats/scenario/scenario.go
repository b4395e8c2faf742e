package scenario

import (
	"io"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// Scenario is what a file says.
type Scenario struct {
	Strategy stages.Strategy
	// Clusters are in the order of the file.
	Clusters []placement.Cluster
	// Rules are the windows and freezes.
	Rules calendar.Rules
	// Plan is the strategy resolved for the clusters, by [simulate.NewPlan].
	Plan  *stages.Plan
	World simulate.World
}

// Read reads a scenario. The name stands for the input in errors.
//
// The error, if there is one, is a [Problems] with everything that is wrong, or
// that of r.
func Read(r io.Reader, name string) (Scenario, error) {
	d := &document{file: name, broken: map[string]bool{}}
	root, err := d.parse(r)
	if err != nil {
		return Scenario{}, err
	}
	if root == nil {
		return Scenario{}, d.err()
	}
	rd := &reader{document: d, root: value{doc: d}.at(root, ""), names: map[string]origin{}, had: map[string]string{}}
	rd.read()
	rd.resolve()
	if err := d.err(); err != nil {
		return Scenario{}, err
	}
	return rd.out, nil
}

// reader collects what a scenario says.
type reader struct {
	*document
	root value
	out  Scenario
	// names are where the clusters come from; named tells that something is to name
	// one, however wrong.
	names map[string]origin
	named bool
	// extras are what stands beside the strategy.
	extras extras
	faults []fault
	churn  []change
	// had is what clusters had before, by name; empty means nothing. saidHad are the
	// places that say so.
	had     map[string]string
	saidHad []value
}

// origin is where a cluster was named.
type origin struct {
	line int
	path string
}

// reads has the fields of a scenario.
func (r *reader) reads() fields {
	return fields{
		"profile":  func(v value) { r.extras.profile = v.profile() },
		"clusters": func(v value) { v.list(r.cluster) },
		"count":    r.count,
		"strategy": func(value) {}, // read last, when the profile is known
		"start":    func(v value) { r.out.World.Start = v.time() },
		"take":     func(v value) { r.out.World.Default.Take = v.duration() },
		"faults":   func(v value) { v.list(r.fault) },
		"churn":    func(v value) { v.list(r.change) },
		"commands": func(v value) { v.list(r.command) },
		"until":    func(v value) { r.out.World.Until = v.some() },
		"starter":  func(v value) { r.out.World.Starter = approval.Identity{Name: v.str()} },

		"timeZone": func(v value) { r.out.Rules.TimeZone = v.str() },
		"windows":  func(v value) { r.out.Rules.Run.Windows = v.windows() },
		"freezes":  func(v value) { r.out.Rules.Run.Freezes = v.freezes() },

		"attempts":         func(v value) { r.extras.attempts = v.integer(-1, maxAttempts) },
		"backoff":          func(v value) { r.extras.backoff = v.some() },
		"maxBackoff":       func(v value) { r.extras.maxBackoff = v.some() },
		"progressDeadline": func(v value) { r.extras.deadline = v.some() },
		"minHealthy":       func(v value) { r.extras.minHealthy = v.duration() },
		"maxFailures":      func(v value) { r.extras.maxFailures = v.intOrPercent() },
		"strictFailures":   func(v value) { r.extras.strict = v.boolean() },
		"unassigned":       func(v value) { r.extras.unassigned = v.unassigned() },
		"domains":          func(v value) { v.list(r.domain) },
		"rollback":         func(v value) { r.extras.rollback = v.rollback() },
		"cap":              func(v value) { r.out.World.Slots = v.integer(1, stages.MaxCapLimit) },
	}
}

// read reads the document; what its parts say of one another is checked at last.
func (r *reader) read() {
	if !r.root.object(r.reads()) {
		return
	}
	if !r.named && !r.failed("clusters") && !r.failed("count") {
		r.report(r.root.find("clusters"), "clusters", "are required: name some, or let count make them")
	}
	r.strategy()
	r.checkLevel(r.root, &calendar.Level{
		TimeZone: r.out.Rules.TimeZone, Windows: r.out.Rules.Run.Windows, Freezes: r.out.Rules.Run.Freezes,
	})
	r.checkFaults()
	r.checkChurn()
	r.previous()
}

// resolve makes the plan and its calendar, unless something is wrong with what
// these are made of.
func (r *reader) resolve() {
	for path := range r.broken {
		switch name, _, _ := strings.Cut(strings.ReplaceAll(path, "[", "."), "."); name {
		case "faults", "churn", "commands", "start", "take", "until", "starter":
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
		r.out.World.Return.Calendar = r.out.Rules.For
	}
	if r.out.World.Calendar, err = r.out.Rules.For(p); err != nil {
		r.fieldErrors(err, r.place)
	}
}

func (v value) profile() stages.Profile {
	return stages.Profile(v.oneOf(string(stages.Staged), string(stages.ClusterUpdate), string(stages.Workflow)))
}

func (v value) unassigned() stages.Unassigned {
	return stages.Unassigned(v.oneOf(string(stages.UnassignedError), string(stages.UnassignedExclude), string(stages.UnassignedFinalStage)))
}

// time reads a moment.
func (v value) time() time.Time {
	s, ok := v.text()
	if !ok {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || t.Year() < 1971 || t.Year() > 9000 {
		v.fail(`must be a time after 1970 with an offset, such as "2026-01-05T10:00:00Z", not %q`, clip(s))
		return time.Time{}
	}
	return t
}
