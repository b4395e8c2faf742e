package value

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestShowOfShortValues(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{nil, "null"},
		{true, "true"},
		{"true", `"true"`},
		{int64(9007199254740993), "9007199254740993"},
		{float64(40000000), "40000000"},
		{0.1, "0.1"},
		{math.Copysign(0, -1), "0"},
		{1e21, "1e+21"},
		{math.NaN(), `"NaN"`},
		{json.Number("18446744073709551616"), "18446744073709551616"},
		{json.Number("1.0"), "1.0"},
		{json.Number("0x1"), `"0x1"`},
		{json.Number(`{"a":1}`), `"{\"a\":1}"`},
		{json.Number(""), `""`},
		{uint8(5), "5"},
		{func() {}, `"(a value of type func())"`},
		{"<b>&é😀", `"<b>&é😀"`},
		{"a\x1b[31m\u009bb\x7f\x00\u202e\u2028\U000e0001", `"a\u001b[31m\u009bb\u007f\u0000\u202e\u2028\udb40\udc01"`},
		{"a\"\\\n\r\t\xffb", `"a\"\\\n\r\t\ufffdb"`},
		{map[string]any{"b": []any{int64(1), "x"}, "a": nil}, `{"a":null,"b":[1,"x"]}`},
	} {
		got := string(JSON(c.value))
		if got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestEqualNumbersHaveOneDigestibleForm(t *testing.T) {
	for _, same := range [][]any{
		{int64(1), 1.0, json.Number("1"), json.Number("1.0"), json.Number("1e0")},
		{int64(0), math.Copysign(0, -1), json.Number("-0"), json.Number("-0.0")},
		{0.1, json.Number("0.1"), json.Number("1e-1")},
	} {
		want := string(AppendCanonical(nil, same[0]))
		for _, v := range same {
			if got := string(AppendCanonical(nil, v)); got != want {
				t.Errorf("%v is %s, want %s", v, got, want)
			}
		}
	}
	a, b := AppendCanonical(nil, json.Number("9007199254740993")), AppendCanonical(nil, int64(9007199254740992))
	if string(a) == string(b) {
		t.Error("two integers have the same form")
	}
}

func TestAValueThatIsTooDeepIsCutOff(t *testing.T) {
	var v any = "x"
	for range 10_000 {
		v = []any{map[string]any{"a": v}}
	}
	if got := JSON(v); !json.Valid(got) || !strings.Contains(string(got), "(too deep)") {
		t.Error("it is not cut off")
	}
}

func TestALongValueBecomesItsLengthDigestAndFirstDifferentLine(t *testing.T) {
	lines := strings.Repeat("a line of text\n", 5000)
	hub := lines + "the port is 80\n" + lines
	member := lines + "the port is 81\n" + lines
	s := Show(hub, member, true, true, 256)
	var text string
	if err := json.Unmarshal(s.Member, &text); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(member))
	want := `150015 bytes, sha256 ` + hex.EncodeToString(sum[:8]) + `, line 5001: "the port is 81"`
	if text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	if !strings.Contains(string(s.Hub), "the port is 80") {
		t.Errorf("got %s", s.Hub)
	}
}

func TestALongLineIsShownWhereItDiffers(t *testing.T) {
	hub := map[string]any{"a": strings.Repeat("é", 5000) + "b"}
	member := map[string]any{"a": strings.Repeat("é", 5000) + "c"}
	s := Show(hub, member, true, true, 128)
	if !strings.Contains(string(s.Hub), `éb\`) || !strings.Contains(string(s.Member), `éc\`) || !strings.Contains(string(s.Hub), `"...é`) {
		t.Errorf("got %s and %s", s.Hub, s.Member)
	}
}

func TestLongValueOfOneSideIsTruncated(t *testing.T) {
	s := Show(nil, strings.Repeat("xy", 500), false, true, 100)
	if s.Hub != nil || !strings.Contains(string(s.Member), `line 1: \"xyxy`) {
		t.Errorf("got %s and %s", s.Hub, s.Member)
	}
}

func TestWhiteSpaceAloneIsNoted(t *testing.T) {
	for _, c := range []struct {
		hub, member any
		want        string
	}{
		{"a\r\nb\r\n", "a\nb", "whitespace only"},
		{"a b", "ab", "whitespace only"},
		{"a", "b", ""},
		{"a", "a", ""},
		{"1", int64(1), ""},
	} {
		if got := Show(c.hub, c.member, true, true, 256).Note; got != c.want {
			t.Errorf("%q and %q: got %q", c.hub, c.member, got)
		}
	}
}

func FuzzShow(f *testing.F) {
	f.Add("a\nb", "a\nc", uint8(1))
	f.Add(strings.Repeat("é", 200), strings.Repeat("é", 100)+"\xff"+strings.Repeat("\x1b", 100), uint8(0))
	f.Fuzz(func(t *testing.T, hub, member string, limit uint8) {
		n := MinShownBytes + int(limit)
		s := Show(hub, []any{member}, true, true, n)
		for _, v := range []json.RawMessage{s.Hub, s.Member} {
			if len(v) > n || !json.Valid(v) || !utf8.Valid(v) {
				t.Errorf("%d bytes are shown, at most %d are allowed: %q", len(v), n, v)
			}
			for _, r := range string(v) {
				if r < ' ' || r == 0x7f || '\u0080' <= r && r < '\u00a0' {
					t.Errorf("%q holds a control character", v)
				}
			}
		}
	})
}
