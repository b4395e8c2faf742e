package value

import (
	"encoding/base64"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// ParseDuration parses a duration. It rejects a text that is far too long.
func ParseDuration(text string) (time.Duration, bool) {
	if len(text) > 64 {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// ParseTime parses a time of RFC 3339. It rejects a text that is far too long.
func ParseTime(text string) (time.Time, bool) {
	if len(text) > 64 {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil
}

// CanonicalBase64 returns base64 without line breaks and in its canonical form.
func CanonicalBase64(text string) (string, bool) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", false
	}
	return base64.StdEncoding.EncodeToString(b), true
}

// EqualBase64 reports whether base64 decodes to the same bytes as a canonical text.
func EqualBase64(canonical, text string) bool {
	if len(text) == len(canonical) && !strings.HasSuffix(text, "=") {
		return false
	}
	i := 0
	for j := range len(text) {
		if text[j] == '\r' || text[j] == '\n' {
			continue
		}
		if i == len(canonical) || canonical[i] != text[j] {
			return sameTail(canonical, text)
		}
		i++
	}
	return i == len(canonical)
}

// sameTail is EqualBase64 for the last bytes, which may differ in the bits that padding hides.
func sameTail(canonical, text string) bool {
	if !strings.HasSuffix(canonical, "=") {
		return false
	}
	c, ok := CanonicalBase64(text)
	return ok && c == canonical
}

// IsCertificate reports whether base64 contains a certificate, and not a placeholder.
func IsCertificate(text string) bool {
	b, err := base64.StdEncoding.DecodeString(text)
	return err == nil && strings.Contains(string(b), "-----BEGIN ")
}

// ParseQuantity parses a quantity. It rejects texts that would be too expensive, such as
// 1e999999999.
func ParseQuantity(v any) (resource.Quantity, bool) {
	text, ok := quantityText(v)
	if !ok || len(text) > 64 || vast(text) {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(text)
	return q, err == nil
}

// vast reports whether a number has an exponent of more than two digits.
func vast(text string) bool {
	i := strings.IndexAny(text, "eE")
	return i >= 0 && len(strings.TrimLeft(text[i+1:], "+-0")) > 2
}
