package drift

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/ownership"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

const (
	defaultDifferences = 100
	defaultValueBytes  = 256
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
	if o.MaxValueBytes != 0 && o.MaxValueBytes < value.MinShownBytes {
		errs = append(errs, field.Invalid(field.NewPath("maxValueBytes"), o.MaxValueBytes, fmt.Sprintf("must be 0 or at least %d", value.MinShownBytes)))
	}
	return errs
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// report turns what was found of a member's object into a report.
func (o *output) report(m *Manifest, member *unstructured.Unstructured, all []*compare.Finding) Report {
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
	// room is the buffer of the trail that is being processed.
	room fieldpath.Trail
}

// trail returns the trail of a path, valid until the next call.
func (p *pass) trail(path []fieldpath.Step) fieldpath.Trail {
	p.room = fieldpath.Follow(p.room[:0], path, p.m.tree.Hub, p.live)
	return p.room
}

// observed returns what the member's metadata say.
func (p *pass) observed() (State, int64) {
	meta := metadataOf(p.live)
	generation, _ := value.Integer(meta["generation"])
	if meta["deletionTimestamp"] != nil {
		return Terminating, generation
	}
	return Present, generation
}

// kept returns what is neither ignored nor there already, in the order of the
// paths, with nothing secret in it. It works in all, of which there may be very
// many.
func (p *pass) kept(all []*compare.Finding) []*compare.Finding {
	kept := all[:0]
	for _, f := range all {
		t := p.trail(f.Path)
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
func compareFound(a, b *compare.Finding) int {
	if c := fieldpath.Compare(a.Path, a.Side(), b.Path, b.Side()); c != 0 {
		return c
	}
	return int(a.Class) - int(b.Class)
}

// ignored reports whether a rule leaves out a difference, and takes from it what
// rules leave out inside of it.
func (p *pass) ignored(f *compare.Finding, t fieldpath.Trail) bool {
	var inside []fieldpath.Pattern
	for i := range p.o.ignores {
		rule := &p.o.ignores[i]
		if rule.drops(classOf(f.Class), t, func() string { return p.manager(ownTrail(f, t)) }) {
			return true
		}
		if f.InHub != f.InMember {
			inside = append(inside, rule.trims(classOf(f.Class), t)...)
		}
	}
	var hub, member bool
	f.Hub, hub = fieldpath.Without(f.Hub, inside)
	f.Member, member = fieldpath.Without(f.Member, inside)
	return !hub || !member
}

// ownTrail returns the trail to the value that has the owner of a difference: what is
// missing in something that is owned as a whole was taken away by the owner of that.
func ownTrail(f *compare.Finding, t fieldpath.Trail) fieldpath.Trail {
	if !f.InMember && f.Whole > 0 {
		return t[:f.Whole]
	}
	return t
}

// manager returns the manager that last wrote the member's value at a trail.
func (p *pass) manager(t fieldpath.Trail) string {
	e, _ := p.owner(t)
	return e.Manager
}

// owner returns the entry of managedFields for what the member has.
func (p *pass) owner(t fieldpath.Trail) (ownership.Entry, bool) {
	if len(t) > 0 && t[len(t)-1].InMember == nil {
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

func ownSteps(t fieldpath.Trail) []ownership.Step {
	steps := make([]ownership.Step, len(t))
	for i, s := range t {
		steps[i] = ownership.Step{Name: s.Name, Item: s.Item, Index: s.Member, Value: s.InMember}
	}
	return steps
}

// distinct leaves out what is there already: the same path, and stale fields
// inside of what is there as a whole.
func distinct(sorted []*compare.Finding) []*compare.Finding {
	out := sorted[:0]
	for _, f := range sorted {
		if n := len(out); n > 0 && covered(out[n-1], f) {
			if len(out[n-1].Path) == len(f.Path) {
				out[n-1].Whole = max(out[n-1].Whole, f.Whole)
			}
			continue
		}
		out = append(out, f)
	}
	return out
}

// covered reports whether b says nothing that a, which is before it, does not.
func covered(a, b *compare.Finding) bool {
	if len(a.Path) > len(b.Path) || a.Side() != b.Side() {
		return false
	}
	for i, s := range a.Path {
		if fieldpath.CompareSteps(s, a.Side(), b.Path[i], b.Side()) != 0 {
			return false
		}
	}
	if len(a.Path) == len(b.Path) {
		return true
	}
	return a.Class == compare.Stale || b.Class == compare.Stale && a.Class == compare.Changed
}
