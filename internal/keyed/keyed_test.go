package keyed_test

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/keyed"
)

const text = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestASealedTextIsOpenedWithItsKeyAndLabelOnly(t *testing.T) {
	key := []byte(strings.Repeat("k", 32))
	sealed := keyed.Seal(key, "a", text)
	if got, ok := keyed.Open(key, "a", sealed); !ok || got != text {
		t.Errorf("opened as %q, %v", got, ok)
	}
	if strings.Contains(sealed, text[:8]) {
		t.Error("the sealed form shows the text")
	}
	if again := keyed.Seal(key, "a", text); again != sealed {
		t.Error("the same is not sealed as the same")
	}
	for name, open := range map[string]func() (string, bool){
		"another key":   func() (string, bool) { return keyed.Open([]byte("other"), "a", sealed) },
		"another label": func() (string, bool) { return keyed.Open(key, "b", sealed) },
		"nothing":       func() (string, bool) { return keyed.Open(key, "a", "") },
		"plain text":    func() (string, bool) { return keyed.Open(key, "a", text) },
		"no base64":     func() (string, bool) { return keyed.Open(key, "a", "%") },
	} {
		if got, ok := open(); ok {
			t.Errorf("with %s it is opened as %q", name, got)
		}
	}
	for i := range len(sealed) {
		b := []byte(sealed)
		if b[i]++; b[i] == '{' || b[i] == '[' || b[i] == ':' || b[i] == ',' {
			b[i] = 'A'
		}
		if _, ok := keyed.Open(key, "a", string(b)); ok && string(b) != sealed {
			t.Errorf("a change of byte %d is not noticed", i)
		}
	}
}

func TestATagTellsTextsApartUnderItsKey(t *testing.T) {
	all := map[string]bool{}
	for _, key := range []string{"k", "l"} {
		for _, label := range []string{"a", "b"} {
			for _, text := range []string{"", "x", "xy"} {
				all[keyed.Tag([]byte(key), label, text)] = true
			}
		}
	}
	if len(all) != 12 || all[""] {
		t.Errorf("%d different tags of 12", len(all))
	}
}
