package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Limits of the data that an inventory reports about a cluster. Keys and values of labels and
// taints, and the names of properties, also have the limits of Kubernetes: a prefix of 253 bytes,
// a name of 63, a value of 63.
const (
	MaxLabels     = 1000
	MaxProperties = 100
	MaxTaints     = 100
	// MaxNamespaces is the maximum number of [Cluster.Namespaces] that are kept. More of them are
	// no error: a namespace beyond the limit counts as missing on the cluster.
	MaxNamespaces = 1000
	// MaxUID is the limit of a UID in bytes. A UID is printable ASCII without spaces.
	MaxUID = 253
	// MaxUnhealthy is the maximum length of [Cluster.Unhealthy] in bytes.
	MaxUnhealthy = 200
)

// ValidName reports whether a cluster may have the name: it is a DNS label (RFC 1123).
func ValidName(name string) bool { return isLabel(name) }

// Bounded returns c if it is within the limits of this package. Otherwise it returns a copy with
// only the first labels, properties and taints by name, up to the limits, and says so in
// [Cluster.Unhealthy]. So nothing new is placed on the cluster, and other clusters are not
// affected. It replaces an invalid UID by its SHA-256, so that the UID stays distinct.
func (c Cluster) Bounded() Cluster {
	var why []string
	note := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	if labels, long := within(c.Labels, MaxLabels, func(key, value string) bool {
		return keyFits(key) && len(value) <= validation.LabelValueMaxLength
	}); long > 0 || len(labels) < len(c.Labels) {
		note("%d labels, %d too long, at most %d", len(c.Labels), long, MaxLabels)
		c.Labels = labels
	}
	if properties, long := within(c.Properties, MaxProperties, func(name string, _ resource.Quantity) bool {
		return keyFits(name)
	}); long > 0 || len(properties) < len(c.Properties) {
		note("%d properties, %d too long, at most %d", len(c.Properties), long, MaxProperties)
		c.Properties = properties
	}
	if taints := fitting(c.Taints); len(taints) < len(c.Taints) {
		note("%d taints, %d too long or too many, at most %d", len(c.Taints), len(c.Taints)-len(taints), MaxTaints)
		c.Taints = taints
	}
	if long := func(name string) bool { return !isLabel(name) }; len(c.Namespaces) > MaxNamespaces || slices.ContainsFunc(c.Namespaces, long) {
		kept := slices.DeleteFunc(slices.Sorted(slices.Values(c.Namespaces)), long)
		c.Namespaces = append([]string{}, kept[:min(len(kept), MaxNamespaces)]...)
	}
	if c.UID != "" && !isID(c.UID) {
		note("a UID of %d bytes that is none", len(c.UID))
		sum := sha256.Sum256([]byte(c.UID))
		c.UID = hex.EncodeToString(sum[:])
	}
	if len(why) > 0 {
		c.Unhealthy = "too much is said of it: " + strings.Join(why, ", ")
	}
	if len(c.Unhealthy) > MaxUnhealthy {
		c.Unhealthy = strings.ToValidUTF8(c.Unhealthy[:MaxUnhealthy], "") + "..."
	}
	return c
}

// within returns at most so many entries that fit, the first by key, and the number of entries
// that do not fit. If all of m qualifies, it returns m itself.
func within[V any](m map[string]V, most int, fits func(string, V) bool) (out map[string]V, long int) {
	for key, value := range m {
		if !fits(key, value) {
			long++
		}
	}
	if long == 0 && len(m) <= most {
		return m, 0
	}
	out = make(map[string]V, most)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if len(out) < most && fits(key, m[key]) {
			out[key] = m[key]
		}
	}
	return out, long
}

// fitting returns the first MaxTaints taints that fit.
func fitting(taints []Taint) []Taint {
	fits := func(t Taint) bool {
		return keyFits(t.Key) && len(t.Value) <= validation.LabelValueMaxLength && len(t.Effect) <= validation.LabelValueMaxLength
	}
	if len(taints) <= MaxTaints && !slices.ContainsFunc(taints, func(t Taint) bool { return !fits(t) }) {
		return taints
	}
	var out []Taint
	for _, t := range taints {
		if fits(t) && len(out) < MaxTaints {
			out = append(out, t)
		}
	}
	return out
}

// keyFits reports whether a key is within the limits of a label key.
func keyFits(key string) bool {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	return len(name) <= validation.LabelValueMaxLength && len(prefix) <= validation.DNS1123SubdomainMaxLength
}

// isID reports whether s can be a UID.
func isID(s string) bool {
	return len(s) <= MaxUID && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
