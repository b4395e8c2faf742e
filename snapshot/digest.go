package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// Digest returns the sha256 of b in lower-case hex.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// DigestError reports that content does not match its digest because it was changed, truncated or
// exchanged.
type DigestError struct {
	// Want is the requested digest, Got the digest of the content.
	Want, Got string
}

// Error names both digests.
func (e *DigestError) Error() string {
	return fmt.Sprintf("snapshot: content has the digest %s, want %s", e.Got, e.Want)
}

// Verify returns a [*DigestError] unless digest is the digest of body. A reader of a body, a page
// or a root calls it before it uses data from a store, and again before every apply.
func Verify(body []byte, digest string) error {
	if got := Digest(body); got != digest {
		return &DigestError{Want: digest, Got: got}
	}
	return nil
}

// isDigest reports whether s has the form of a digest.
func isDigest(s string) bool {
	if len(s) != hex.EncodedLen(sha256.Size) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
