package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/stages"
)

// Manager is the field manager of what the hub writes.
const Manager = "slipway-hub"

const (
	// DefaultNamespace is where a hub keeps what is its own, unless it is told another.
	DefaultNamespace = "slipway-system"
	// Lease is the Lease in that namespace by which hubs elect their leader.
	Lease = "slipway-hub"
)

// Condition is one of an object, as far as the hub reads it.
type Condition struct {
	Status, Reason, Message string
	ObservedGeneration      int64
	Since                   time.Time
}

// Is reports whether the condition has a status for a generation of the spec.
func (c Condition) Is(status string, generation int64) bool {
	return c.Status == status && c.ObservedGeneration == generation
}

// ConditionOf returns the condition of that type; the zero value is none.
func ConditionOf(obj *unstructured.Unstructured, kind string) (out Condition) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range list {
		m, ok := item.(map[string]any)
		if !ok || m["type"] != kind {
			continue
		}
		out.Status, _ = m["status"].(string)
		out.Reason, _ = m["reason"].(string)
		out.Message, _ = m["message"].(string)
		out.ObservedGeneration, _ = m["observedGeneration"].(int64)
		since, _ := m["lastTransitionTime"].(string)
		out.Since, _ = time.Parse(time.RFC3339, since)
		return out
	}
	return out
}

// SpecString returns a field of spec, or "".
func SpecString(obj *unstructured.Unstructured, fields ...string) string {
	text, _, _ := unstructured.NestedString(obj.Object, append([]string{"spec"}, fields...)...)
	return text
}

// OverrideGVR is the resource of overrides in a scope.
func OverrideGVR(in Scope) schema.GroupVersionResource { return in.GVR(OverrideKind) }

// annotationSeal holds the seal of an object that the hub made, annotationPolicies that version of the admission
// policies under which a request was made.
const (
	AnnotationSeal     = "slipway.dev/seal"
	AnnotationPolicies = "slipway.dev/policies"
)

// Key names an object of the Fleet API; Namespace is empty for cluster-scoped
// ones.
type Key = types.NamespacedName

// StrategyOf is the name of the strategy that a run names.
func StrategyOf(run *unstructured.Unstructured) string {
	return SpecString(run, "stagedRolloutStrategyName")
}

// KeyOf is the key of an object.
func KeyOf(u *unstructured.Unstructured) Key {
	return Key{Namespace: u.GetNamespace(), Name: u.GetName()}
}

// ScopeOf is the scope of the object that a key names.
func ScopeOf(k Key) Scope { return k.Namespace != "" }

// Seconds is an instant as the API writes it.
func Seconds(at stages.Instant) metav1.Time { return metav1.Unix(at.Time().Unix(), 0) }

// SecondsOrNil leaves out an instant that is none.
func SecondsOrNil(at stages.Instant) *metav1.Time {
	if at == 0 {
		return nil
	}
	t := Seconds(at)
	return &t
}

// FromMap reads a field of an object into v, by its JSON tags. What v does not
// have is left out.
func FromMap(obj *unstructured.Unstructured, name string, v any) error {
	b, err := json.Marshal(obj.Object[name])
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %s: %w", obj.GetKind(), obj.GetName(), name, err)
	}
	return nil
}

// Printable is a text of unknown origin as a status may show it: valid UTF-8
// without control characters, of at most limit bytes.
func Printable(text string, limit int) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsGraphic(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(text, "?"))
	if len(text) <= limit {
		return text
	}
	end := max(limit-len("…"), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// ToMap is a status, or any value with JSON tags, as unstructured objects have
// it: it shares nothing with v.
func ToMap(v any) (map[string]any, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	if err != nil {
		return nil, fmt.Errorf("%T has no unstructured form: %w", v, err)
	}
	return m, nil
}
