package store

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
)

// Put writes value if the revision of key is prev. See [backend.Store].
func (s *Store) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	rev, err := s.put(ctx, key, value, prev)
	if err != nil {
		return "", api.ClassifyRecord("put", key, err)
	}
	return rev, nil
}

func (s *Store) put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if err := admit(ctx, key, value); err != nil {
		return "", err
	}
	secret := newRecord(s.namespace, key, value)
	send := s.create
	if prev != "" {
		var err error
		if secret.ResourceVersion, secret.UID, err = readRevision(prev); err != nil {
			return "", fmt.Errorf("%w: revision %.80q: %w", backend.ErrConflict, prev, err)
		}
		send = s.api.update
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	ctx, sent := withSends(ctx)
	made, err := send(ctx, secret)
	if err != nil {
		return s.settle(ctx, secret, sent, err)
	}
	return revisionOf(made), nil
}

// create creates a Secret, and the namespace if it is missing.
func (s *Store) create(ctx context.Context, secret *corev1.Secret) (*metav1.PartialObjectMetadata, error) {
	made, err := s.api.create(ctx, secret)
	if !apierrors.IsNotFound(err) {
		return made, err
	}
	if err := s.ensureNamespace(ctx); err != nil {
		return nil, api.Classify("create", "namespace "+s.namespace, err)
	}
	return s.api.create(ctx, secret)
}

// settle interprets a refusal of a write. A request may be sent more than once, by client-go or
// on its way: the first may have been carried out, and the second be refused because of the
// first. The mark of the write in the record decides; if another writer has written since, the
// outcome is unknown.
func (s *Store) settle(ctx context.Context, secret *corev1.Secret, sent *sends, refusal error) (backend.Revision, error) {
	if !apierrors.IsConflict(refusal) && !apierrors.IsAlreadyExists(refusal) && !apierrors.IsNotFound(refusal) {
		return "", refusal
	}
	repeated := sent.unknown.Load() // reading the record is no send of the write
	now, err := s.api.get(ctx, secret.Name)
	switch {
	case err == nil && now.Annotations[writeAnnotation] == secret.Annotations[writeAnnotation]:
		return revisionOf(now), nil
	case repeated:
		return "", outcomeUnknown(refusal)
	case apierrors.IsAlreadyExists(refusal):
		return "", refusal // the record existed, although it may be deleted now
	case isAsDemanded(secret, now, err):
		return "", fmt.Errorf("it was refused, although the record has the expected revision (%s)", api.Describe(true, refusal))
	case apierrors.IsNotFound(refusal) && secret.UID != "":
		return "", fmt.Errorf("%w: it is gone", backend.ErrConflict)
	case apierrors.IsNotFound(refusal):
		return "", fmt.Errorf("namespace %s was deleted in between", s.namespace)
	}
	return "", refusal
}

// isAsDemanded reports whether the record, read as now and err, meets the precondition of a
// write: then the refusal had another reason, such as a conflict about a quota.
func isAsDemanded(secret, now *corev1.Secret, err error) bool {
	if secret.UID == "" {
		return apierrors.IsNotFound(err)
	}
	return err == nil && revisionOf(now) == revisionOf(secret)
}

// Delete removes key if its revision is prev. See [backend.Store].
func (s *Store) Delete(ctx context.Context, key string, prev backend.Revision) error {
	return api.ClassifyRecord("delete", key, s.remove(ctx, key, prev))
}

func (s *Store) remove(ctx context.Context, key string, prev backend.Revision) error {
	resourceVersion, uid, err := readRevision(prev)
	if err != nil {
		if _, err := s.load(ctx, key); err != nil {
			return err
		}
		return fmt.Errorf("%w: revision %.80q: %w", backend.ErrConflict, prev, err)
	}
	if err := admit(ctx, key, nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	ctx, sent := withSends(ctx)
	err = s.api.remove(ctx, recordName(key), resourceVersion, uid)
	if (apierrors.IsNotFound(err) || apierrors.IsConflict(err)) && sent.unknown.Load() {
		return outcomeUnknown(err)
	}
	return err
}

// outcomeUnknown turns a refusal into an error of no kind.
func outcomeUnknown(refusal error) error {
	return fmt.Errorf("it may have happened: the request was repeated and then refused (%s)", api.Describe(true, refusal))
}

// sends records the outcome of the sends of one request.
type sends struct {
	// unknown reports whether the server may have carried the request out without confirming it.
	unknown atomic.Bool
}

type sendsKey struct{}

func withSends(ctx context.Context) (context.Context, *sends) {
	s := &sends{}
	return context.WithValue(ctx, sendsKey{}, s), s
}

// countSends wraps a transport so that it records the sends of a context.
func countSends(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if s, ok := r.Context().Value(sendsKey{}).(*sends); ok && (err != nil || resp.StatusCode >= http.StatusInternalServerError) {
			s.unknown.Store(true)
		}
		return resp, err
	})
}

type roundTripper func(r *http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
