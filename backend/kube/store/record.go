package store

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/backend"
)

// The errors of a record, for [errors.Is].
var (
	// ErrDamaged: the Secret does not have the content that was written. It is also ErrPermanent.
	ErrDamaged = fmt.Errorf("the record is damaged: %w", backend.ErrPermanent)
	// ErrNewer: a newer version of this package wrote the record. It is also
	// ErrPermanent.
	ErrNewer = fmt.Errorf("a newer version wrote the record: %w", backend.ErrPermanent)
)

// recordType is the type of the Secrets that are records.
const recordType corev1.SecretType = "slipway.dev/record"

// recordFormat is the version of the records that this package writes.
const recordFormat = 1

// The parts of a record.
const (
	keyAnnotation    = "slipway.dev/key"
	formatAnnotation = "slipway.dev/format"
	sumAnnotation    = "slipway.dev/sum"
	// writeAnnotation distinguishes the writes of a record: without it an update with the same value
	// would keep the resourceVersion, and a write with unknown outcome could not be recognized.
	writeAnnotation = "slipway.dev/write"
	valueField      = "value"
)

// newRecord returns the Secret of a record, for one write of it.
func newRecord(namespace, key string, value []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: recordName(key), Labels: labelsOf(key),
			Annotations: map[string]string{
				keyAnnotation:    key,
				formatAnnotation: strconv.Itoa(recordFormat),
				sumAnnotation:    sumOf(key, value),
				writeAnnotation:  rand.Text(),
			},
		},
		Type: recordType,
		Data: map[string][]byte{valueField: value},
	}
}

// sumOf returns the checksum of a record. No key contains the byte 0, so key and value cannot be
// confused.
func sumOf(key string, value []byte) string {
	h := sha256.New()
	h.Write(append([]byte(key), 0))
	h.Write(value)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// readRecord returns the record in a Secret; they share the value.
func readRecord(s *corev1.Secret) (backend.Record, error) {
	key, err := keyOf(s)
	if err != nil {
		return backend.Record{}, err
	}
	value, ok := s.Data[valueField]
	switch {
	case s.Type != recordType:
		return backend.Record{}, damaged(s, fmt.Sprintf("its type is %.80q, not %q", s.Type, recordType))
	case !ok || len(s.Data) != 1:
		return backend.Record{}, damaged(s, fmt.Sprintf("its data has %d fields, not only %q", len(s.Data), valueField))
	case s.Annotations[sumAnnotation] != sumOf(key, value):
		return backend.Record{}, damaged(s, "its checksum is another one")
	}
	if value == nil {
		value = []byte{}
	}
	return backend.Record{Key: key, Value: value, Revision: revisionOf(s)}, nil
}

// keyOf returns the key of the record with this metadata. It reads the format first, because an
// unknown format may have the key elsewhere.
func keyOf(m metav1.Object) (string, error) {
	format, err := strconv.Atoi(m.GetAnnotations()[formatAnnotation])
	switch {
	case err != nil || format < 1:
		return "", damaged(m, fmt.Sprintf("its annotation %s is %.80q, not a version", formatAnnotation, m.GetAnnotations()[formatAnnotation]))
	case format > recordFormat:
		return "", about(m, fmt.Errorf("%w: it has format %d, this version reads up to %d", ErrNewer, format, recordFormat))
	}
	key := m.GetAnnotations()[keyAnnotation]
	if backend.ValidateKey(key) != nil || recordName(key) != m.GetName() {
		return "", damaged(m, fmt.Sprintf("its annotation %s is %.80q, which is not the key of this name", keyAnnotation, key))
	}
	return key, nil
}

func damaged(m metav1.Object, what string) error {
	return about(m, fmt.Errorf("%w: %s", ErrDamaged, what))
}

// about adds the names of the damaged object, because a listed record has no other
// identification.
func about(m metav1.Object, err error) error {
	return fmt.Errorf("record in Secret %s/%s (key %.80q): %w", m.GetNamespace(), m.GetName(), m.GetAnnotations()[keyAnnotation], err)
}

// revisionOf returns the revision of a record: the uid of its Secret and the resourceVersion.
func revisionOf(m metav1.Object) backend.Revision {
	return backend.Revision(m.GetResourceVersion() + "." + string(m.GetUID()))
}

// errNoRevision reports that a store of this package never issued a revision.
var errNoRevision = errors.New("no record has such a revision")

// readRevision is the inverse of revisionOf. It returns only numbers that a server issues,
// because a write without resourceVersion, or with 0, would overwrite any object.
func readRevision(r backend.Revision) (resourceVersion string, uid types.UID, err error) {
	resourceVersion, id, ok := strings.Cut(string(r), ".")
	if n, err := strconv.ParseUint(resourceVersion, 10, 64); err != nil || n == 0 || resourceVersion[0] == '0' || !ok || id == "" {
		return "", "", errNoRevision
	}
	return resourceVersion, types.UID(id), nil
}
