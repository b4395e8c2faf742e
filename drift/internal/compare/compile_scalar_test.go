package compare

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// oneValue compiles an object with one value of a kind and reports whether the member's value is
// equal.
func oneValue(t *testing.T, k schema.Kind, hub, member any) bool {
	t.Helper()
	m := &Tree{}
	c := compiler{tree: m}
	c.reserve(1)
	c.fill(0, hub, &schema.Type{Kind: k})
	return m.same(0, member)
}

func TestScalarsAreComparedByMeaning(t *testing.T) {
	n := func(s string) any { return json.Number(s) }
	for _, c := range []struct {
		name        string
		kind        schema.Kind
		hub, member any
		same        bool
	}{
		{"V1", schema.Number, int64(1), 1.0, true},
		{"V1 as text", schema.Number, n("1"), n("1.0"), true},
		{"V3", schema.Number, n("18446744073709551616"), n("18446744073709551616"), true},
		{"V3, another", schema.Number, n("18446744073709551616"), n("18446744073709551617"), false},
		{"V3, digits lost on one side", schema.Number, n("18446744073709551617"), 18446744073709551616.0, true},
		{"K4", schema.Number, int64(9007199254740993), int64(9007199254740992), false},
		{"K4 as texts", schema.Number, n("9007199254740993"), n("9007199254740992"), false},
		{"beyond int64", schema.Number, uint64(math.MaxUint64), n("18446744073709551615"), true},
		{"beyond int64, another", schema.Number, uint64(math.MaxUint64), n("18446744073709551614"), false},
		{"least int64", schema.Number, int64(math.MinInt64), n("-9223372036854775808"), true},
		{"V4", schema.Number, n("1e3"), int64(1000), true},
		{"V4, many zeros", schema.Number, n("1000e-3"), int64(1), true},
		{"V5", schema.Number, n("0.1"), n("0.10000000000000001"), true},
		{"V5, another", schema.Number, 0.1, 0.2, false},
		{"V6", schema.Number, math.Copysign(0, -1), int64(0), true},
		{"V6 as texts", schema.Number, n("-0.0"), n("0"), true},
		{"V7", schema.Boolean, true, "true", false},
		{"number and text", schema.Unknown, int64(1), "1", false},
		{"beyond float64", schema.Number, n("1e400"), n("10e399"), true},
		{"beyond float64, another", schema.Number, n("1e400"), n("1e401"), false},
		{"other types of Go", schema.Number, int(3), int32(3), true},
		{"N7, X5", schema.IntOrString, "8080", int64(8080), false},
		{"W20", schema.IntOrString, "25%", int64(25), false},

		{"W17", schema.Quantity, int64(1), "1", true},
		{"1000m", schema.Quantity, "1000m", "1", true},
		{"0.5", schema.Quantity, "0.5", "500m", true},
		{"W18", schema.Quantity, "500m", "501m", false},
		{"O6", schema.Quantity, "1Gi", "2Gi", false},
		{"binary and decimal", schema.Quantity, "1Gi", "1073741824", true},
		{"kilo", schema.Quantity, "1k", int64(1000), true},
		{"exponent", schema.Quantity, "1e3", "1k", true},
		{"exponent on the member", schema.Quantity, "1k", "1e3", true},
		{"float", schema.Quantity, 0.5, "500m", true},
		{"large", schema.Quantity, "8000Pi", "8192000Ti", true},
		{"zero", schema.Quantity, "0", "0Gi", true},
		{"negative", schema.Quantity, "-1", "-1000m", true},
		{"fraction of a binary", schema.Quantity, "1.5Gi", "1536Mi", true},
		{"memory as a server rounds it", schema.Quantity, "1.1111Gi", "1193034540647m", true},
		{"cpu as a server rounds it", schema.Quantity, "2.0005", "2001m", true},
		{"a cpu that is a number", schema.Quantity, 2.0005, "2001m", true},
		{"a tenth of a thousandth", schema.Quantity, "0.1m", "1m", true},
		{"nanos", schema.Quantity, "1n", "1m", true},
		{"micros with an exponent", schema.Quantity, "15e-4", "2m", true},
		{"away from zero", schema.Quantity, "-1.5m", "-2m", true},
		{"rounded down", schema.Quantity, "2.0005", "2", false},
		{"rounded down to a thousandth", schema.Quantity, "2.0015", "2001m", false},
		{"a thousandth more", schema.Quantity, "2.001", "2.002", false},
		{"the member has more digits", schema.Quantity, "2001m", "2.0005", false},
		{"no quantity", schema.Quantity, "many", "many", true},
		{"no quantity on the member", schema.Quantity, "1", "many", false},
		{"a bomb", schema.Quantity, "1", "1e999999999", false},
		{"a map", schema.Quantity, "1", map[string]any{}, false},
		{"true", schema.Quantity, "1", true, false},

		{"V14", schema.Duration, "1h0m0s", "60m", true},
		{"V14, another", schema.Duration, "1h0m0s", "61m", false},
		{"no duration", schema.Duration, "soon", "soon", true},
		{"V15", schema.Time, "2026-01-01T00:00:00Z", "2026-01-01T00:00:00+00:00", true},
		{"zone", schema.Time, "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z", true},
		{"micro", schema.Time, "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00Z", true},
		{"another time", schema.Time, "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", false},

		{"C16", schema.Bytes, "aGVsbG8g\nd29ybGQ=\n", "aGVsbG8gd29ybGQ=", true},
		{"C16, on the member", schema.Bytes, "aGVsbG8gd29ybGQ=", "aGVsbG8g\r\nd29ybGQ=", true},
		{"other bytes", schema.Bytes, "aGVsbG8gd29ybGQ=", "aGVsbG8gd29ybGR=", true},
		{"other bytes", schema.Bytes, "YQ==", "Yg==", false},
		{"shorter bytes", schema.Bytes, "YWE=", "YQ==", false},
		{"no bytes", schema.Bytes, "?", "?", true},
		{"null and empty", schema.Bytes, nil, "", true},
		{"null and not empty", schema.Bytes, nil, "YQ==", false},
	} {
		if got := oneValue(t, c.kind, c.hub, c.member); got != c.same {
			t.Errorf("%s: %v and %v: same is %v, want %v", c.name, c.hub, c.member, got, c.same)
		}
		if got := value.Equal(c.hub, c.member, &schema.Type{Kind: c.kind}); got != c.same && c.hub != nil {
			t.Errorf("%s: as a default, %v means %v is %v, want %v", c.name, c.hub, c.member, got, c.same)
		}
	}
}
