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
	pieces := make([]planHash, planPieces(len(p.Clusters)))
	pieces[0] = w
	planSplit(len(p.Clusters), func(piece, from, to int) { pieces[piece].clusters(p, from, to) })
	for i := range pieces {
		w.hash.Write(pieces[i].buf)
	}
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

// planHash collects small writes for a hash. Where it has none it is a later piece
// of what is hashed, and collects all of them.
type planHash struct {
	hash hash.Hash
	buf  []byte
}

// clusters writes the clusters of a plan between two bounds.
func (w *planHash) clusters(p *Plan, from, to int) {
	divided := p.hasDomains()
	if w.hash == nil {
		w.buf = make([]byte, 0, planHashSize(p.Clusters[from:to]))
	}
	for block := range slices.Chunk(p.Clusters[from:to], planBlock) {
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
}

// planHashSize is about how long the clusters are when they are written.
func planHashSize(clusters []PlannedCluster) (size int) {
	for i := range clusters {
		size += len(clusters[i].Name) + len(clusters[i].UID) + 3*binary.MaxVarintLen16
	}
	return size
}

func (w *planHash) text(s string) {
	w.number(len(s))
	w.buf = append(w.buf, s...)
	if w.hash != nil && len(w.buf) >= 32<<10 {
		w.hash.Write(w.buf)
		w.buf = w.buf[:0]
	}
}

func (w *planHash) number(n int) { w.buf = binary.AppendVarint(w.buf, int64(n)) }

func planTextSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
