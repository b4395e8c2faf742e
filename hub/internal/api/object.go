package api

import (
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

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/stages"
)

// Manager is the field manager of the hub.
const Manager = "slipway-hub"

const (
	// DefaultNamespace is the default namespace for the hub's own objects.
	DefaultNamespace = "slipway-system"
	// Lease is the name of the Lease in that namespace that elects the leader among hubs.
	Lease = "slipway-hub"
)

// Condition is a condition of an object, with the fields that the hub reads.
type Condition struct {
	Status, Reason, Message string
	ObservedGeneration      int64
	Since                   time.Time
}

// Is reports whether the condition has this status and was observed at this generation.
func (c Condition) Is(status string, generation int64) bool {
	return c.Status == status && c.ObservedGeneration == generation
}

// ConditionOf returns the condition of that type, or the zero value if there is none.
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

// Spec returns the spec of an object as a Go type of the Fleet API. It is zero if it has another
// form, which the definition of the kind rules out.
func Spec[T any](obj *unstructured.Unstructured) T { return part[T](obj, "spec") }

// Status is [Spec] for the status of an object.
func Status[T any](obj *unstructured.Unstructured) T { return part[T](obj, "status") }

func part[T any](obj *unstructured.Unstructured, name string) (out T) {
	if FromMap(obj, name, &out) != nil {
		var none T
		return none
	}
	return out
}

// SpecString returns a field of spec, or "" if it is missing or no string, whatever the form of the
// other fields is.
func SpecString(obj *unstructured.Unstructured, fields ...string) string {
	text, _, _ := unstructured.NestedString(obj.Object, append([]string{"spec"}, fields...)...)
	return text
}

// OverrideGVR returns the resource of overrides in a scope.
func OverrideGVR(in Scope) schema.GroupVersionResource { return in.GVR(OverrideKind) }

// AnnotationSeal holds the seal of an object that the hub made. AnnotationPolicies holds the
// version of the admission policies that applied when a request was made.
const (
	AnnotationSeal     = "slipway.dev/seal"
	AnnotationPolicies = "slipway.dev/policies"
)

// Key names an object of the Fleet API. Namespace is empty for cluster-scoped objects.
type Key = types.NamespacedName

// StrategyOf returns the name of the strategy in the spec of a run.
func StrategyOf(run *unstructured.Unstructured) string {
	return Spec[v1beta1.UpdateRunSpec](run).StagedUpdateStrategyName
}

// KeyOf returns the key of an object.
func KeyOf(u *unstructured.Unstructured) Key {
	return Key{Namespace: u.GetNamespace(), Name: u.GetName()}
}

// ScopeOf returns the scope of the object that a key names.
func ScopeOf(k Key) Scope { return k.Namespace != "" }

// Seconds converts an instant to the API's resolution of seconds.
func Seconds(at stages.Instant) metav1.Time { return metav1.Unix(at.Time().Unix(), 0) }

// SecondsOrNil is [Seconds], but returns nil for the zero instant.
func SecondsOrNil(at stages.Instant) *metav1.Time {
	if at == 0 {
		return nil
	}
	t := Seconds(at)
	return &t
}

// FromMap reads a field of an object into v, by its JSON tags. It ignores data that v has no field
// for.
func FromMap(obj *unstructured.Unstructured, name string, v any) error {
	have, isMap := obj.Object[name].(map[string]any)
	if !isMap && obj.Object[name] != nil {
		return fmt.Errorf("%s %s: %s: must be an object, not %T", obj.GetKind(), obj.GetName(), name, obj.Object[name])
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(have, v); err != nil {
		return fmt.Errorf("%s %s: %s: %w", obj.GetKind(), obj.GetName(), name, err)
	}
	return nil
}

// Printable returns a text of unknown origin in a form that a status may show: valid UTF-8 without
// control characters except newlines, of at most limit bytes.
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

// New returns an object of a kind with a spec of the Fleet API.
func New(gvk schema.GroupVersionKind, spec any) (*unstructured.Unstructured, error) {
	fields, err := ToMap(spec)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	u.SetGroupVersionKind(gvk)
	return u, nil
}

// ToMap converts a status, or any other value with JSON tags, to the form in unstructured objects.
// The result shares no memory with v.
func ToMap(v any) (map[string]any, error) {
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
	if err != nil {
		return nil, fmt.Errorf("%T has no unstructured form: %w", v, err)
	}
	return m, nil
}
