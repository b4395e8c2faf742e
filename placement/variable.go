package placement

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	variablePrefix      = "${MEMBER-CLUSTER-"
	nameVariable        = "NAME"
	labelVariablePrefix = "LABEL-KEY-"
)

// value is the compiled value of a patch.
type value struct {
	raw json.RawMessage
	// tree is raw decoded if it has variables, and nil otherwise.
	tree any
	uses variables
}

// variables are the variables that a value uses.
type variables struct {
	// name reports whether the cluster's name is used, so that the value differs for every cluster.
	name bool
	// labels are the label keys that are used, unordered and with duplicates.
	labels []string
}

func (v *variables) add(variable string) {
	if key, ok := strings.CutPrefix(variable, labelVariablePrefix); ok {
		v.labels = append(v.labels, key)
	} else {
		v.name = true
	}
}

func (v *variables) join(other variables) {
	v.name = v.name || other.name
	v.labels = append(v.labels, other.labels...)
}

// compileValue checks the variables of a value. Its errors do not repeat the value, because it
// may be the value of a Secret.
func compileValue(raw json.RawMessage) (value, error) {
	tree, err := decodeNumbers(raw)
	if err != nil {
		return value{}, err
	}
	v := value{raw: raw}
	_, err = mapStrings(tree, func(s string) (string, error) {
		return substitute(s, func(variable string) (string, error) {
			v.tree = tree
			v.uses.add(variable)
			return variablePrefix + variable + "}", checkVariable(variable)
		})
	})
	return v, err
}

// render returns the value for a cluster. Substituted text is not expanded again, so a label
// cannot introduce variables.
func (v value) render(c *Cluster) (json.RawMessage, error) {
	if v.tree == nil {
		return v.raw, nil
	}
	tree, err := mapStrings(v.tree, func(s string) (string, error) {
		return substitute(s, func(variable string) (string, error) { return lookup(variable, c) })
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(tree)
}

// decodeNumbers decodes JSON without rounding its numbers.
func decodeNumbers(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, errors.New("must be JSON")
	}
	return tree, nil
}

// mapStrings returns a copy of a JSON tree with f applied to every string in it,
// the names of fields included.
func mapStrings(tree any, f func(string) (string, error)) (any, error) {
	var err error
	switch t := tree.(type) {
	case string:
		return f(t)
	case []any:
		out := make([]any, len(t))
		for i := range t {
			if out[i], err = mapStrings(t[i], f); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		return mapFields(t, f)
	}
	return tree, nil
}

func mapFields(t map[string]any, f func(string) (string, error)) (any, error) {
	out := make(map[string]any, len(t))
	for _, k := range slices.Sorted(maps.Keys(t)) { // so that the error is always the same one
		name, err := f(k)
		if err != nil {
			return nil, err
		}
		if _, taken := out[name]; taken {
			return nil, fmt.Errorf("two fields of the value have the name %q, one of them by its variables", clip(name))
		}
		if out[name], err = mapStrings(t[k], f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// substitute replaces the variables of s in one pass. f gets a variable without its prefix.
func substitute(s string, f func(variable string) (string, error)) (string, error) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, variablePrefix)
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		variable, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New(`the variable ` + variablePrefix + ` has no closing "}"`)
		}
		replacement, err := f(variable)
		if err != nil {
			return "", err
		}
		out.WriteString(replacement)
		s = after
	}
}

// checkVariable returns an error for an unknown variable.
func checkVariable(variable string) error {
	if variable == nameVariable {
		return nil
	}
	key, ok := strings.CutPrefix(variable, labelVariablePrefix)
	if !ok {
		return fmt.Errorf("unknown variable %s%s}; there are %s%s} and %s%s<key>}", variablePrefix, clip(variable),
			variablePrefix, nameVariable, variablePrefix, labelVariablePrefix)
	}
	if msgs := validation.IsQualifiedName(key); len(msgs) > 0 {
		return fmt.Errorf("variable with label key %q: %s", clip(key), strings.Join(msgs, "; "))
	}
	return nil
}

// lookup returns the value of a variable that checkVariable accepts.
func lookup(variable string, c *Cluster) (string, error) {
	if variable == nameVariable {
		return c.Name, nil
	}
	key := strings.TrimPrefix(variable, labelVariablePrefix)
	v, ok := c.Labels[key]
	if !ok {
		return "", fmt.Errorf("the cluster has no label %q, which the value asks for", key)
	}
	return v, nil
}
