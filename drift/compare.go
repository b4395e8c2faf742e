package drift

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/kinds"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

// Compare compares an object of the hub with the member's object, which is nil if the
// member has none. It calls [Compile] and [Manifest.Compare].
func Compare(hub, member *unstructured.Unstructured, o Options) (Report, error) {
	m, err := Compile(hub, o)
	if err != nil {
		return Report{}, err
	}
	return m.Compare(member, nil)
}

// Compare compares the object of a member with the manifest. A nil member is an
// absent object. The baseline, which may be nil, holds the differences right after the
// last apply. Compare does not change its arguments, and the report shares no memory
// with them. On both sides, stringData of a Secret is compared as the data that
// a server stores for it.
//
// An object of another kind, namespace or name is an error; another version of
// the same kind is a warning. A member that exceeds [MaxDepth] or [MaxNodes] is an error
// only if the deep or large part differs; equal parts, and parts that are not compared,
// are not checked.
func (m *Manifest) Compare(member *unstructured.Unstructured, b *Baseline) (Report, error) {
	if member == nil || member.Object == nil {
		return m.reportOf(nil, []*compare.Finding{{Class: compare.Missing, Hub: m.tree.Hub, InHub: true}}), nil
	}
	if err := m.check(member.Object); err != nil {
		return Report{}, m.refused(err)
	}
	member = m.asServed(member)
	all, warnings, err := m.differences(member.Object, b, m.comparison == Full)
	if err != nil {
		return Report{}, m.refused(err)
	}
	if stale := m.stale.find(member.Object); len(stale) > 0 {
		if err := compare.CheckLimits(member.Object); err != nil {
			return Report{}, m.refused(err)
		}
		all = append(all, stale...)
	}
	if version, _ := member.Object["apiVersion"].(string); version != "" && version != m.apiVersion() {
		warnings = append(warnings, "the member's object is "+version+" and the hub's "+m.apiVersion()+": read it as that")
	}
	r := m.report(member, all)
	if len(m.tree.Warnings)+len(warnings) > 0 {
		r.Warnings = cappedWarnings(append(append(r.Warnings, m.tree.Warnings...), warnings...))
	}
	return r, nil
}

// asServed returns o with the stringData of a Secret moved to data, as a server does,
// because an object from a file may still have stringData. It does not change o.
func (m *Manifest) asServed(o *unstructured.Unstructured) *unstructured.Unstructured {
	text, ok := o.Object["stringData"].(map[string]any)
	if !ok || !m.tree.Rules.Has(kinds.SecretData) {
		return o
	}
	served := maps.Clone(o.Object)
	served["stringData"] = maps.Clone(text)
	if data, ok := served["data"].(map[string]any); ok {
		served["data"] = maps.Clone(data)
	}
	kinds.FoldStringData(served)
	return &unstructured.Unstructured{Object: served}
}

// report returns the report of the findings. It allocates nothing if there are none.
func (m *Manifest) report(member *unstructured.Unstructured, all []*compare.Finding) Report {
	meta, _ := member.Object["metadata"].(map[string]any)
	if len(all) > 0 || meta["deletionTimestamp"] != nil {
		return m.reportOf(member, all)
	}
	generation, _ := value.Integer(meta["generation"])
	return m.clean(generation)
}

// clean returns the report of an object without differences.
func (m *Manifest) clean(generation int64) Report {
	return Report{
		Group: m.group, Version: m.version, Kind: m.kind, Namespace: m.namespace, Name: m.name,
		State: Present, Generation: generation, Differences: []Difference{},
	}
}
