package oam

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/placement"
)

// policy reads a Policy object.
func (d *document) policy() Policy {
	d.version("v1alpha1")
	p := d.value().policy(fields{
		"apiVersion": ignore, "kind": ignore, "status": ignore,
		"metadata": func(v value) { v.metadata(nil) },
	})
	p.Namespace, p.Name = d.namespace, d.name
	return p
}

// policy reads the type of a policy and what it says; head are the fields that name
// it.
func (v value) policy(head fields) Policy {
	var p Policy
	if t, ok := v.get("type"); ok {
		s, _ := t.text()
		p.Type = PolicyType(s)
	}
	known := fields{
		"type": func(v value) {
			if p.Type != TopologyType && p.Type != OverrideType {
				v.fail("policies of type %q are not supported; supported are %s and %s", clip(string(p.Type)), TopologyType, OverrideType)
			}
		},
		"properties": func(v value) {
			switch p.Type {
			case TopologyType:
				p.Topology = v.topology()
			case OverrideType:
				p.Override = v.override()
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
	v.object(known, required...)
	return p
}

func (v value) topology() *Topology {
	t := &Topology{}
	v.object(fields{
		"clusters": func(v value) {
			t.Clusters = v.strings()
			if len(t.Clusters) == 0 {
				v.fail("must name at least one cluster")
			}
		},
		"clusterLabelSelector": func(v value) { t.Labels = v.labels() },
		"allowEmpty":           func(v value) { t.AllowEmpty = v.boolean() },
		"clusterSelector":      func(v value) { v.fail("is out of date and not supported; write clusterLabelSelector") },
		"namespace":            func(v value) { v.fail("objects keep their namespace; leave it out") },
	})
	switch {
	case t.Clusters != nil && t.Labels != nil:
		v.fail("takes clusters or a clusterLabelSelector, not both")
	case t.Clusters == nil && t.Labels == nil && len(v.doc.problems) == 0:
		v.fail("needs clusters or a clusterLabelSelector: nothing is deployed to the hub itself")
	}
	return t
}

// labels reads what labels have to be.
func (v value) labels() map[string]string {
	m := v.stringMap()
	for key, value := range m {
		for _, msg := range append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...) {
			v.doc.reportAt(v.path+"."+clip(key), msg)
		}
	}
	return m
}

func (v value) override() *Override {
	o := &Override{}
	v.object(fields{
		"selector":   func(v value) { o.Selector = v.strings() },
		"components": func(v value) { v.list(func(v value) { o.Components = append(o.Components, v.componentPatch()) }) },
	})
	if len(o.Selector)+len(o.Components) == 0 && len(v.doc.problems) == 0 {
		v.fail("changes nothing: it needs components or a selector")
	}
	return o
}

func (v value) componentPatch() ComponentPatch {
	var c ComponentPatch
	v.object(fields{
		"name": func(v value) { c.Name = v.label() },
		"type": func(v value) { v.componentType() },
		"properties": func(v value) {
			v.fail("a component of type %s has no properties that an override could change; write the trait json-patch", RefObjects)
		},
		"traits":           func(v value) { v.list(func(v value) { c.Patches = append(c.Patches, v.trait()...) }) },
		"externalRevision": unsupported,
	})
	if len(c.Patches) == 0 && len(v.doc.problems) == 0 {
		v.fail("changes nothing: it needs traits")
	}
	return c
}

// trait reads what changes objects: scaler, or json-patch.
func (v value) trait() (patches []placement.Patch) {
	var of string
	if t, ok := v.get("type"); ok {
		of, _ = t.text()
	}
	v.object(fields{
		"type": func(v value) { v.traitType() },
		"properties": func(v value) {
			switch of {
			case "scaler":
				patches = v.scaler()
			case "json-patch":
				patches = v.jsonPatch()
			}
		},
		"disable": unsupported,
	}, "type", "properties")
	return patches
}

func (v value) traitType() {
	if s := v.str(); s != "" && s != "scaler" && s != "json-patch" {
		v.fail("the trait %q is not supported; supported are scaler and json-patch", clip(s))
	}
}

func (v value) scaler() (patches []placement.Patch) {
	v.object(fields{"replicas": func(v value) {
		n := strconv.Itoa(v.integer(0))
		patches = []placement.Patch{{Op: placement.OpAdd, Path: "/spec/replicas", Value: json.RawMessage(n)}}
	}}, "replicas")
	return patches
}

func (v value) jsonPatch() (patches []placement.Patch) {
	v.object(fields{"operations": func(v value) {
		v.list(func(v value) { patches = append(patches, v.operation()) })
	}}, "operations")
	return patches
}

func (v value) operation() placement.Patch {
	var p placement.Patch
	v.object(fields{
		"op":    func(v value) { p.Op = placement.PatchOp(v.oneOf("add", "remove", "replace")) },
		"path":  func(v value) { p.Path = v.str() },
		"value": func(v value) { p.Value = v.json() },
	}, "op", "path")
	if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
		v.doc.reportAt(v.path+".path", "must be a JSON pointer such as /spec/replicas")
	}
	return p
}

// json reads any value as JSON.
func (v value) json() json.RawMessage {
	var x any
	if err := (&yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{v.node}}).Decode(&x); err != nil {
		v.fail("has no JSON form")
		return nil
	}
	b, err := json.Marshal(x)
	if err != nil {
		v.fail("has no JSON form: keys must be strings and numbers finite")
		return nil
	}
	return b
}
