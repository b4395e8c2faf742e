package stages

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// digestDomain separates digests of plans from digests of other data.
const digestDomain = "slipway plan 1\n"

// digestChunk is the approximate number of bytes that are hashed at a time, because hashing each
// cluster separately is slow.
const digestChunk = 4 << 10

// Verify computes the digest of the plan again, and returns an error when it
// is not p.Digest: the plan was changed after it was made.
func (p *Plan) Verify() error {
	digest, err := p.sum()
	if err != nil {
		return fmt.Errorf("plan %s: %w", p.Digest, err)
	}
	if digest != p.Digest {
		return fmt.Errorf("plan %s of placement %s: its content has the digest %s: it was changed after it was made", p.Digest, p.Placement, digest)
	}
	return nil
}

// sum returns the sha256 in hex of everything in the plan but Warnings. Every
// part has its length before it, so that no two plans have the same encoding.
func (p *Plan) sum() (string, error) {
	head := *p
	head.Warnings, head.Digest = nil, ""
	b, err := json.Marshal((*planFields)(&head))
	if err != nil {
		return "", err
	}
	b = appendText([]byte(digestDomain), string(b))
	b = binary.AppendVarint(b, int64(len(p.Revisions)))
	for _, digest := range p.Revisions {
		b = appendText(b, digest)
	}
	b = binary.AppendVarint(b, int64(len(p.Clusters)))
	sum := sha256.New()
	divided := p.hasDomains()
	for i := range p.Clusters {
		if len(b) > digestChunk {
			_, _ = sum.Write(b) // a hash takes everything
			b = b[:0]
		}
		c := &p.Clusters[i]
		b = appendText(b, c.Name)
		b = appendText(b, c.UID)
		b = binary.AppendVarint(b, int64(c.Revision))
		if divided {
			b = binary.AppendVarint(b, int64(c.Cell))
		}
	}
	_, _ = sum.Write(b)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// appendText appends a part of a digest, with its length before it.
func appendText(b []byte, s string) []byte {
	return append(binary.AppendVarint(b, int64(len(s))), s...)
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// planFields has the fields of a plan and none of its methods. Its JSON leaves
// out the revisions and the clusters, which are in pages.
type planFields Plan
