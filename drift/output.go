package drift

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/drift/internal/ownership"
)

const (
	defaultDifferences = 100
	defaultValueBytes  = 256
	// leastValueBytes is room for the length, the digest and a few characters.
	leastValueBytes = 64
	// maxReportBytes limits the paths and values of one report: hostile names
	// may be as long as the object.
	maxReportBytes = 1 << 20
	// maxWarnings is how many warnings a report has, maxWarningBytes how long
	// each is.
	maxWarnings     = 20
	maxWarningBytes = 512
)

// output turns what the walk found into reports. It does not change but for a
// cache, and may be used by any number of goroutines.
type output struct {
	ignores   []ignore
	secrets   secrets
	manager   string
	status    bool
	max       int
	maxValue  int
	byManager bool
	applied   appliedCache
}

// newOutput prepares reports about an object of the hub. The error names every
// problem of the options.
func newOutput(o Options, hub *unstructured.Unstructured) (*output, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("drift: the options are invalid: %w", err)
	}
	ignores, _ := compileIgnores(o.Ignore, field.NewPath("ignore"))
	patterns, _ := compilePatterns(o.Secrets, field.NewPath("secrets"))
	out := &output{
		ignores: narrowed(ignores, hub), secrets: secrets{patterns, slices.Clone(o.SecretKey)},
		manager: o.Manager, status: o.Status,
		max: orDefault(o.MaxDifferences, defaultDifferences), maxValue: orDefault(o.MaxValueBytes, defaultValueBytes),
	}
	out.byManager = slices.ContainsFunc(out.ignores, func(i ignore) bool { return len(i.rule.Managers) > 0 })
	return out, nil
}

func checkOptions(o Options) field.ErrorList {
	var errs field.ErrorList
	if known := []Comparison{Partial, Full}; o.Comparison != "" && !slices.Contains(known, o.Comparison) {
		errs = append(errs, field.NotSupported(field.NewPath("comparison"), o.Comparison, known))
	}
	for i, s := range o.Secrets {
		if s == "" {
			errs = append(errs, field.Required(field.NewPath("secrets").Index(i), "a pointer to a field, such as /spec/password; the object as a whole is not secret"))
		}
	}
	if o.MaxDifferences < 0 {
		errs = append(errs, field.Invalid(field.NewPath("maxDifferences"), o.MaxDifferences, "must not be negative"))
	}
	if o.MaxValueBytes != 0 && o.MaxValueBytes < leastValueBytes {
		errs = append(errs, field.Invalid(field.NewPath("maxValueBytes"), o.MaxValueBytes, fmt.Sprintf("must be 0 or at least %d", leastValueBytes)))
	}
	return errs
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// side is where the indexes of its path count.
func (f *found) side() side {
	if f.inMember {
		return memberSide
	}
	return hubSide
}

// report turns what was found of a member's object into a report.
func (o *output) report(m *Manifest, member *unstructured.Unstructured, all []*found) Report {
	r := Report{
		Group: m.group, Version: m.version, Kind: m.kind, Namespace: m.namespace, Name: m.name,
		State: Absent, Differences: []Difference{},
	}
	p := pass{o: o, m: m}
	if member != nil {
		p.live = member.Object
		r.State, r.Generation = p.observed()
	}
	kept := p.kept(all)
	r.Total = len(kept)
	r.Fingerprint = p.fingerprint(kept)
	r.Differences = p.differences(kept)
	r.Truncated = len(r.Differences) < r.Total
	if p.owners != nil {
		r.Warnings = cappedWarnings(p.owners.Warnings())
	}
	return r
}

// pass makes one report.
type pass struct {
	o      *output
	m      *Manifest
	live   any
	owners *ownership.Lookup
	// room is for the trail that is looked at.
	room trail
}

// trail returns the trail of a path, valid until the next call.
func (p *pass) trail(path []step) trail {
	p.room = follow(p.room[:0], path, p.m.hub, p.live)
	return p.room
}

// observed returns what the member's metadata say.
func (p *pass) observed() (State, int64) {
	meta := metadataOf(p.live)
	generation, _ := integer(meta["generation"])
	if meta["deletionTimestamp"] != nil {
		return Terminating, generation
	}
	return Present, generation
}

// kept returns what is neither ignored nor there already, in the order of the
// paths, with nothing secret in it. It works in all, of which there may be very
// many.
func (p *pass) kept(all []*found) []*found {
	kept := all[:0]
	for _, f := range all {
		t := p.trail(f.path)
		if p.ignored(f, t) {
			continue
		}
		*f = p.redacted(*f, t)
		kept = append(kept, f)
	}
	slices.SortFunc(kept, compareFound)
	return distinct(kept)
}

// compareFound orders by path; at one path, by what says more.
func compareFound(a, b *found) int {
	if c := comparePaths(a.path, a.side(), b.path, b.side()); c != 0 {
		return c
	}
	return rank(a.class) - rank(b.class)
}

func rank(c Class) int {
	return slices.Index([]Class{Changed, Missing, Stale, Order, Unmanaged}, c)
}

// ignored tells whether a rule leaves out a difference, and takes from it what
// rules leave out inside of it.
func (p *pass) ignored(f *found, t trail) bool {
	var inside []pattern
	for i := range p.o.ignores {
		rule := &p.o.ignores[i]
		if rule.drops(f.class, t, func() string { return p.manager(t) }) {
			return true
		}
		if f.inHub != f.inMember {
			inside = append(inside, rule.trims(f.class, t)...)
		}
	}
	var hub, member bool
	f.hub, hub = trimmed(f.hub, inside)
	f.member, member = trimmed(f.member, inside)
	return !hub || !member
}

// manager returns who wrote last what the member has.
func (p *pass) manager(t trail) string {
	e, _ := p.owner(t)
	return e.Manager
}

// owner returns the entry of managedFields for what the member has.
func (p *pass) owner(t trail) (ownership.Entry, bool) {
	if len(t) > 0 && t[len(t)-1].inMember == nil {
		return ownership.Entry{}, false
	}
	if p.owners == nil {
		p.owners = ownership.NewLookup(managedFields(p.live))
	}
	return p.owners.Owner(ownSteps(t))
}

func managedFields(object any) []any {
	managed, _ := metadataOf(object)["managedFields"].([]any)
	return managed
}

func metadataOf(object any) map[string]any {
	o, _ := object.(map[string]any)
	meta, _ := o["metadata"].(map[string]any)
	return meta
}

func ownSteps(t trail) []ownership.Step {
	steps := make([]ownership.Step, len(t))
	for i, s := range t {
		steps[i] = ownership.Step{Name: s.name, Item: s.item, Index: s.member, Value: s.inMember}
	}
	return steps
}

// distinct leaves out what is there already: the same path, and stale fields
// inside of what is there as a whole.
func distinct(sorted []*found) []*found {
	out := sorted[:0]
	for _, f := range sorted {
		if n := len(out); n > 0 && covered(out[n-1], f) {
			continue
		}
		out = append(out, f)
	}
	return out
}

// covered tells whether b says nothing that a, which is before it, does not.
func covered(a, b *found) bool {
	if len(a.path) > len(b.path) || a.side() != b.side() {
		return false
	}
	for i, s := range a.path {
		if compareSteps(s, a.side(), b.path[i], b.side()) != 0 {
			return false
		}
	}
	if len(a.path) == len(b.path) {
		return true
	}
	return a.class == Stale || b.class == Stale && a.class == Changed
}
