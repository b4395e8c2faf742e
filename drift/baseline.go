package drift

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

const (
	// MaxBaselineEntries is the maximum number of differences that a baseline explains.
	// It does not explain any further differences of a hostile member.
	MaxBaselineEntries = 4096

	baselineVersion = 1
	baselineHeader  = 1 + 4
	baselineCheck   = 8
)

// Baseline holds the differences between the hub's object and the member's object right
// after an apply, such as defaults and changes by webhooks. A difference in the baseline
// is no drift, regardless of its cause.
//
// A baseline has 16 bytes for each difference, usually few: a digest of its place, with
// items named by their keys, and of both values. It covers secret values only if
// Options.SecretKey is set, and a baseline that was taken under another key explains
// nothing. Goroutines may share a baseline, because only UnmarshalBinary changes it. The
// zero value and nil explain nothing.
type Baseline struct {
	digests []baselineDigest
}

type baselineDigest [16]byte

// differences returns the differences of a member that the baseline does not explain.
func (m *Manifest) differences(member map[string]any, b *Baseline, full bool) ([]*compare.Finding, []string, error) {
	if b.Len() == 0 {
		return m.tree.Compare(member, full, nil)
	}
	return m.tree.Compare(member, full, func(f *compare.Finding) bool { return b.explains(m, f) })
}

// Baseline returns the baseline of a live object, which must be read right after the
// object of the hub was applied. It returns nil if there is no live object, if the
// object cannot be compared, or if there is no difference to explain.
func (m *Manifest) Baseline(live *unstructured.Unstructured) *Baseline {
	if live == nil || live.Object == nil || m.check(live.Object) != nil {
		return nil
	}
	all, _, err := m.differences(live.Object, nil, true)
	if err != nil {
		return nil
	}
	b := &Baseline{}
	for _, f := range all {
		if f.InMember && (len(m.secrets.key) > 0 || !m.holdsSecret(*f, live.Object)) {
			b.digests = append(b.digests, m.baselineDigest(f))
		}
	}
	if len(b.digests) == 0 {
		return nil
	}
	return b.sorted()
}

// BaselineAfter is like Baseline for an object that existed before the apply; before is
// its earlier state. The result does not explain a field that only the member had before,
// because an apply does not touch fields that it does not name. It does explain such a field if
// known explains it, or if the field is in an atomic list or map.
func (m *Manifest) BaselineAfter(before, live *unstructured.Unstructured, known *Baseline) *Baseline {
	b := m.Baseline(live)
	if b == nil || before == nil || before.Object == nil || m.check(before.Object) != nil {
		return b
	}
	all, _, err := m.differences(before.Object, nil, true)
	if err != nil {
		return b
	}
	earlier := make(map[baselineDigest]bool)
	for _, f := range all {
		if f.InMember && !f.InHub && f.Whole == 0 && !known.explains(m, f) {
			earlier[m.baselineDigest(f)] = true
		}
	}
	b.digests = slices.DeleteFunc(b.digests, func(d baselineDigest) bool { return earlier[d] })
	return b.sorted()
}

// Lacking returns a baseline that explains the differences of b, and also all fields of the hub's
// object that the live object lacks; b may be nil. Use it if the apply dropped a part of the object
// because the API server refuses that part. Lacking does not change b.
func (m *Manifest) Lacking(b *Baseline, live *unstructured.Unstructured) *Baseline {
	if live == nil || live.Object == nil || m.check(live.Object) != nil {
		return b
	}
	all, _, err := m.differences(live.Object, nil, true)
	if err != nil {
		return b
	}
	out := &Baseline{}
	if b != nil {
		out.digests = slices.Clone(b.digests)
	}
	for _, f := range all {
		if !f.InMember && (len(m.secrets.key) > 0 || !m.holdsSecret(*f, live.Object)) {
			out.digests = append(out.digests, m.baselineDigest(f))
		}
	}
	return out.sorted()
}

// sorted puts the digests in order, for the look-up and so that the encoding
// does not depend on the order of the walk.
func (b *Baseline) sorted() *Baseline {
	slices.SortFunc(b.digests, compareDigests)
	b.digests = slices.Compact(b.digests)
	b.digests = slices.Clip(b.digests[:min(len(b.digests), MaxBaselineEntries)])
	return b
}

func compareDigests(a, b baselineDigest) int { return bytes.Compare(a[:], b[:]) }

// holdsSecret reports whether any of a difference must not be shown.
func (m *Manifest) holdsSecret(f compare.Finding, live map[string]any) bool {
	clean := m.secrets.redacted(f, fieldpath.Follow(nil, f.Path, m.tree.Hub, live), m.tree, live)
	return clean.Secret || !bytes.Equal(value.AppendCanonical(nil, f.Member), value.AppendCanonical(nil, clean.Member)) ||
		!bytes.Equal(value.AppendCanonical(nil, f.Hub), value.AppendCanonical(nil, clean.Hub)) ||
		fieldpath.KeyPath(f.Path) != fieldpath.KeyPath(clean.Path)
}

// explains reports whether a difference was there right after the apply: at the
// same place, with the same value, or none, on the member and on the hub.
func (b *Baseline) explains(m *Manifest, f *compare.Finding) bool {
	if b == nil || len(b.digests) == 0 {
		return false
	}
	_, ok := slices.BinarySearchFunc(b.digests, m.baselineDigest(f), compareDigests)
	return ok
}

func (m *Manifest) baselineDigest(f *compare.Finding) baselineDigest {
	text := value.AppendCanonical(nil, fieldpath.KeyPath(f.Path))
	text = appendSide(text, f.Hub, f.InHub)
	text = appendSide(text, f.Member, f.InMember)
	key := m.secrets.key
	if len(key) == 0 {
		sum := sha256.Sum256(text)
		return baselineDigest(sum[:16])
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(text)
	return baselineDigest(mac.Sum(nil)[:16])
}

func appendSide(b []byte, v any, has bool) []byte {
	if has {
		b = value.AppendCanonical(b, v)
	}
	return append(b, 0)
}

// Len returns how many differences the baseline explains.
func (b *Baseline) Len() int {
	if b == nil {
		return 0
	}
	return len(b.digests)
}

// MarshalBinary encodes the baseline. The key is not in it.
func (b *Baseline) MarshalBinary() ([]byte, error) {
	out := make([]byte, 0, baselineHeader+16*len(b.digests)+baselineCheck)
	out = append(out, baselineVersion)
	out = binary.BigEndian.AppendUint32(out, uint32(len(b.digests)))
	for _, d := range b.digests {
		out = append(out, d[:]...)
	}
	sum := sha256.Sum256(out)
	return append(out, sum[:baselineCheck]...), nil
}

// UnmarshalBinary decodes the output of MarshalBinary. It returns an error and does not
// change b if the data is damaged or has another version.
func (b *Baseline) UnmarshalBinary(data []byte) error {
	if len(data) < baselineHeader+baselineCheck {
		return errors.New("drift: decoding a baseline: it is too short")
	}
	if data[0] != baselineVersion {
		return fmt.Errorf("drift: decoding a baseline: it has version %d, want %d", data[0], baselineVersion)
	}
	body := data[:len(data)-baselineCheck]
	if sum := sha256.Sum256(body); !bytes.Equal(sum[:baselineCheck], data[len(body):]) {
		return errors.New("drift: decoding a baseline: its checksum is wrong")
	}
	digests, err := decodeDigests(binary.BigEndian.Uint32(data[1:]), body[baselineHeader:])
	if err != nil {
		return fmt.Errorf("drift: decoding a baseline: %w", err)
	}
	b.digests = digests
	return nil
}

func decodeDigests(n uint32, body []byte) ([]baselineDigest, error) {
	if n > MaxBaselineEntries || int(n)*16 != len(body) {
		return nil, fmt.Errorf("it says that it has %d entries, with %d bytes", n, len(body))
	}
	digests := make([]baselineDigest, n)
	for i := range digests {
		digests[i] = baselineDigest(body[16*i:])
		if i > 0 && compareDigests(digests[i-1], digests[i]) >= 0 {
			return nil, fmt.Errorf("entry %d is out of order", i)
		}
	}
	return digests, nil
}
