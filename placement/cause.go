package placement

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Cause returns the names of the override and the rule that broke an object on a cluster: the last
// rule before which bad returns false for the object, and after which bad returns true. It is empty
// if there is no such rule. The object must be a result of [Renderer.Render] for the cluster; Cause
// renders it once more, rule by rule.
func (r *Renderer) Cause(c Cluster, obj *unstructured.Unstructured, bad func(*unstructured.Unstructured) bool) (cause string) {
	i := slices.IndexFunc(r.objs, func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind() == obj.GroupVersionKind() && o.GetNamespace() == obj.GetNamespace() && o.GetName() == obj.GetName()
	})
	if i < 0 || r.selected[i] == nil {
		return ""
	}
	s, active := r.selected[i], r.activeFor(&c)
	body, was := s.body, bad(r.objs[i])
	for _, j := range s.overrides {
		for _, rule := range active[j].rules {
			next, err := rule.render(s.guard, body, &c, &verdict{})
			if err != nil || next == nil {
				return cause
			}
			now, err := decodeObject(next)
			if err != nil {
				return cause
			}
			is := bad(now)
			if is && !was {
				cause = fmt.Sprintf("override %s: overrideRules[%d]", r.compiled[j].name, rule.index)
			}
			body, was = next, is
		}
	}
	return cause
}
