package kubefleet

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
)

func (w *writer) cluster(c placement.Cluster) {
	spec := map[string]any{}
	if len(c.Taints) > 0 {
		spec["taints"] = trees(c.Taints)
	}
	m := newManifest("MemberCluster", "", c.Name, spec)
	m["apiVersion"] = clusterGroup + "/v1beta1"
	if len(c.Labels) > 0 {
		m["metadata"].(map[string]any)["labels"] = yamldoc.Plain(c.Labels)
	}
	if len(c.Properties) > 0 {
		m["status"] = propertiesTree(c.Properties)
	}
	w.add(m, clusterErrors(c))
}

func clusterErrors(c placement.Cluster) field.ErrorList {
	errs := nameErrors("name", c.Name)
	errs = append(errs, metav1validation.ValidateLabels(c.Labels, field.NewPath("labels"))...)
	for _, f := range []struct {
		path  string
		given bool
	}{{"uid", c.UID != ""}, {"leaving", c.Leaving}, {"unhealthy", c.Unhealthy != ""}, {"namespaces", c.Namespaces != nil}} {
		if f.given {
			errs = append(errs, inexpressible(f.path))
		}
	}
	for i, t := range c.Taints {
		if t.Effect != placement.NoSchedule {
			errs = append(errs, field.NotSupported(field.NewPath("taints").Index(i).Child("effect"), t.Effect, []placement.TaintEffect{placement.NoSchedule}))
		}
	}
	return errs
}

// propertiesTree is the status of a member that reports properties.
func propertiesTree(all map[string]resource.Quantity) map[string]any {
	properties, usage := map[string]any{}, map[string]any{}
	for name, q := range all {
		part, of := capacityOf(name)
		if part == "" {
			properties[name] = map[string]any{"value": yamldoc.Plain(q)}
			continue
		}
		if usage[part] == nil {
			usage[part] = map[string]any{}
		}
		usage[part].(map[string]any)[of] = yamldoc.Plain(q)
	}
	return map[string]any{"properties": properties, "resourceUsage": usage}
}

// capacityOf is the part of status.resourceUsage that a property belongs to, and
// the resource that it is of.
func capacityOf(name string) (part, of string) {
	for prefix, part := range capacities() {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return part, rest
		}
	}
	return "", ""
}
