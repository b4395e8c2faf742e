// Package keyed seals short texts, such as digests, in records: without the key a reader can
// neither learn the text nor test a guess of it. It encrypts with AES-256-GCM and derives the
// nonce from the text, so that the same text under the same key and label always has the same
// sealed form and an unchanged record stays unchanged.
//
// All functions are pure and safe for concurrent use. A key should be 32 random bytes; an empty
// one seals nothing.
package keyed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
)

// Seal returns the sealed form of a text, as base64. The label is the purpose of the text: a text
// that was sealed under one label cannot be opened under another.
func Seal(key []byte, label, text string) string {
	c, err := gcm(key, label)
	if err != nil {
		return "" // never: the key of the cipher is a sha256
	}
	nonce := mac(key, "nonce", label, text)[:c.NonceSize()]
	return base64.RawStdEncoding.EncodeToString(c.Seal(nonce, nonce, []byte(text), nil))
}

// Open returns a text that was sealed with the same key and label, and reports whether it
// succeeded.
func Open(key []byte, label, sealed string) (string, bool) {
	b, err := base64.RawStdEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return "", false
	}
	c, err := gcm(key, label)
	if err != nil || len(b) < c.NonceSize() {
		return "", false
	}
	text, err := c.Open(nil, b[:c.NonceSize()], b[c.NonceSize():], nil)
	return string(text), err == nil
}

// Tag returns 64 hexadecimal digits, the length of a sha256, that identify a text for owners of
// the key only.
func Tag(key []byte, label, text string) string {
	return hex.EncodeToString(mac(key, "tag", label, text))
}

func gcm(key []byte, label string) (cipher.AEAD, error) {
	block, err := aes.NewCipher(mac(key, "cipher", label))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// mac is the HMAC of fields, each with its length before it.
func mac(key []byte, fields ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, f := range fields {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(f))))
		h.Write([]byte(f))
	}
	return h.Sum(nil)
}
