package main

import (
	"cmp"
	"strings"

	"github.com/slipway-dev/slipway/hub/compat"
)

// versions are those of every kind, all with the same schema. They are served unless the source says otherwise. The stored one is storageVersion.
func versions() []string { return []string{"v1", "v1beta1"} }

const storageVersion = "v1beta1"

// definition returns the CustomResourceDefinition of a kind.
func definition(s *source, k kind, r resolver) (schema, error) {
	object, err := objectSchema(s, r)
	if err != nil {
		return nil, err
	}
	object["description"] = "A " + k.Kind + " " + lowerFirst(s.Description)
	names := schema{
		"kind": k.Kind, "listKind": k.Kind + "List", "plural": k.Plural,
		"singular": strings.ToLower(k.Kind), "categories": categories(s),
	}
	if len(k.Short) > 0 {
		names["shortNames"] = k.Short
	}
	spec := schema{
		"group": s.Group, "scope": k.Scope, "names": names, "preserveUnknownFields": false,
		"conversion": schema{"strategy": "None"}, "versions": versionList(s, r.setting, object),
	}
	return schema{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": schema{"name": k.Plural + "." + s.Group, "labels": schema{"app.kubernetes.io/part-of": "slipway"}},
		"spec":     spec,
	}, nil
}

func categories(s *source) []string {
	if len(s.Categories) > 0 {
		return s.Categories
	}
	return []string{"fleet", "fleet-placement"}
}

func versionList(s *source, setting compat.Setting, object schema) []any {
	var out []any
	for _, name := range versions() {
		v := schema{
			"name": name, "served": s.ServedBy[name] == "" || s.ServedBy[name] == setting, "storage": name == storageVersion,
			"schema": schema{"openAPIV3Schema": object},
		}
		if !s.NoStatus && s.Status != nil {
			v["subresources"] = schema{"status": schema{}}
		}
		if len(s.Columns) > 0 {
			v["additionalPrinterColumns"] = s.Columns
		}
		out = append(out, v)
	}
	return out
}

// objectSchema is the schema of a whole object.
func objectSchema(s *source, r resolver) (schema, error) {
	properties := schema{
		"apiVersion": schema{"type": "string", "description": "The group and version of the kind."},
		"kind":       schema{"type": "string", "description": "The kind."},
		"metadata":   schema{"type": "object"},
	}
	var err error
	for name, content := range map[string]schema{"spec": s.Spec, "data": s.Data} {
		if content == nil {
			continue
		}
		if properties[name], err = r.resolve(content); err != nil {
			return nil, err
		}
	}
	r.plain = true
	for name, content := range s.Content {
		if properties[name], err = r.resolve(content); err != nil {
			return nil, err
		}
	}
	if s.Status != nil {
		if properties["status"], err = r.resolve(s.Status); err != nil {
			return nil, err
		}
	}
	object := schema{"type": "object", "properties": properties}
	if len(s.Required) > 0 {
		object["required"] = s.Required
	}
	if rules := r.rules(s.Rules); len(rules) > 0 {
		object["x-kubernetes-validations"] = rules
	}
	return object, nil
}

// lowerFirst is a sentence as it goes on.
func lowerFirst(s string) string {
	first := s[:min(1, len(s))]
	return cmp.Or(strings.ToLower(first)+s[len(first):], s)
}
