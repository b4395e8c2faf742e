package placement

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Limits of a walk. Beyond them json-patch, which decodes an object once for all operations, is
// at least as fast, or has a limit of its own.
const (
	maxSteps = 64
	maxDepth = 5000
)

// selectedObject is an object that overrides select.
type selectedObject struct {
	body []byte
	// decoded decodes the body on the first call.
	decoded func() document
	// overrides are the indexes of the overrides that select it, ascending.
	overrides []int
	guard     *guard
}

func newSelected(obj *unstructured.Unstructured, overrides []int, restrictions []Restriction) (*selectedObject, error) {
	body, err := json.Marshal(obj.Object)
	if err != nil {
		return nil, errors.New("the object has no JSON form") // the cause may repeat its contents
	}
	gvk := obj.GroupVersionKind()
	g, err := newGuard(restrictions, gvk.Group, gvk.Kind, body)
	decoded := sync.OnceValue(func() document { return decodeDocument(body) })
	return &selectedObject{body, decoded, overrides, g}, err
}

// outcome returns the outcome for the object at an index, and whether other clusters can share it.
func (s *selectedObject) outcome(object int, active []activeRules) (outcome, bool) {
	all := make([]string, len(s.overrides))
	for n, j := range s.overrides {
		if !active[j].sharable {
			return outcome{}, false
		}
		all[n] = active[j].outcome
	}
	return outcome{object, strings.Join(all, "|")}, true
}

// atOnce applies all active rules in one pass.
func (s *selectedObject) atOnce(active []activeRules, c *Cluster) (*unstructured.Unstructured, error) {
	if err := s.guard.selected(); err != nil {
		return nil, err
	}
	tree, metadata, ok := s.walk(active, c)
	if !ok {
		var err error
		if tree, metadata, err = s.byJSON(active, c); err != nil {
			return nil, err
		}
	}
	if tree == nil {
		return nil, nil
	}
	obj := &unstructured.Unstructured{Object: tree}
	if metadata {
		if err := checkMetadata(obj); err != nil {
			return nil, err
		}
	}
	return obj, s.guard.check(obj)
}

// walk applies the active rules to an object that is decoded once for all clusters. It returns
// nil for an object that is left out, and false if something does not apply or must be done by
// json-patch.
func (s *selectedObject) walk(active []activeRules, c *Cluster) (tree map[string]any, metadata, ok bool) {
	doc := s.decoded()
	out := doc.value
	left, depth := maxSteps, doc.depth
	for _, j := range s.overrides {
		for i := range active[j].rules {
			r := &active[j].rules[i]
			if r.delete {
				return nil, metadata, doc.plain
			}
			left, depth, metadata = left-len(r.ops), depth+r.depth, metadata || r.metadata
			steps, ok := r.stepsFor(c)
			if !ok || !doc.plain || left < 0 || depth > maxDepth {
				return nil, false, false
			}
			for k := range steps {
				if out, ok = steps[k].apply(out); !ok {
					return nil, false, false
				}
			}
		}
	}
	tree, ok = out.(map[string]any)
	return tree, metadata, ok
}

// byJSON does the work of walk with json-patch, on the whole object.
func (s *selectedObject) byJSON(active []activeRules, c *Cluster) (tree map[string]any, metadata bool, err error) {
	ops, metadata, deleted, err := s.operations(active, c)
	if err != nil {
		return nil, false, err
	}
	body := s.body
	if len(ops) > 0 {
		if body, err = applyOps(body, ops); err != nil {
			return nil, false, err
		}
	}
	if deleted {
		return nil, false, nil
	}
	obj, err := decodeObject(body)
	if err != nil {
		return nil, false, err
	}
	return obj.Object, metadata, nil
}

// operations returns the operations of the active rules in order, up to a rule that leaves the
// object out.
func (s *selectedObject) operations(active []activeRules, c *Cluster) (ops jsonpatch.Patch, metadata, deleted bool, err error) {
	for _, j := range s.overrides {
		for _, rule := range active[j].rules {
			if rule.delete {
				return ops, metadata, true, nil
			}
			more, err := rule.operations(c)
			if err != nil {
				return nil, false, false, err
			}
			ops, metadata = append(ops, more...), metadata || rule.metadata
		}
	}
	return ops, metadata, false, nil
}
