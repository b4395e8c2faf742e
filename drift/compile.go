package drift

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// Manifest is an object of the hub, prepared for comparisons with the objects of
// many members. [Compile] makes it. It never changes, shares no memory with the
// arguments of Compile, and may be used by any number of goroutines.
type Manifest struct {
	group, version, kind, namespace, name string

	comparison Comparison
	tree       *compare.Tree
	stale      staleness
	rules      []ignore
	secrets    secrets
	// max is the maximum number of differences in a report, and maxValue the maximum
	// number of bytes shown of a value.
	max, maxValue int
}

// Compile checks an object of the hub and prepares it. It neither changes nor keeps hub
// and o. The error names every problem of the options, or up to twenty problems of the
// object; it never contains a value.
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
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("drift: the options are invalid: %w", err)
	}
	m.prepare(o, hub)
	if m.comparison == "" {
		m.comparison = Partial
	}
	schemas := o.Schemas
	if schemas == nil {
		schemas = schema.Builtin()
	}
	tree, err := compare.Compile(hub, compare.Options{Type: schemas.Type(kind), Status: o.Status, MeasureAll: len(o.SecretKey) > 0})
	if err != nil {
		return nil, fmt.Errorf("drift: the hub's %s: %w", title, err)
	}
	m.tree, m.stale.tree = tree, tree
	return m, nil
}

// prepare copies the settings of valid options that apply to the object.
func (m *Manifest) prepare(o Options, hub *unstructured.Unstructured) {
	rules, _ := compileIgnores(o.Ignore, field.NewPath("ignore"))
	patterns, _ := compilePatterns(o.Secrets, field.NewPath("secrets"))
	m.rules = narrowed(rules, hub)
	m.secrets = secrets{patterns, slices.Clone(o.SecretKey)}
	m.stale.manager, m.stale.status = o.Manager, o.Status
	m.stale.kept = managersOf(o.Ignore, hub)
	m.max, m.maxValue = orDefault(o.MaxDifferences, defaultDifferences), orDefault(o.MaxValueBytes, defaultValueBytes)
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

// refused names the object that an error is about.
func (m *Manifest) refused(err error) error {
	return fmt.Errorf("drift: the member's %s: %w", m.describe(), err)
}

// apiVersion returns the group and version of the hub's object.
func (m *Manifest) apiVersion() string {
	if m.group == "" {
		return m.version
	}
	return m.group + "/" + m.version
}

// groupOf returns the group of an apiVersion; the core group is empty.
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
