package placement

import (
	"errors"
	"math"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Bounds of the quantities of properties. Clusters report them themselves, and reading or
// comparing a quantity with an exponent of some hundred millions takes hours.
const (
	maxQuantity       = 64 // bytes
	maxExponentDigits = 2
)

// ParseQuantity reads the value of a property in the notation of Kubernetes, for example 5, 0.5,
// 500m, 16Gi or 1e9. It refuses a text of more than 64 bytes and an exponent beyond 99, because
// no real property needs them.
func ParseQuantity(s string) (resource.Quantity, error) {
	if len(s) > maxQuantity {
		return resource.Quantity{}, errors.New("a quantity has 64 bytes at most")
	}
	if i := strings.LastIndexAny(s, "eE"); i >= 0 && len(strings.TrimLeft(s[i+1:], "+-0")) > maxExponentDigits {
		return resource.Quantity{}, errors.New("the exponent of a quantity is from -99 to 99")
	}
	return resource.ParseQuantity(s)
}

// measurable reports whether a quantity can be compared with others and placed on a line between
// them.
func measurable(q resource.Quantity) bool { return !math.IsInf(q.AsApproximateFloat64(), 0) }
