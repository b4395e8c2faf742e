package store

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The name of a record's Secret is namePrefix and its key in base32hex, which keeps the order of
// keys and uses only letters that are valid in names. Names have at most 253 bytes; a longer key
// is cut to headLen bytes, followed by headEnd, which sorts before every digit of base32hex, and
// a hash of the whole key.
const (
	namePrefix  = "r-"
	headEnd     = "-"
	hashLen     = 20
	plainKeyMax = (validation.DNS1123SubdomainMaxLength - len(namePrefix)) * 5 / 8
	// headLen is a multiple of five bytes, which are eight digits, so that the digits of the head
	// are a prefix of the digits of every longer key that begins with it.
	headLen = (validation.DNS1123SubdomainMaxLength - len(namePrefix) - len(headEnd) - hashLen/5*8) / 8 * 5
)

// recordName returns the name of the Secret of a key.
func recordName(key string) string {
	if !isLong(key) {
		return namePrefix + base32hex([]byte(key))
	}
	return namePrefix + base32hex([]byte(key[:headLen])) + headEnd + hashed(key)
}

// isLong reports whether the name of the key's Secret contains a hash. Such names sort just
// before all others that begin with their head, in the order of the hashes.
func isLong(key string) bool { return len(key) > plainKeyMax }

func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base32hex(sum[:hashLen])
}

func base32hex(b []byte) string {
	return strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b))
}

// The labels by which a server selects the records under a prefix: the first segment of the key
// in clear, so that people can select by it too, and hashes of the first two and the first three
// segments if more follow.
const (
	recordLabel = "slipway.dev/record"
	underTwo    = "slipway.dev/under-2"
	underThree  = "slipway.dev/under-3"
)

// labelsOf returns the labels of the record of key.
func labelsOf(key string) map[string]string {
	first, _, _ := strings.Cut(key, "/")
	labels := map[string]string{recordLabel: segmentLabel(first)}
	if under, ok := segments(key, 2); ok {
		labels[underTwo] = hashed(under)
	}
	if under, ok := segments(key, 3); ok {
		labels[underThree] = hashed(under)
	}
	return labels
}

// selectorOf selects the records whose keys begin with prefix, and perhaps more.
func selectorOf(prefix string) string {
	if under, ok := segments(prefix, 3); ok {
		return underThree + "=" + hashed(under)
	}
	if under, ok := segments(prefix, 2); ok {
		return underTwo + "=" + hashed(under)
	}
	if first, ok := segments(prefix, 1); ok {
		return recordLabel + "=" + segmentLabel(first)
	}
	return recordLabel
}

// segments returns the first n segments of text, if a slash follows them.
func segments(text string, n int) (string, bool) {
	at := 0
	for range n {
		i := strings.IndexByte(text[at:], '/')
		if i < 0 {
			return "", false
		}
		at += i + 1
	}
	return text[:at-1], true
}

// segmentLabel returns a segment as the value of a label, or its hash if it is no valid value.
func segmentLabel(segment string) string {
	if segment == "" || len(validation.IsValidLabelValue(segment)) > 0 {
		return hashed(segment)
	}
	return segment
}
