package drift

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
)

// CompareWith compares as [Manifest.Compare] does, and asks the member about what
// is left: applied returns what an apply of the hub's object would come to, a dry
// run. What the apply would leave as it is, because the member's server takes it
// for the same, is no difference. It is not asked about what is Unmanaged, which
// no apply changes but inside of what is owned as a whole, nor where there is nothing
// else.
//
// A dry run is a help and never a condition: where it fails, or returns another
// object, the report is that of Compare with a warning. Errors of applied are not
// quoted, since a server may put values into them.
func (m *Manifest) CompareWith(member *unstructured.Unstructured, b *Baseline, applied func() (*unstructured.Unstructured, error)) (Report, error) {
	r, err := m.Compare(member, b)
	if err != nil || applied == nil || member == nil || r.State != Present || !r.disputed() {
		return r, err
	}
	member = m.asServed(member)
	if would, err := applied(); err == nil && would != nil && m.check(would.Object) == nil {
		return m.without(r, member, b, would)
	}
	r.Warnings = cappedWarnings(append(r.Warnings, "a dry run failed: what differs is reported without one"))
	return r, nil
}

// disputed reports whether there is a difference that an apply might not change.
func (r *Report) disputed() bool {
	for i := range r.Differences {
		if d := &r.Differences[i]; d.Class != Unmanaged || d.AtomicPath != "" {
			return true
		}
	}
	return r.Truncated
}

// without returns the report of a member without what an apply would leave.
func (m *Manifest) without(r Report, member *unstructured.Unstructured, b *Baseline, would *unstructured.Unstructured) (Report, error) {
	left, _, err := m.differences(would.Object, nil, true)
	if err != nil {
		return r, nil //nolint:nilerr // what an apply would come to is beyond the limits, and explains nothing
	}
	type place struct {
		class compare.Class
		path  string
	}
	stays := make(map[place]*compare.Finding, len(left))
	for _, f := range left {
		stays[place{f.Class, fieldpath.KeyPath(f.Path)}] = f
	}
	all, _, err := m.differences(member.Object, b, m.comparison == Full)
	if err != nil {
		return r, nil //nolint:nilerr // Compare has passed it
	}
	kept := all[:0]
	for _, f := range all {
		g := stays[place{f.Class, fieldpath.KeyPath(f.Path)}]
		if g == nil || f.Class == compare.Unmanaged && f.Whole == 0 || !sameOnMember(f, g) {
			kept = append(kept, f)
		}
	}
	out := m.report(member, append(kept, m.stale.find(member.Object)...))
	out.Warnings = r.Warnings
	return out, nil
}

// sameOnMember reports whether the member has the same in two comparisons.
func sameOnMember(f, g *compare.Finding) bool {
	return f.InMember == g.InMember && reflect.DeepEqual(f.Member, g.Member)
}
