package kubefleet

import (
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/placement"
)

func (d *document) cluster() placement.Cluster {
	c := placement.Cluster{Name: d.name}
	labels := func(v value) { c.Labels = v.stringMap() }
	d.read(metadata{labels: labels}, func(v value) {
		v.object(fields{
			"identity": ignore, "heartbeatPeriodSeconds": ignore, "deleteOptions": ignore,
			"taints": func(v value) { v.list(func(v value) { c.Taints = append(c.Taints, v.taint()) }) },
		})
	})
	if status, ok := d.value().get("status"); ok {
		c.Properties = status.properties()
	}
	at := field.NewPath("metadata", "labels")
	d.check(metav1validation.ValidateLabels(c.Labels, at).ToAggregate(), func(s string) string { return s })
	return c
}

func (v value) taint() placement.Taint {
	var t placement.Taint
	v.object(fields{
		"key":    func(v value) { t.Key = v.str() },
		"value":  func(v value) { t.Value = v.str() },
		"effect": func(v value) { t.Effect = placement.TaintEffect(v.oneOf(string(placement.NoSchedule))) },
	}, "key", "effect")
	return t
}

// capacities are the parts of a member's status.resourceUsage, by what the names
// of their properties begin with.
func capacities() map[string]string {
	return map[string]string{
		resourceProperties + "total-": "capacity", resourceProperties + "allocatable-": "allocatable", resourceProperties + "available-": "available",
	}
}

// properties reads what a member reports of itself in its status. Nobody asks
// for it, so what is no quantity is passed over.
func (v value) properties() map[string]resource.Quantity {
	all := map[string]resource.Quantity{}
	take := func(name string, v value) {
		if q, err := placement.ParseQuantity(v.node.Value); err == nil && v.node.Kind == yaml.ScalarNode {
			all[name] = q
		}
	}
	v.each("properties", func(name string, v value) {
		if measured, ok := v.get("value"); ok {
			take(name, measured)
		}
	})
	if usage, ok := v.get("resourceUsage"); ok {
		for prefix, part := range capacities() {
			usage.each(part, func(name string, v value) { take(prefix+name, v) })
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// each calls f for the entries of an object in a field, if there is one.
func (v value) each(name string, f func(string, value)) {
	object, ok := v.get(name)
	if !ok || object.node.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(object.node.Content); i += 2 {
		key := object.at(object.node.Content[i], "").node.Value
		f(key, object.at(object.node.Content[i+1], ""))
	}
}
