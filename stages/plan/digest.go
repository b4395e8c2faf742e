package plan

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// digestDomain keeps the digest of a plan apart from that of anything else.
const digestDomain = "slipway plan 1\n"

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
	sum := sha256.New()
	w := digestWriter{bufio.NewWriter(sum)}
	_, _ = w.out.WriteString(digestDomain)
	w.text(string(b))
	w.number(len(p.Revisions))
	for _, digest := range p.Revisions {
		w.text(digest)
	}
	w.number(len(p.Clusters))
	divided := p.hasDomains()
	for i := range p.Clusters {
		c := &p.Clusters[i]
		w.text(c.Name)
		w.text(c.UID)
		w.number(c.Revision)
		if divided {
			w.number(c.Cell)
		}
	}
	_ = w.out.Flush() // a hash takes everything
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// digestWriter writes parts into a hash, each with its length before it.
type digestWriter struct{ out *bufio.Writer }

func (w digestWriter) text(s string) {
	w.number(len(s))
	_, _ = w.out.WriteString(s)
}

func (w digestWriter) number(n int) {
	_, _ = w.out.Write(binary.AppendVarint(w.out.AvailableBuffer(), int64(n)))
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// planFields has the fields of a plan and none of its methods. Its JSON leaves
// out the revisions and the clusters, which are in pages.
type planFields Plan
