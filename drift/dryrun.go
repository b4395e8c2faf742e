package drift

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
)

// CompareWith compares like [Manifest.Compare] and then uses a dry run to drop
// differences: applied must return the object that an apply of the hub's object would
// produce. A difference that the apply would leave unchanged, because the member's
// server treats both values as equal, is dropped. Unmanaged differences outside of
// atomic lists and maps are kept, because no apply changes them. CompareWith does not
// call applied if there are no other differences.
//
// The dry run is optional: if it fails or returns another object, CompareWith returns
// the report of Compare with a warning. The warning does not quote the error of
// applied, because a server may put values into it.
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

// without returns the report of a member without differences that an apply would leave.
func (m *Manifest) without(r Report, member *unstructured.Unstructured, b *Baseline, would *unstructured.Unstructured) (Report, error) {
	left, _, err := m.differences(would.Object, nil, true)
	if err != nil {
		return r, nil //nolint:nilerr // a result over the limits explains nothing
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
		return r, nil //nolint:nilerr // Compare has accepted the same object, so there is no error
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

// sameOnMember reports whether the member's value is equal in two findings.
func sameOnMember(f, g *compare.Finding) bool {
	return f.InMember == g.InMember && reflect.DeepEqual(f.Member, g.Member)
}
