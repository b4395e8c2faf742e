package bolt

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/slipway-dev/slipway/backend"
)

// The buckets of a file, and the only key of the second one.
const (
	recordsBucket = "records"
	headBucket    = "slipway"
	headKey       = "head"
)

// formatVersion is the version of the layout that this package writes.
const formatVersion = 1

// sum is a checksum, or a sum of checksums modulo 2^128.
type sum struct{ high, low uint64 }

const (
	sumLen    = 16
	sealLen   = sumLen + 8
	headMagic = "slipway\x00"
	headLen   = len(headMagic) + 8 + 8 + 8 + sumLen + sumLen
)

func (s sum) plus(o sum) sum {
	low, carry := bits.Add64(s.low, o.low, 0)
	high, _ := bits.Add64(s.high, o.high, carry)
	return sum{high, low}
}

func (s sum) minus(o sum) sum {
	low, borrow := bits.Sub64(s.low, o.low, 0)
	high, _ := bits.Sub64(s.high, o.high, borrow)
	return sum{high, low}
}

func (s sum) append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, s.high), s.low)
}

func readSum(b []byte) sum {
	return sum{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// sumOf returns the checksum of parts. No key contains the byte 0, so key, revision and value
// cannot be confused.
func sumOf(parts ...[]byte) sum {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	var out [sha256.Size]byte
	return readSum(h.Sum(out[:0]))
}

// seal turns sealLen bytes and a value behind them into a stored record, and returns its
// checksum.
func seal(key, stored []byte, revision uint64) sum {
	binary.BigEndian.PutUint64(stored[sumLen:], revision)
	s := sumOf(key, []byte{0}, stored[sumLen:])
	s.append(stored[:0])
	return s
}

// unsealed returns the content of a stored record. The value is part of stored.
func unsealed(key, stored []byte) (value []byte, revision uint64, s sum, err error) {
	if len(stored) < sealLen {
		return nil, 0, sum{}, fmt.Errorf("%w: record %.80q has %d bytes, fewer than %d", ErrDamaged, key, len(stored), sealLen)
	}
	s = readSum(stored)
	if s != sumOf(key, []byte{0}, stored[sumLen:]) {
		return nil, 0, sum{}, fmt.Errorf("%w: the checksum of record %.80q does not match", ErrDamaged, key)
	}
	return stored[sealLen:], revisionOf(stored), s, nil
}

// revisionOf returns the revision of a stored record that was checked before.
func revisionOf(stored []byte) uint64 { return binary.BigEndian.Uint64(stored[sumLen:]) }

func revision(n uint64) backend.Revision { return backend.Revision(strconv.FormatUint(n, 10)) }

// head summarizes the records of a file. Each commit stores one.
type head struct {
	// written counts the writes of the store, from its beginning. The revision of a record is its
	// value after the write.
	written uint64
	records uint64
	// sum is the sum of the checksums of all records.
	sum sum
}

func (h head) encode() []byte {
	b := append(make([]byte, 0, headLen), headMagic...)
	for _, n := range []uint64{formatVersion, h.written, h.records} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = h.sum.append(b)
	return sumOf(b).append(b)
}

func decodeHead(b []byte) (head, error) {
	if len(b) < len(headMagic)+8 || string(b[:len(headMagic)]) != headMagic {
		return head{}, fmt.Errorf("%w: it has no head of a store", ErrDamaged)
	}
	rest := b[len(headMagic):]
	if version := binary.BigEndian.Uint64(rest); version > formatVersion {
		return head{}, fmt.Errorf("%w: it has version %d, this one knows %d", ErrNewer, version, formatVersion)
	}
	if len(b) != headLen || readSum(b[headLen-sumLen:]) != sumOf(b[:headLen-sumLen]) {
		return head{}, fmt.Errorf("%w: the checksum of its head does not match", ErrDamaged)
	}
	return head{
		written: binary.BigEndian.Uint64(rest[8:]),
		records: binary.BigEndian.Uint64(rest[16:]),
		sum:     readSum(rest[24:]),
	}, nil
}

// totals sums up the records of a file, to compare them with its head.
type totals struct {
	found head
	head  *head
}

func (c *totals) visit(bucket, key, value []byte) (err error) {
	switch string(bucket) {
	case recordsBucket:
		_, rev, s, err := unsealed(key, value)
		if err != nil {
			return err
		}
		c.found.records++
		c.found.sum = c.found.sum.plus(s)
		c.found.written = max(c.found.written, rev)
		return nil
	case headBucket:
		if string(key) != headKey {
			return fmt.Errorf("%w: it has a key %.80q beside its head", ErrDamaged, key)
		}
		h, err := decodeHead(value)
		c.head = &h
		return err
	}
	return fmt.Errorf("%w: it has a bucket %.80q, so it is the file of something else", ErrDamaged, bucket)
}

// check returns the head if it matches the records.
func (c *totals) check() (head, error) {
	switch {
	case c.head == nil:
		return head{}, fmt.Errorf("%w: it has no head", ErrDamaged)
	case c.found.records != c.head.records:
		return head{}, fmt.Errorf("%w: it has %d records where its head counts %d", ErrDamaged, c.found.records, c.head.records)
	case c.found.sum != c.head.sum:
		return head{}, fmt.Errorf("%w: its records are not those that its head sums up", ErrDamaged)
	case c.found.written > c.head.written:
		return head{}, fmt.Errorf("%w: a record has revision %d, its head says that %d were written", ErrDamaged, c.found.written, c.head.written)
	}
	return *c.head, nil
}
