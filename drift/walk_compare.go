package drift

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Compare compares the object of a member with the manifest. A nil member is an
// object that is not there. The baseline, which may be nil, is what the member had
// right after the object was applied. Nothing is changed, and the report shares
// nothing with its arguments.
//
// An object of another kind, namespace or name is an error, another version of
// the same kind a warning. A member beyond [MaxDepth] or [MaxNodes] is an error
// wherever something differs that is deep or large; what is as the hub says, and
// what is not compared, is not looked at again for that.
func (m *Manifest) Compare(member *unstructured.Unstructured, b *Baseline) (Report, error) {
	if member == nil || member.Object == nil {
		return m.out.report(m, nil, []*found{{class: Missing, hub: m.hub, inHub: true}}), nil
	}
	if err := m.check(member.Object); err != nil {
		return Report{}, m.refused(err)
	}
	all, warnings, err := m.differences(member.Object, b, m.comparison == Full)
	if err != nil {
		return Report{}, m.refused(err)
	}
	if stale := m.out.stale(m, member.Object); len(stale) > 0 {
		if err := bounded(member.Object); err != nil {
			return Report{}, m.refused(err)
		}
		all = append(all, stale...)
	}
	if version, _ := member.Object["apiVersion"].(string); version != "" && version != m.apiVersion() {
		warnings = append(warnings, "the member's object is "+version+" and the hub's "+m.apiVersion()+": read it as that")
	}
	r := m.report(member, all)
	if len(m.warnings)+len(warnings) > 0 {
		r.Warnings = cappedWarnings(append(append(r.Warnings, m.warnings...), warnings...))
	}
	return r, nil
}

// refused says whose object an error is about.
func (m *Manifest) refused(err error) error {
	return fmt.Errorf("drift: the member's %s: %w", m.describe(), err)
}

// report returns the report of what was found, at no cost where that is nothing.
func (m *Manifest) report(member *unstructured.Unstructured, all []*found) Report {
	meta, _ := member.Object["metadata"].(map[string]any)
	if len(all) > 0 || meta["deletionTimestamp"] != nil {
		return m.out.report(m, member, all)
	}
	generation, _ := integer(meta["generation"])
	return m.clean(generation)
}

// clean returns the report of an object that is as it should be.
func (m *Manifest) clean(generation int64) Report {
	return Report{
		Group: m.group, Version: m.version, Kind: m.kind, Namespace: m.namespace, Name: m.name,
		State: Present, Generation: generation, Differences: []Difference{},
	}
}

// check refuses a member's object that is of another kind or has another name.
func (m *Manifest) check(o map[string]any) error {
	if kind, _ := o["kind"].(string); kind != "" && kind != m.kind {
		return errors.New("it is of another kind, " + printable(kind, maxKeyText))
	}
	if version, _ := o["apiVersion"].(string); version != "" && groupOf(version) != m.group {
		return errors.New("it is of another group, " + printable(groupOf(version), maxKeyText))
	}
	return m.checkName(o)
}

// checkName refuses an object with another name: comparing it says nothing.
func (m *Manifest) checkName(o map[string]any) error {
	meta, _ := o["metadata"].(map[string]any)
	if name, _ := meta["name"].(string); name != "" && m.name != "" && name != m.name {
		return fmt.Errorf("it has another name, %q", shortened(name))
	}
	if ns, _ := meta["namespace"].(string); ns != "" && m.namespace != "" && ns != m.namespace {
		return fmt.Errorf("it is in another namespace, %q", shortened(ns))
	}
	return nil
}

// apiVersion returns the group and version of the hub's object.
func (m *Manifest) apiVersion() string {
	if m.group == "" {
		return m.version
	}
	return m.group + "/" + m.version
}

// groupOf returns the group of an apiVersion, empty for that of the core.
func groupOf(apiVersion string) string {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		return ""
	}
	return group
}

func (m *Manifest) describe() string {
	name := m.name
	if m.namespace != "" {
		name = m.namespace + "/" + name
	}
	return fmt.Sprintf("%s %q", printable(m.kind, maxKeyText), shortened(name))
}
