package drift

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// Manifest is an object of the hub, prepared to be compared with the objects of
// many members. It is made by [Compile], never changes, keeps nothing of what it
// was made from, and may be used by any number of goroutines.
type Manifest struct {
	group, version, kind, namespace, name string

	comparison Comparison
	tree       *compare.Tree
	out        *output
}

// Compare compares an object of the hub with the member's, which is nil where
// there is none. It is [Compile] and [Manifest.Compare] in one.
func Compare(hub, member *unstructured.Unstructured, o Options) (Report, error) {
	m, err := Compile(hub, o)
	if err != nil {
		return Report{}, err
	}
	return m.Compare(member, nil)
}

// Compile checks an object of the hub and prepares it. Neither it nor o are
// changed or kept. The error names every problem of the options, or those of the
// object, up to twenty; it never holds a value.
func Compile(hub *unstructured.Unstructured, o Options) (*Manifest, error) {
	if hub == nil || hub.Object == nil {
		return nil, errors.New("drift: there is no object of the hub to compare with")
	}
	// A kind whose apiVersion makes no sense is still named in errors.
	title := describe(hub.GetKind(), hub.GetNamespace(), hub.GetName())
	kind := hub.GroupVersionKind()
	m := &Manifest{
		group: kind.Group, version: kind.Version, kind: kind.Kind,
		namespace: hub.GetNamespace(), name: hub.GetName(), comparison: o.Comparison,
	}
	if err := compare.CheckLimits(hub.Object); err != nil {
		return nil, fmt.Errorf("drift: the hub's %s: %w", title, err)
	}
	var err error
	if m.out, err = newOutput(o, hub); err != nil {
		return nil, err
	}
	if m.comparison == "" {
		m.comparison = Partial
	}
	schemas := o.Schemas
	if schemas == nil {
		schemas = schema.Builtin()
	}
	m.tree, err = compare.Compile(hub, compare.Options{Type: schemas.Type(kind), Status: o.Status, MeasureAll: len(o.SecretKey) > 0})
	if err != nil {
		return nil, fmt.Errorf("drift: the hub's %s: %w", title, err)
	}
	return m, nil
}

// Compare compares the object of a member with the manifest. A nil member is an
// object that is not there. The baseline, which may be nil, is what the member had
// right after the object was applied. Nothing is changed, and the report shares
// nothing with its arguments.
//
// An object of another kind, namespace or name is an error, another version of
// the same kind a warning. A member beyond [MaxDepth] or [MaxNodes] is an error
// wherever something differs that is deep or large; what is as the hub says, and
// what is not compared, is not compared again for that.
func (m *Manifest) Compare(member *unstructured.Unstructured, b *Baseline) (Report, error) {
	if member == nil || member.Object == nil {
		return m.out.report(m, nil, []*compare.Finding{{Class: compare.Missing, Hub: m.tree.Hub, InHub: true}}), nil
	}
	if err := m.check(member.Object); err != nil {
		return Report{}, m.refused(err)
	}
	all, warnings, err := m.differences(member.Object, b, m.comparison == Full)
	if err != nil {
		return Report{}, m.refused(err)
	}
	if stale := m.out.stale(m, member.Object); len(stale) > 0 {
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

// differences returns what differs in a member and is not explained by a baseline.
func (m *Manifest) differences(member map[string]any, b *Baseline, full bool) ([]*compare.Finding, []string, error) {
	if b.Len() == 0 {
		return m.tree.Compare(member, full, nil)
	}
	return m.tree.Compare(member, full, func(f *compare.Finding) bool { return b.explains(m, f) })
}

// refused says whose object an error is about.
func (m *Manifest) refused(err error) error {
	return fmt.Errorf("drift: the member's %s: %w", m.describe(), err)
}

// report returns the report of what was found, at no cost where that is nothing.
func (m *Manifest) report(member *unstructured.Unstructured, all []*compare.Finding) Report {
	meta, _ := member.Object["metadata"].(map[string]any)
	if len(all) > 0 || meta["deletionTimestamp"] != nil {
		return m.out.report(m, member, all)
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

// check refuses a member's object that is of another kind or has another name.
func (m *Manifest) check(o map[string]any) error {
	if kind, _ := o["kind"].(string); kind != "" && kind != m.kind {
		return errors.New("it is of another kind, " + value.Printable(kind, value.MaxNameText))
	}
	if version, _ := o["apiVersion"].(string); version != "" && groupOf(version) != m.group {
		return errors.New("it is of another group, " + value.Printable(groupOf(version), value.MaxNameText))
	}
	return m.checkName(o)
}

// checkName refuses an object with another name: comparing it says nothing.
func (m *Manifest) checkName(o map[string]any) error {
	meta, _ := o["metadata"].(map[string]any)
	if name, _ := meta["name"].(string); name != "" && m.name != "" && name != m.name {
		return fmt.Errorf("it has another name, %q", value.Shorten(name))
	}
	if ns, _ := meta["namespace"].(string); ns != "" && m.namespace != "" && ns != m.namespace {
		return fmt.Errorf("it is in another namespace, %q", value.Shorten(ns))
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

func (m *Manifest) describe() string { return describe(m.kind, m.namespace, m.name) }

// describe names an object in an error.
func describe(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %q", value.Printable(kind, value.MaxNameText), value.Shorten(name))
}
