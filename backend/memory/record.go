package memory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-dev/slipway/backend"
)

// keptFormat is the version of the records that are written here.
const keptFormat = 1

// header is what every record begins with. One that is gone stands for
// nothing.
type header struct {
	Format int  `json:"format"`
	Gone   bool `json:"gone,omitempty"`
}

// headRecord says that the owner of the records is kept. What it reserves no
// other process uses: uids and versions up to these.
type headRecord struct {
	header
	Incarnation int    `json:"incarnation,omitempty"`
	UIDs        uint64 `json:"uids,omitempty"`
	Versions    uint64 `json:"versions,omitempty"`
}

// objectRecord is an object of a cluster.
type objectRecord struct {
	header
	Live       json.RawMessage `json:"live"`
	Status     json.RawMessage `json:"status,omitempty"`
	Owners     []ownerRecord   `json:"owners,omitempty"`
	UID        uint64          `json:"uid"`
	Version    uint64          `json:"version"`
	Generation int64           `json:"generation"`
	Created    int64           `json:"created,omitempty"`
	Deleted    int64           `json:"deleted,omitempty"`
	Dying      bool            `json:"dying,omitempty"`
}

// ownerRecord is a manager and what it applied; without Applied that is the
// whole object.
type ownerRecord struct {
	Manager string          `json:"manager"`
	Applied json.RawMessage `json:"applied,omitempty"`
}

// sourceRecord is an object of a source.
type sourceRecord struct {
	header
	Object json.RawMessage `json:"object"`
}

// A record begins with a checksum of the rest, so that one that was damaged is
// refused however well it still reads.
const (
	sealPrefix = `{"sum":"`
	sealLen    = len(sealPrefix) + 8 + len(`",`)
)

// seal encodes a record.
func seal(record any) ([]byte, error) {
	body, err := json.Marshal(record)
	if err != nil {
		return nil, invalid(err.Error())
	}
	rest := body[1:]
	return append(fmt.Appendf(nil, `%s%08x",`, sealPrefix, crc32.ChecksumIEEE(rest)), rest...), nil
}

// goneMark is the record of nothing. It can always be encoded.
func goneMark() []byte {
	mark, _ := seal(header{Format: keptFormat, Gone: true})
	return mark
}

// unseal returns what is under the checksum, and whether it stands for
// nothing.
func unseal(r backend.Record) (body []byte, gone bool, err error) {
	v := r.Value
	if len(v) <= sealLen || string(v[:sealLen]) != fmt.Sprintf(`%s%08x",`, sealPrefix, crc32.ChecksumIEEE(v[sealLen:])) {
		return nil, false, damaged(r.Key, "its checksum is wrong")
	}
	body = append([]byte{'{'}, v[sealLen:]...)
	var h header
	if err := json.Unmarshal(body, &h); err != nil {
		return nil, false, damaged(r.Key, err.Error())
	}
	switch {
	case h.Format > keptFormat:
		return nil, false, failed("load", r.Key, invalid(fmt.Sprintf("the record has format %d, this version reads up to %d", h.Format, keptFormat)))
	case h.Format < 1:
		return nil, false, damaged(r.Key, "it has no format")
	}
	return body, h.Gone, nil
}

func damaged(key, what string) error {
	return failed("load", key, invalid("the record is damaged: "+what))
}

// decodeStrictly fails on what the record does not have, and on what follows
// it.
func decodeStrictly(key string, body []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return damaged(key, err.Error())
	}
	if _, err := d.Token(); err != io.EOF {
		return damaged(key, "something follows it")
	}
	return nil
}

// decodeTree decodes an object, with whole numbers as int64.
func decodeTree(key string, raw json.RawMessage) (tree, error) {
	var t tree
	if err := utiljson.Unmarshal(raw, &t); err != nil {
		return nil, damaged(key, err.Error())
	}
	if t == nil {
		return nil, damaged(key, "an object is missing")
	}
	return t, nil
}

// recordName spells the identity of an object in the letters of a key.
func recordName(k key) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{k.group, k.kind, k.namespace, k.name}, "\x00")))
	return hex.EncodeToString(sum[:])
}

// encodeObject encodes an object of a cluster.
func encodeObject(o *object) ([]byte, error) {
	r := objectRecord{
		header: header{Format: keptFormat}, UID: o.uid, Version: o.version, Generation: o.generation,
		Created: o.created, Deleted: o.deleted, Dying: o.dying,
	}
	var err error
	if r.Live, err = encodeTree(o.live); err != nil {
		return nil, err
	}
	if o.status != nil {
		if r.Status, err = encodeTree(o.status); err != nil {
			return nil, err
		}
	}
	for _, w := range o.owners() {
		owned := ownerRecord{Manager: w.manager}
		if !equalTrees(w.applied, o.live) {
			if owned.Applied, err = encodeTree(w.applied); err != nil {
				return nil, err
			}
		}
		r.Owners = append(r.Owners, owned)
	}
	return seal(r)
}

func encodeTree(t tree) (json.RawMessage, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, invalid(err.Error())
	}
	return raw, nil
}

// decodeObject is the inverse of encodeObject.
func decodeObject(at string, body []byte) (key, *object, error) {
	var r objectRecord
	if err := decodeStrictly(at, body, &r); err != nil {
		return key{}, nil, err
	}
	k, live, err := decodeIdentified(at, r.Live)
	if err != nil {
		return k, nil, err
	}
	o := &object{
		live: live, uid: r.UID, version: r.Version, generation: r.Generation,
		created: r.Created, deleted: r.Deleted, dying: r.Dying,
	}
	if r.Status != nil {
		if o.status, err = decodeTree(at, r.Status); err != nil {
			return k, nil, err
		}
	}
	owners, err := decodeOwners(at, r.Owners, live)
	o.setOwners(owners)
	return k, o, err
}

// decodeIdentified decodes an object and checks that it is stored where it
// belongs.
func decodeIdentified(at string, raw json.RawMessage) (key, tree, error) {
	t, err := decodeTree(at, raw)
	if err != nil {
		return key{}, nil, err
	}
	k, err := identify(&unstructured.Unstructured{Object: t})
	if err != nil {
		return k, nil, damaged(at, err.Error())
	}
	if !strings.HasSuffix(at, "/"+recordName(k)) {
		return k, nil, damaged(at, "it is of "+k.String()+", which has another key")
	}
	return k, t, nil
}

func decodeOwners(at string, records []ownerRecord, live tree) ([]owner, error) {
	owners := make([]owner, len(records))
	for i, r := range records {
		owners[i] = owner{r.Manager, live}
		if r.Applied == nil {
			continue
		}
		applied, err := decodeTree(at, r.Applied)
		if err != nil {
			return nil, err
		}
		owners[i].applied = applied
	}
	return owners, nil
}
