package kubefleet

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

type (
	document = yamldoc.Doc
	value    = yamldoc.Value
	fields   = yamldoc.Fields
)

// metadata describes the metadata of a kind.
type metadata struct {
	namespaced bool
	// name reads the name: subdomain, or dnsLabel if it is nil.
	name func(value)
	// labels reads the labels; nil ignores them.
	labels func(value)
}

// readObject reads a document of one of KubeFleet's kinds: spec reads its spec.
func readObject(d *document, m metadata, spec func(value), required ...string) {
	d.Root().Object(fields{
		"apiVersion": yamldoc.Ignore,
		"kind":       yamldoc.Ignore,
		"status":     yamldoc.Ignore,
		"metadata":   func(v value) { m.read(v) },
		"spec":       spec,
	}, append(required, "metadata")...)
}

func (m metadata) read(v value) {
	if m.labels == nil {
		m.labels = func(v value) { v.StringMap() }
	}
	if m.name == nil {
		m.name = dnsLabel
	}
	required := []string{"name"}
	namespace := func(v value) { v.Fail("a %s is cluster-scoped; leave it out", v.Doc.Kind) }
	if m.namespaced {
		required, namespace = append(required, "namespace"), dnsLabel
	}
	v.Object(yamldoc.Metadata(fields{
		"name": m.name, "namespace": namespace, "labels": m.labels,
		"annotations": func(v value) { v.StringMap() },
	}), required...)
}

// dnsLabel reads a name and reports it unless it is a DNS label.
func dnsLabel(v value) { v.Named(validation.IsDNS1123Label) }

// subdomain reads a name and reports it unless it is a DNS subdomain.
func subdomain(v value) { v.Named(validation.IsDNS1123Subdomain) }

// stringMap reads labels; it returns nil if there are none.
func stringMap(v value) map[string]string {
	if m := v.StringMap(); len(m) > 0 {
		return m
	}
	return nil
}

func labelSelector(v value) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	v.Object(fields{
		"matchLabels":      func(v value) { s.MatchLabels = stringMap(v) },
		"matchExpressions": func(v value) { s.MatchExpressions = yamldoc.List(v, requirement) },
	})
	return s
}

func requirement(v value) metav1.LabelSelectorRequirement {
	var r metav1.LabelSelectorRequirement
	v.Object(fields{
		"key":      func(v value) { r.Key = v.Str() },
		"operator": func(v value) { r.Operator = metav1.LabelSelectorOperator(v.Str()) },
		"values":   func(v value) { r.Values = v.Strings() },
	}, "key", "operator")
	return r
}

// engineNameOf returns the engine name of the document's object.
func engineNameOf(d *document, namespaced bool) string {
	if !namespaced {
		return EngineName("", d.Name)
	}
	return EngineName(d.Namespace, d.Name)
}
