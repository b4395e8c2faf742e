package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// compiledOverride is a valid override with its selectors and values parsed.
type compiledOverride struct {
	name, namespace string
	selectors       []ObjectSelector
	rules           []compiledRule
}

type compiledRule struct {
	index  int
	delete bool
	match  func(*Cluster) bool
	ops    []compiledOp
	// metadata tells that an operation changes labels or annotations.
	metadata bool
}

type compiledOp struct {
	op    PatchOp
	path  string
	value value
}

func compileOverride(o Override) (compiledOverride, error) {
	c := compiledOverride{name: o.String(), namespace: o.Namespace, selectors: o.Selectors}
	for i, r := range o.Rules {
		rule, err := compileRule(i, r)
		if err != nil {
			return c, fmt.Errorf("overrideRules[%d]: %w", i, err)
		}
		c.rules = append(c.rules, rule)
	}
	return c, nil
}

func compileRule(index int, r Rule) (compiledRule, error) {
	match, err := compileSelector(r.ClusterSelector)
	if err != nil {
		return compiledRule{}, err
	}
	c := compiledRule{index: index, delete: r.Type == Delete, match: match}
	for i, p := range r.Patches {
		op := compiledOp{op: p.Op, path: p.Path}
		if p.Op != OpRemove {
			if op.value, err = compileValue(p.Value); err != nil {
				return c, fmt.Errorf("jsonPatchOverrides[%d]: value: %w", i, err)
			}
		}
		c.ops = append(c.ops, op)
		c.metadata = c.metadata || strings.HasPrefix(p.Path, "/metadata/")
	}
	return c, nil
}

func compileSelector(s *ClusterSelector) (func(*Cluster) bool, error) {
	if s == nil {
		return func(*Cluster) bool { return false }, nil
	}
	if len(s.Terms) == 0 {
		return func(*Cluster) bool { return true }, nil
	}
	var selectors []metav1.LabelSelector
	for _, t := range s.Terms {
		if t.LabelSelector != nil {
			selectors = append(selectors, *t.LabelSelector)
		}
	}
	return matchAny(selectors)
}

// rulesFor returns the rules that select the cluster, in order.
func (o *compiledOverride) rulesFor(c *Cluster) []*compiledRule {
	var rules []*compiledRule
	for i := range o.rules {
		if o.rules[i].match(c) {
			rules = append(rules, &o.rules[i])
		}
	}
	return rules
}

// apply returns the JSON of an object after the rule's patches.
func (r *compiledRule) apply(body []byte, c *Cluster) ([]byte, error) {
	ops := make([]operation, len(r.ops))
	for i, op := range r.ops {
		ops[i] = operation{Op: op.op, Path: op.path}
		if op.op == OpRemove {
			continue
		}
		v, err := op.value.render(c)
		if err != nil {
			return nil, r.locate(i, err)
		}
		ops[i].Value = &v
	}
	return r.patch(body, ops)
}

// operation is a patch as it is given to the JSON patch library, whose absent
// value and null value are two things.
type operation struct {
	Op    PatchOp          `json:"op"`
	Path  string           `json:"path"`
	Value *json.RawMessage `json:"value,omitempty"`
}

// patch applies the operations; only if that fails, it applies them one by one
// to find the one that does not apply.
func (r *compiledRule) patch(body []byte, ops []operation) ([]byte, error) {
	if out, err := applyOps(body, ops); err == nil {
		return out, r.checkMetadata(out)
	}
	for i := range ops {
		next, err := applyOps(body, ops[i:i+1])
		if err != nil {
			return nil, r.locate(i, err)
		}
		body = next
	}
	return body, r.checkMetadata(body)
}

func (r *compiledRule) locate(i int, err error) error {
	return fmt.Errorf("jsonPatchOverrides[%d]: %s %s: %w", i, r.ops[i].op, clip(r.ops[i].path), err)
}

func applyOps(body []byte, ops []operation) ([]byte, error) {
	b, err := json.Marshal(ops)
	if err != nil {
		return nil, errors.New("the patch has no JSON form")
	}
	patch, err := jsonpatch.DecodePatch(b)
	if err != nil {
		return nil, errors.New("the patch is not a JSON patch")
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false // RFC 6901 has none
	options.EscapeHTML = false
	out, err := patch.ApplyWithOptions(body, options)
	if err != nil {
		return nil, reason(err)
	}
	return out, nil
}

// reason says why a patch does not apply in words that never hold a value.
func reason(err error) error {
	switch {
	case errors.Is(err, jsonpatch.ErrMissing):
		return errors.New("the object has nothing at this path, or nothing above it to hold it")
	case errors.Is(err, jsonpatch.ErrInvalidIndex):
		return errors.New(`the list has no such element; an index is from 0 to its length, or "-" to append`)
	}
	return errors.New("the path does not lead through objects and lists of this object")
}

// checkMetadata checks what the patches can have done to metadata: labels and
// annotations stay maps of strings.
func (r *compiledRule) checkMetadata(body []byte) error {
	if !r.metadata {
		return nil
	}
	obj, err := decodeObject(body)
	if err != nil {
		return err
	}
	for _, f := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedNullCoercingStringMap(obj.Object, "metadata", f); err != nil {
			return fmt.Errorf("after the patches, metadata.%s is not a map of strings to strings", f)
		}
	}
	return nil
}

func decodeObject(body []byte) (*unstructured.Unstructured, error) {
	var m map[string]any
	if err := utiljson.Unmarshal(body, &m); err != nil {
		return nil, errors.New("the patched object is not JSON")
	}
	return &unstructured.Unstructured{Object: m}, nil
}

// under moves the field errors of err below path.
func under(path *field.Path, err error) field.ErrorList {
	var agg utilerrors.Aggregate
	if !errors.As(err, &agg) {
		return nil
	}
	var list field.ErrorList
	for _, e := range agg.Errors() {
		if fe, ok := errors.AsType[*field.Error](e); ok {
			moved := *fe
			moved.Field = strings.TrimSuffix(path.String()+"."+fe.Field, ".")
			list = append(list, &moved)
		}
	}
	return list
}
