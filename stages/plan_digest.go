package stages

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"slices"
)

// planDomain keeps the digest of a plan apart from that of anything else.
const planDomain = "slipway plan 1\n"

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
	b, err := json.Marshal(&head)
	if err != nil {
		return "", err
	}
	w := planHash{hash: sha256.New()}
	w.hash.Write([]byte(planDomain))
	w.text(string(b))
	w.number(len(p.Revisions))
	for _, digest := range p.Revisions {
		w.text(digest)
	}
	w.number(len(p.Clusters))
	divided := p.hasDomains()
	for block := range slices.Chunk(p.Clusters, planBlock) {
		planFetch(block)
		for i := range block {
			c := &block[i]
			w.text(c.Name)
			w.text(c.UID)
			w.number(c.Revision)
			if divided {
				w.number(c.Cell)
			}
		}
	}
	w.flush()
	return hex.EncodeToString(w.hash.Sum(nil)), nil
}

// planFetch asks for the memory of all the texts of a block, both ends of each,
// so that they are there when one after the other is read. What it returns
// means nothing, and keeps the compiler from leaving it all out.
//
//go:noinline
func planFetch(block []PlannedCluster) (all byte) {
	for i := range block {
		for _, s := range [...]string{block[i].Name, block[i].UID} {
			if s != "" {
				all |= s[0] | s[len(s)-1]
			}
		}
	}
	return all
}

// planHash collects small writes for a hash.
type planHash struct {
	hash hash.Hash
	buf  []byte
}

func (w *planHash) text(s string) {
	w.number(len(s))
	w.buf = append(w.buf, s...)
	if len(w.buf) >= 32<<10 {
		w.flush()
	}
}

func (w *planHash) number(n int) { w.buf = binary.AppendVarint(w.buf, int64(n)) }

func (w *planHash) flush() {
	w.hash.Write(w.buf)
	w.buf = w.buf[:0]
}

func planTextSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
