package placement

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
	// metadata reports whether an operation changes labels or annotations.
	metadata bool
	uses     variables
	// plain reports whether walk can apply the rule. depth is the most levels that the rule adds to
	// an object.
	plain bool
	depth int
}

type compiledOp struct {
	op    PatchOp
	path  string
	value value
	// words is the JSON of op and path.
	words [2]*json.RawMessage
	step  step
}

func compileOp(p Patch) (compiledOp, error) {
	tokens, _ := parsePointer(p.Path)
	op := compiledOp{op: p.Op, path: p.Path, step: step{op: p.Op, path: tokens}}
	for i, word := range []string{string(p.Op), p.Path} {
		b, err := json.Marshal(word)
		if err != nil {
			return op, err
		}
		op.words[i] = (*json.RawMessage)(&b)
	}
	if p.Op == OpRemove {
		return op, nil
	}
	var err error
	if op.value, err = compileValue(p.Value); err != nil {
		return op, fmt.Errorf("value: %w", err)
	}
	return op, nil
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
	c := compiledRule{index: index, delete: r.Type == Delete, match: match, plain: true}
	for i, p := range r.Patches {
		op, err := compileOp(p)
		if err != nil {
			return c, fmt.Errorf("jsonPatchOverrides[%d]: %w", i, err)
		}
		c.uses.join(op.value.uses)
		if op.op != OpRemove {
			doc := decodeDocument(p.Value)
			op.step.value = doc.value
			c.plain, c.depth = c.plain && doc.plain, c.depth+doc.depth
		}
		c.plain = c.plain && utf8.ValidString(p.Path)
		c.ops = append(c.ops, op)
		c.metadata = c.metadata || strings.HasPrefix(p.Path, "/metadata/")
	}
	return c, nil
}

// render returns the JSON of an object after the rule, or nil if the rule leaves the object out.
// seen records the verdict of the restrictions on each operation.
func (r *compiledRule) render(g *guard, body []byte, c *Cluster, seen *verdict) ([]byte, error) {
	if err := g.selected(); err != nil || r.delete {
		return nil, err
	}
	ops, err := r.operations(c)
	if err == nil {
		body, err = r.patch(body, ops, seen)
	}
	if err != nil {
		return nil, err
	}
	obj, err := decodeObject(body)
	if err == nil && r.metadata {
		err = checkMetadata(obj)
	}
	return body, err
}

// operations returns the rule's patches for a cluster.
func (r *compiledRule) operations(c *Cluster) (jsonpatch.Patch, error) {
	ops := make(jsonpatch.Patch, len(r.ops))
	for i, op := range r.ops {
		ops[i] = jsonpatch.Operation{"op": op.words[0], "path": op.words[1]}
		if op.op == OpRemove {
			continue
		}
		v, err := op.value.render(c)
		if err != nil {
			return nil, r.locate(i, err)
		}
		ops[i]["value"] = &v
	}
	return ops, nil
}

// patch applies the operations one by one, so that its error names the operation that failed.
func (r *compiledRule) patch(body []byte, ops jsonpatch.Patch, seen *verdict) ([]byte, error) {
	for i := range ops {
		next, err := applyOps(body, ops[i:i+1])
		if err == nil {
			err = seen.after(next, func(refusal error) error { return r.locate(i, refusal) })
		}
		if err != nil {
			return nil, r.locate(i, err)
		}
		body = next
	}
	return body, nil
}

func (r *compiledRule) locate(i int, err error) error {
	return fmt.Errorf("jsonPatchOverrides[%d]: %s %s: %w", i, r.ops[i].op, clip(r.ops[i].path), err)
}

func applyOps(body []byte, ops jsonpatch.Patch) ([]byte, error) {
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false // RFC 6901 has none
	options.EscapeHTML = false
	out, err := ops.ApplyWithOptions(body, options)
	if err != nil {
		return nil, reason(err)
	}
	return out, nil
}

// reason says why a patch does not apply, in words that never contain a value.
func reason(err error) error {
	switch {
	case errors.Is(err, jsonpatch.ErrMissing):
		return errors.New("the object has nothing at this path, or nothing above it to hold it")
	case errors.Is(err, jsonpatch.ErrInvalidIndex):
		return errors.New(`the list has no such element; an index is from 0 to its length, or "-" to append`)
	}
	return errors.New("the path does not lead through objects and lists of this object")
}

// checkMetadata checks that labels and annotations are still maps of strings after patches.
func checkMetadata(obj *unstructured.Unstructured) error {
	for _, f := range []string{"labels", "annotations"} {
		v, _, err := unstructured.NestedFieldNoCopy(obj.Object, "metadata", f)
		if err != nil || !isStringMap(v) {
			return metadataError(f)
		}
	}
	return nil
}

// metadataError names a field of metadata that the patches have made unreadable.
type metadataError string

func (e metadataError) Error() string {
	return fmt.Sprintf("after the patches, metadata.%s is not a map of strings to strings", string(e))
}

// isStringMap reports whether Kubernetes reads a value as a map of strings: null counts as an
// empty map, and null inside a map as an empty string.
func isStringMap(v any) bool {
	m, ok := v.(map[string]any)
	for _, e := range m {
		if _, text := e.(string); !text && e != nil {
			return false
		}
	}
	return ok || v == nil
}
