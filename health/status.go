package health

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// reading is the readable part of a status, which is untrusted input of any shape. It includes
// numbers that are written as text or with a decimal point, conditions in a map, and conditions
// whose status is a bool. It omits everything else, so that the rest decides about the object,
// and remarks reports the omissions.
type reading struct {
	// obj is the object with the readable status, for kstatus. It shares unchanged parts.
	obj    *unstructured.Unstructured
	spec   map[string]any
	status map[string]any
	// generation is metadata.generation, 0 if there is none; observed is status.observedGeneration,
	// or nil.
	generation int64
	observed   *int64
	// conditions have the current generation, or no generation, and are unique by type. stale are
	// older ones.
	conditions, stale []condition
	remarks           []string
}

// condition is an entry of a list of conditions.
type condition struct {
	kind, status, reason, message string
	observed                      *int64
	since                         time.Time
}

func (c *condition) isTrue() bool { return c.status == "True" }

// says returns a condition for people.
func (c *condition) says() string {
	status := c.status
	if status == "" {
		status = "empty"
	}
	out := c.kind + " is " + status
	for _, text := range []string{c.reason, c.message} {
		if text != "" {
			out += ": " + text //nolint:modernize // the loop adds at most two texts
		}
	}
	return out
}

func (r *reading) remark(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(r.remarks) < 3 && !slices.Contains(r.remarks, text) {
		r.remarks = append(r.remarks, text)
	}
}

// read reads an object.
func read(obj *unstructured.Unstructured) *reading {
	r := &reading{}
	content := maps.Clone(obj.Object)
	if content == nil {
		content = map[string]any{}
	}
	if meta, ok := content["metadata"].(map[string]any); ok {
		meta = maps.Clone(meta)
		if g := r.number(meta["generation"], "metadata.generation"); g != nil {
			r.generation, meta["generation"] = *g, *g
		} else {
			delete(meta, "generation")
		}
		if _, ok := meta["deletionTimestamp"].(string); !ok {
			delete(meta, "deletionTimestamp")
		}
		content["metadata"] = meta
	} else {
		delete(content, "metadata")
	}
	r.spec, _ = content["spec"].(map[string]any)
	r.obj = &unstructured.Unstructured{Object: content}
	have, found := content["status"]
	if have, ok := have.(map[string]any); ok {
		r.status = maps.Clone(have)
		content["status"] = r.status
		r.readStatus()
		return r
	}
	delete(content, "status")
	if found && have != nil {
		r.remark("status is %s and not an object", shape(have))
	}
	return r
}

func (r *reading) readStatus() {
	r.observed = r.number(r.status["observedGeneration"], "status.observedGeneration")
	switch {
	case r.observed == nil:
		delete(r.status, "observedGeneration")
	case *r.observed > r.generation && r.generation > 0:
		r.remark("status.observedGeneration is %d, and metadata.generation %d", *r.observed, r.generation)
		r.observed = &r.generation
		fallthrough
	default:
		r.status["observedGeneration"] = *r.observed
	}
	value, found := r.status["conditions"]
	if !found {
		return
	}
	for _, c := range r.conditionsIn(value, "status.conditions") {
		if r.isOld(&c) {
			r.stale = append(r.stale, c)
		} else {
			r.conditions = append(r.conditions, c)
		}
	}
	r.conditions = r.unique(r.conditions)
	list := make([]any, len(r.conditions))
	for i, c := range r.conditions {
		list[i] = map[string]any{"type": c.kind, "status": c.status, "reason": c.reason, "message": c.message}
	}
	r.status["conditions"] = list
}

// isOld reports whether the controller wrote a condition for an older generation of the object, so
// that the condition proves nothing.
func (r *reading) isOld(c *condition) bool { return c.observed != nil && *c.observed < r.generation }

// number reads a whole number, nil if there is none.
func (r *reading) number(v any, field string) *int64 {
	switch v := v.(type) {
	case nil:
		return nil
	case int64:
		return &v
	case int:
		n := int64(v)
		return &n
	case float64:
		if n := int64(v); v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return &n
		}
	case string:
		if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
			return &n
		}
	}
	r.remark("%s is %s and not a whole number", field, shape(v))
	return nil
}

// conditionsIn reads a list of conditions, or a map of them by their types.
func (r *reading) conditionsIn(value any, field string) (out []condition) {
	var entries []any
	switch v := value.(type) {
	case nil:
	case []any:
		entries = v
	case map[string]any:
		r.remark("%s is an object and not a list", field)
		if _, single := v["type"].(string); single {
			entries = []any{v}
			break
		}
		for _, kind := range slices.Sorted(maps.Keys(v)) {
			entry, ok := v[kind].(map[string]any)
			if !ok {
				entry = map[string]any{"status": v[kind]}
			}
			if _, named := entry["type"].(string); !named {
				entry = maps.Clone(entry)
				entry["type"] = kind
			}
			entries = append(entries, entry)
		}
	default:
		r.remark("%s is %s and not a list", field, shape(value))
	}
	for _, e := range entries {
		m, ok := e.(map[string]any)
		kind, named := m["type"].(string)
		if !ok || !named {
			r.remark("%s has an entry without a type", field)
			continue
		}
		out = append(out, r.condition(kind, m, field))
	}
	return out
}

func (r *reading) condition(kind string, m map[string]any, field string) condition {
	c := condition{kind: kind, observed: r.number(m["observedGeneration"], field+"[].observedGeneration")}
	c.reason, _ = m["reason"].(string)
	c.message, _ = m["message"].(string)
	if since, ok := m["lastTransitionTime"].(string); ok {
		c.since, _ = time.Parse(time.RFC3339, since)
	}
	switch v := m["status"].(type) {
	case string:
		c.status = v
		for _, known := range []string{"True", "False", "Unknown"} {
			if strings.EqualFold(v, known) {
				c.status = known
			}
		}
	case bool:
		c.status = map[bool]string{true: "True", false: "False"}[v]
		r.remark("%s: the status of %s is a bool and not text", field, kind)
	case nil:
	default:
		r.remark("%s: the status of %s is %s and not text", field, kind, shape(v))
	}
	return c
}

// unique returns conditions with one of each type: the last changed one or, if that is unknown,
// one that is not True.
func (r *reading) unique(all []condition) (out []condition) {
	at := map[string]int{}
	for _, c := range all {
		i, twice := at[c.kind]
		if !twice {
			at[c.kind], out = len(out), append(out, c)
			continue
		}
		r.remark("status.conditions has %s twice", c.kind)
		before := &out[i]
		known := !c.since.IsZero() && !before.since.IsZero() && !c.since.Equal(before.since)
		if known && c.since.After(before.since) || !known && !c.isTrue() {
			out[i] = c
		}
	}
	return out
}

// find returns the condition of a type that proves something, or nil.
func (r *reading) find(kind string) *condition { return findIn(r.conditions, kind) }

func findIn(conditions []condition, kind string) *condition {
	for i := range conditions {
		if conditions[i].kind == kind {
			return &conditions[i]
		}
	}
	return nil
}

// intIn returns a number of a status or a spec, or otherwise if there is none.
func intIn(in map[string]any, field string, otherwise int64) int64 {
	if n, ok := in[field].(int64); ok {
		return n
	}
	return otherwise
}

// outdated says that the status as a whole is of an older generation than the object, or returns
// "": by status.observedGeneration, or because all dated conditions are older.
func (r *reading) outdated() string {
	if r.observed != nil && *r.observed < r.generation {
		return fmt.Sprintf("its status is of generation %d, and the object of %d", *r.observed, r.generation)
	}
	if status.GetLegacyConditionsFn(r.obj) != nil {
		return "" // kstatus says which conditions these kinds need
	}
	dated := func(c condition) bool { return c.observed != nil }
	if len(r.stale) > 0 && !slices.ContainsFunc(r.conditions, dated) {
		return r.old(&r.stale[0])
	}
	return ""
}

// old says that a condition is of an older generation.
func (r *reading) old(c *condition) string {
	return fmt.Sprintf("its condition %s is of generation %d, and the object of %d", c.kind, *c.observed, r.generation)
}

// shape names the type of a value for people.
func shape(v any) string {
	switch v := v.(type) {
	case string:
		return "text"
	case bool:
		return "a bool"
	case int64, float64, int:
		return fmt.Sprintf("the number %v", v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "of another type"
}

// Evidence returns the part of an object that proves its state: the object without the conditions
// whose observedGeneration is older than its metadata.generation, and the reason why its status as
// a whole proves nothing, or "" if there is none. It covers the conditions of the status, and those
// of its listeners, parents and ancestors by the conventions of the Gateway API. It does not change
// obj.
func Evidence(obj *unstructured.Unstructured) (fresh *unstructured.Unstructured, outdated string) {
	r := read(obj)
	if outdated = r.outdated(); outdated != "" {
		return obj, outdated
	}
	if c := needed(r.conditions, r.stale); c != nil {
		return obj, r.old(c)
	}
	isStale := len(r.stale) > 0
	for p := range r.parts {
		if c := needed(p.conditions, p.stale); c != nil {
			return obj, p.at + ": " + r.old(c)
		}
		isStale = isStale || len(p.stale) > 0
	}
	if !isStale {
		return obj, ""
	}
	content := maps.Clone(obj.Object)
	had, _ := content["status"].(map[string]any)
	had = maps.Clone(had)
	r.dropStale(had)
	for _, field := range partLists {
		list, _ := had[field].([]any)
		list = slices.Clone(list)
		for i, entry := range list {
			if m, _ := entry.(map[string]any); r.isPart(field, m) {
				m = maps.Clone(m)
				r.dropStale(m)
				list[i] = m
			}
		}
		if list != nil {
			had[field] = list
		}
	}
	content["status"] = had
	return &unstructured.Unstructured{Object: content}, ""
}

// dropStale drops the stale conditions of a status, or of a part of one.
func (r *reading) dropStale(of map[string]any) {
	if conditions, has := of["conditions"]; has {
		of["conditions"] = r.withoutStale(conditions)
	}
}

// withoutStale returns conditions in their own shape without the stale ones.
func (r *reading) withoutStale(value any) any {
	isStale := func(entry any) bool {
		m, _ := entry.(map[string]any)
		observed := (&reading{}).number(m["observedGeneration"], "")
		return observed != nil && *observed < r.generation
	}
	switch v := value.(type) {
	case []any:
		return slices.DeleteFunc(slices.Clone(v), isStale)
	case map[string]any:
		v = maps.Clone(v)
		maps.DeleteFunc(v, func(_ string, entry any) bool { return isStale(entry) })
		return v
	}
	return value
}
