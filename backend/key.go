package backend

import (
	"fmt"
	"strings"
)

// The limits of a [Store].
const (
	// MaxKey is the length of the longest key, in bytes.
	MaxKey = 512
	// MaxValue is the size of the largest value, in bytes.
	MaxValue = 1 << 20
)

// ValidateKey returns nil if every store accepts key, and otherwise an error that is ErrPermanent
// and says what is wrong. The segments between slashes are not empty and neither "." nor "..", so
// that a key stays below a directory. A key is no file name: it may begin another key, as "a"
// begins "a/b", and a segment may be longer than file systems allow. A prefix given to List is no
// key and need not be valid.
func ValidateKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: the key is empty", ErrPermanent)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: the key has %d bytes, at most %d are allowed", ErrPermanent, len(key), MaxKey)
	}
	for i := range len(key) {
		if !keyByte(key[i]) {
			return fmt.Errorf("%w: key %q has %q at byte %d, allowed are a-z, 0-9, '-', '.', '_' and '/'", ErrPermanent, key, key[i], i)
		}
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%w: key %q has the segment %q, which must not be empty, \".\" or \"..\"", ErrPermanent, key, segment)
		}
	}
	return nil
}

// ValidateValue returns nil if every store accepts value, and otherwise an error that is
// ErrPermanent.
func ValidateValue(value []byte) error {
	if len(value) > MaxValue {
		return fmt.Errorf("%w: the value has %d bytes, at most %d are allowed", ErrPermanent, len(value), MaxValue)
	}
	return nil
}

func keyByte(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '.' || c == '_' || c == '/'
}
