package drift

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/kinds"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

// Compare compares an object of the hub with the member's, which is nil where
// there is none. It is [Compile] and [Manifest.Compare] in one.
func Compare(hub, member *unstructured.Unstructured, o Options) (Report, error) {
	m, err := Compile(hub, o)
	if err != nil {
		return Report{}, err
	}
	return m.Compare(member, nil)
}

// Compare compares the object of a member with the manifest. A nil member is an
// object that is not there. The baseline, which may be nil, is what the member had
// right after the object was applied. Nothing is changed, and the report shares
// nothing with its arguments. The stringData of a Secret is compared as the data that a server makes of it, on both
// sides.
//
// An object of another kind, namespace or name is an error, another version of
// the same kind a warning. A member beyond [MaxDepth] or [MaxNodes] is an error
// wherever something differs that is deep or large; what is as the hub says, and
// what is not compared, is not compared again for that.
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

// asServed returns an object as a server has it: one that was read from a file may have the data of a Secret as
// stringData. The argument is not changed.
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

// report returns the report of what was found, at no cost where that is nothing.
func (m *Manifest) report(member *unstructured.Unstructured, all []*compare.Finding) Report {
	meta, _ := member.Object["metadata"].(map[string]any)
	if len(all) > 0 || meta["deletionTimestamp"] != nil {
		return m.reportOf(member, all)
	}
	generation, _ := value.Integer(meta["generation"])
	return m.clean(generation)
}

// clean returns the report of an object that is as it should be.
func (m *Manifest) clean(generation int64) Report {
	return Report{
		Group: m.group, Version: m.version, Kind: m.kind, Namespace: m.namespace, Name: m.name,
		State: Present, Generation: generation, Differences: []Difference{},
	}
}
