package value

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestNonJSONNumbersAreRefused(t *testing.T) {
	for _, text := range []string{"", "-", "1e", "1e1e1", ".5", "0x10", "1_0", "NaN", "+1", "1e99999999999"} {
		if IsNumber(json.Number(text)) {
			t.Errorf("%q is taken for a number", text)
		}
	}
}

func FuzzQuantityAgreesWithTheOneOfKubernetes(f *testing.F) {
	for _, s := range []string{"1", "100m", "1.5Gi", "0.1", "1e3", "12E", "1Ei", "999999999999999999", "0.000000001", "1n", "1u", "5.", ".5", "1.000k"} {
		f.Add(s, "1")
		f.Add(s, s+"0")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 40 || strings.ContainsAny(a+b, "eE+-") {
			return
		}
		p, err := resource.ParseQuantity(a)
		q, also := resource.ParseQuantity(b)
		x, ok := parseSmallQuantity(a)
		y, fine := parseSmallQuantity(b)
		if ok && err != nil || fine && also != nil {
			t.Fatalf("%q or %q is taken for a quantity: %v, %v", a, b, err, also)
		}
		if !ok || !fine {
			return
		}
		if got, want := x == y, p.Cmp(q) == 0; got != want {
			t.Errorf("%q and %q: the same is %v, want %v", a, b, got, want)
		}
	})
}
