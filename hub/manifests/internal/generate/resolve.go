package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/slipway-dev/slipway/hub/compat"
)

// resolver turns schemas of the source into those of one kind.
type resolver struct {
	types map[string]schema
	scope string
	// setting is the compatibility setting that the schemas are for.
	setting compat.Setting
	// plain leaves out what is about how people write things and not about what the hub reports of it.
	plain bool
}

// resolve returns what a schema is for the kind.
func (r resolver) resolve(s schema) (schema, error) {
	s, err := r.deref(s)
	if err != nil {
		return nil, err
	}
	if s, err = r.set(s); err != nil {
		return nil, err
	}
	out := schema{}
	for key, v := range s {
		if r.plain && forWriters(key) {
			continue
		}
		if out[key], err = r.value(key, v); err != nil {
			return nil, err
		}
	}
	if rules, ok := out["x-kubernetes-validations"].([]any); ok && len(rules) == 0 {
		delete(out, "x-kubernetes-validations")
	}
	r.require(out, s)
	return out, nil
}

// forWriters tells keys that a status does without: what was refused or filled in when it was written
// must not be so once more when it is reported, where a duration is spelled as Go does.
func forWriters(key string) bool {
	return slices.Contains([]string{"default", "x-kubernetes-validations", "pattern", "minItems"}, key)
}

// deref puts a shape in the place of a reference to it.
func (r resolver) deref(s schema) (schema, error) {
	name, ok := s["$ref"].(string)
	if !ok {
		return s, nil
	}
	shape, ok := r.types[name]
	if !ok {
		return nil, fmt.Errorf("no shape %q in %s", name, typesFile)
	}
	shape, err := r.deref(shape)
	if err != nil {
		return nil, err
	}
	out := maps.Clone(shape)
	maps.Copy(out, s)
	if more, ok := s["add"].(schema); ok {
		properties := maps.Clone(shape["properties"].(schema))
		maps.Copy(properties, more)
		out["properties"] = properties
	}
	delete(out, "$ref")
	delete(out, "add")
	return out, nil
}

// set returns a schema with the keys that it has for the setting.
func (r resolver) set(s schema) (schema, error) {
	all, ok := s["settings"].(schema)
	if !ok {
		return s, nil
	}
	for name := range all {
		if _, err := compat.Parse(name); err != nil {
			return nil, err
		}
	}
	out := maps.Clone(s)
	delete(out, "settings")
	if more, ok := all[string(r.setting)].(schema); ok {
		maps.Copy(out, more)
	}
	return out, nil
}

// value resolves the value of a key of a schema.
func (r resolver) value(key string, v any) (any, error) {
	switch key {
	case "properties":
		return r.properties(v.(schema))
	case "items", "additionalProperties":
		return r.resolve(v.(schema))
	case "x-kubernetes-validations":
		return r.rules(v.([]any)), nil
	default:
		return v, nil
	}
}

// properties resolves those that the kind has.
func (r resolver) properties(all schema) (schema, error) {
	out := schema{}
	for name, v := range all {
		property := v.(schema)
		if !r.has(property) {
			continue
		}
		p, err := r.resolve(property)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if p["description"] == nil {
			return nil, fmt.Errorf("%s: has no description", name)
		}
		delete(p, "only")
		delete(p, "mandatory")
		out[name] = p
	}
	return out, nil
}

// has reports whether the kind has something that may be for one scope only.
func (r resolver) has(s schema) bool { return s["only"] == nil || s["only"] == r.scope }

// rules returns those of the kind.
func (r resolver) rules(all []any) []any {
	var out []any
	for _, v := range all {
		rule := maps.Clone(v.(schema))
		if r.has(rule) {
			delete(rule, "only")
			out = append(out, rule)
		}
	}
	return out
}

// require adds the properties to the required ones that say so themselves.
func (r resolver) require(out, s schema) {
	all, ok := s["properties"].(schema)
	if !ok {
		return
	}
	required, _ := s["required"].([]any)
	required = slices.Clone(required)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if p := all[name].(schema); p["mandatory"] == true && r.has(p) {
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		out["required"] = required
	}
}
