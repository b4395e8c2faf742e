package postgres

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// revision is the number of a write and its random part.
type revision struct{ seq, nonce int64 }

func (r revision) String() string {
	return strconv.FormatInt(r.seq, 10) + "-" + fmt.Sprintf("%016x", uint64(r.nonce)) //nolint:gosec // the conversion keeps all 64 bits
}

// public returns the revision in its public form.
func (r revision) public() backend.Revision { return backend.Revision(r.String()) }

// Numbers of revisions that no row has.
const (
	seqNone    = 0  // the key must not exist
	seqSecond  = -1 // any: the batch deleted the key before
	seqInvalid = -2 // not a revision of this package
)

// parseRevision returns the parts of a revision. An invalid revision matches no row.
func parseRevision(public backend.Revision) revision {
	if public == "" {
		return revision{seq: seqNone}
	}
	first, second, _ := strings.Cut(string(public), "-")
	seq, seqErr := strconv.ParseInt(first, 10, 64)
	nonce, nonceErr := strconv.ParseUint(second, 16, 64)
	r := revision{seq, int64(nonce)} //nolint:gosec // the conversion keeps all 64 bits
	if seqErr != nil || nonceErr != nil || seq <= 0 || r.public() != public {
		return revision{seq: seqInvalid}
	}
	return r
}

// newNonce returns 64 random bits.
func newNonce() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:])                      // it never fails
	return int64(binary.BigEndian.Uint64(b[:])) //nolint:gosec // the conversion keeps all 64 bits
}

// checksum returns the first bytes of a SHA-256 over key, nonce and value.
func checksum(key string, nonce int64, value []byte) int64 {
	h := sha256.New()
	_, _ = h.Write(binary.BigEndian.AppendUint64(append([]byte(key), 0), uint64(nonce))) //nolint:gosec // the conversion keeps all 64 bits
	_, _ = h.Write(value)                                                                // it never fails
	return int64(binary.BigEndian.Uint64(h.Sum(nil)))                                    //nolint:gosec // the conversion keeps all 64 bits
}

// row is a stored row with a value.
type row struct {
	key      string
	value    []byte
	revision revision
	sum      int64
}

// record returns the row as a record, or ErrPermanent if it is damaged.
func (r row) record() (backend.Record, error) {
	if checksum(r.key, r.revision.nonce, r.value) != r.sum {
		return backend.Record{}, fmt.Errorf("%w: the value of %s is damaged", backend.ErrPermanent, r.key)
	}
	return backend.Record{Key: r.key, Value: r.value, Revision: r.revision.public()}, nil
}
