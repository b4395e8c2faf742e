package kubefleet

import (
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
)

func readCluster(d *document) placement.Cluster {
	c := placement.Cluster{Name: d.Name}
	labels := func(v value) { c.Labels = stringMap(v) }
	readObject(d, metadata{labels: labels}, func(v value) {
		v.Object(fields{
			"identity": yamldoc.Ignore, "heartbeatPeriodSeconds": yamldoc.Ignore, "deleteOptions": yamldoc.Ignore,
			"taints": func(v value) { c.Taints = yamldoc.List(v, taint) },
		})
	})
	if status, ok := d.Root().Get("status"); ok {
		c.Properties = properties(status)
	}
	at := field.NewPath("metadata", "labels")
	d.Root().Check(metav1validation.ValidateLabels(c.Labels, at).ToAggregate(), nil)
	return c
}

func taint(v value) placement.Taint {
	var t placement.Taint
	v.Object(fields{
		"key":    func(v value) { t.Key = v.Str() },
		"value":  func(v value) { t.Value = v.Str() },
		"effect": func(v value) { t.Effect = yamldoc.OneOf(v, placement.NoSchedule) },
	}, "key", "effect")
	return t
}

// capacities maps the prefixes of property names to the fields of a member's status.resourceUsage.
func capacities() map[string]string {
	return map[string]string{
		resourceProperties + "total-": "capacity", resourceProperties + "allocatable-": "allocatable", resourceProperties + "available-": "available",
	}
}

// properties reads the properties that a member reports in its status. It ignores values that are
// no quantities, because a status is not a request.
func properties(v value) map[string]resource.Quantity {
	all := map[string]resource.Quantity{}
	take := func(name string, v value) {
		if q, err := placement.ParseQuantity(v.Node.Value); err == nil && v.Node.Kind == yaml.ScalarNode {
			all[name] = q
		}
	}
	reported, _ := v.Get("properties")
	for name, v := range reported.All() {
		if measured, ok := v.Get("value"); ok {
			take(name, measured)
		}
	}
	usage, _ := v.Get("resourceUsage")
	for prefix, part := range capacities() {
		measured, _ := usage.Get(part)
		for name, v := range measured.All() {
			take(prefix+name, v)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all
}
