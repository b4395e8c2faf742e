package oam

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
)

// policyObject reads a Policy.
func policyObject(d *document) Policy {
	version(d, "v1alpha1")
	p := policy(d.Root(), fields{
		"apiVersion": yamldoc.Ignore, "kind": yamldoc.Ignore, "status": yamldoc.Ignore,
		"metadata": func(v value) { metadata(v, nil) },
	})
	p.Namespace, p.Name = d.Namespace, d.Name
	return p
}

// policy reads the type and the properties of a policy; head are the fields of its identity.
func policy(v value, head fields) Policy {
	p := Policy{Type: PolicyType(v.Peek("type"))}
	known := fields{
		"type": func(v value) {
			if p.Type != TopologyType && p.Type != OverrideType {
				v.Fail("policies of type %q are not supported; supported are %s and %s", yamldoc.Clip(string(p.Type)), TopologyType, OverrideType)
			}
		},
		"properties": func(v value) {
			switch p.Type {
			case TopologyType:
				p.Topology = topology(v)
			case OverrideType:
				p.Override = override(v)
			}
		},
	}
	required := []string{"type", "properties"}
	for name := range head {
		if name == "name" || name == "metadata" {
			required = append(required, name)
		}
	}
	maps.Copy(known, head)
	v.Object(known, required...)
	return p
}

func topology(v value) *Topology {
	t := &Topology{}
	v.Object(fields{
		"clusters": func(v value) {
			t.Clusters = distinct(v)
			if len(t.Clusters) == 0 {
				v.Fail("must name at least one cluster")
			}
		},
		"clusterLabelSelector": func(v value) { t.Labels = labelsOf(v) },
		"allowEmpty":           func(v value) { t.AllowEmpty = v.Boolean() },
		"clusterSelector":      func(v value) { v.Fail("is out of date and not supported; write clusterLabelSelector") },
		"namespace":            func(v value) { v.Fail("objects keep their namespace; leave it out") },
	})
	switch {
	case t.Clusters != nil && t.Labels != nil:
		v.Fail("takes clusters or a clusterLabelSelector, not both")
	case t.Clusters == nil && t.Labels == nil && v.Doc.OK():
		v.Fail("needs clusters or a clusterLabelSelector: nothing is deployed to the hub itself")
	}
	return t
}

// labelsOf reads labels for a selector.
func labelsOf(v value) map[string]string {
	m := v.StringMap()
	for key, value := range m {
		for _, msg := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			v.Place(yamldoc.Clip(key)).Fail("%s", msg)
		}
	}
	return m
}

func override(v value) *Override {
	o := &Override{}
	v.Object(fields{
		"selector":   func(v value) { o.Selector = distinct(v) },
		"components": func(v value) { o.Components = yamldoc.List(v, componentPatch) },
	})
	if len(o.Selector)+len(o.Components) == 0 && v.Doc.OK() {
		v.Fail("changes nothing: it needs components or a selector")
	}
	return o
}

func componentPatch(v value) ComponentPatch {
	var c ComponentPatch
	v.Object(fields{
		"name": func(v value) { c.Name = label(v) },
		"type": componentType,
		"properties": func(v value) {
			v.Fail("a component of type %s has no properties that an override could change; write the trait json-patch", RefObjects)
		},
		"traits":           func(v value) { c.Patches = slices.Concat(yamldoc.List(v, trait)...) },
		"externalRevision": unsupported,
	})
	if len(c.Patches) == 0 && v.Doc.OK() {
		v.Fail("changes nothing: it needs traits")
	}
	return c
}

// trait reads a trait that changes objects: scaler, or json-patch.
func trait(v value) (patches []placement.Patch) {
	of := v.Peek("type")
	v.Object(fields{
		"type": traitType,
		"properties": func(v value) {
			switch of {
			case "scaler":
				patches = scaler(v)
			case "json-patch":
				patches = jsonPatch(v)
			}
		},
		"disable": unsupported,
	}, "type", "properties")
	return patches
}

func traitType(v value) {
	if s := v.NonEmpty(); s != "" && s != "scaler" && s != "json-patch" {
		v.Fail("the trait %q is not supported; supported are scaler and json-patch", yamldoc.Clip(s))
	}
}

func scaler(v value) (patches []placement.Patch) {
	v.Object(fields{"replicas": func(v value) {
		n := strconv.Itoa(v.AtLeast(0))
		patches = []placement.Patch{{Op: placement.OpAdd, Path: "/spec/replicas", Value: json.RawMessage(n)}}
	}}, "replicas")
	return patches
}

func jsonPatch(v value) (patches []placement.Patch) {
	v.Object(fields{"operations": func(v value) { patches = yamldoc.List(v, operation) }}, "operations")
	return patches
}

func operation(v value) placement.Patch {
	var p placement.Patch
	v.Object(fields{
		"op":    func(v value) { p.Op = placement.PatchOp(yamldoc.OneOf(v, "add", "remove", "replace")) },
		"path":  func(v value) { p.Path = v.NonEmpty() },
		"value": func(v value) { p.Value = v.JSON() },
	}, "op", "path")
	if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
		v.Place("path").Fail("must be a JSON pointer such as /spec/replicas")
	}
	return p
}
