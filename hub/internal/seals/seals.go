// Package seals proves which objects a hub made.
package seals

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
)

// Seals proves that a hub of a store made an object, by a key in the store. Its methods may be
// called concurrently.
type Seals struct {
	Store backend.Store

	mu sync.Mutex
	// key is the key at its last read, and read is the time of that read.
	key  []byte
	read time.Time
}

// keyAge limits the age of the cached key. The key never changes, unless the store is restored.
const keyAge = 10 * time.Second

// IsOf reports whether a run of the engine belongs to obj. An ordinary run belongs to the object
// whose UID is its owner, a rollback to the object with its seal.
func (s *Seals) IsOf(ctx context.Context, obj *unstructured.Unstructured, st fleet.Status) (bool, error) {
	if st.Plan.Rollback == nil {
		return st.Owner == string(obj.GetUID()), nil
	}
	seal, err := s.OfRollback(ctx, api.KeyOf(obj), st.Run.UID)
	return err == nil && hmac.Equal([]byte(obj.GetAnnotations()[api.AnnotationSeal]), []byte(seal)), err
}

// OfRollback returns the seal of the object of a rollback.
func (s *Seals) OfRollback(ctx context.Context, k api.Key, uid string) (string, error) {
	return s.Of(ctx, []any{"rollback", k.Namespace, k.Name, uid})
}

// Proof is the statement that the seal of a request proves: a hub of this store made the request,
// for this run, gate and policies.
type Proof struct {
	// Run is the UID of the object of the run.
	Run     types.UID
	Binding approval.Binding
	// Policies is the version of the admission policies in force at that time, "" if there were
	// none.
	Policies string
}

// Sign sets the annotations that prove that the hub made obj for p: an HMAC, by a key in the
// store. A request that another client made, before the gate is reached or as a copy under
// another name, cannot have it.
func (s *Seals) Sign(ctx context.Context, obj *unstructured.Unstructured, p *Proof) error {
	text, err := s.Of(ctx, requestFacts(obj, p))
	if err != nil {
		return err
	}
	annotations := map[string]string{api.AnnotationSeal: text}
	if p.Policies != "" {
		annotations[api.AnnotationPolicies] = p.Policies
	}
	obj.SetAnnotations(annotations)
	return nil
}

// requestFacts returns the facts that the seal of a request covers: p, and the name, namespace
// and run in the object.
func requestFacts(obj *unstructured.Unstructured, p *Proof) []any {
	return []any{"request", obj.GetNamespace(), obj.GetName(), api.RunOfRequest(obj), p}
}

// ProofOf returns the proof in the seal of a request, nil if the object has no seal or was
// changed since.
func (s *Seals) ProofOf(ctx context.Context, obj *unstructured.Unstructured) (*Proof, error) {
	has := obj.GetAnnotations()[api.AnnotationSeal]
	owner := metav1.GetControllerOfNoCopy(obj)
	if has == "" || owner == nil {
		return nil, nil
	}
	var spec v1beta1.ApprovalRequestSpec
	if api.FromMap(obj, "spec", &spec) != nil {
		return nil, nil //nolint:nilerr // no hub writes an unreadable spec
	}
	sealing, err := s.sealingKey(ctx)
	if err != nil {
		return nil, err
	}
	for _, when := range []approval.When{approval.Before, approval.After} {
		p := &Proof{Run: owner.UID, Policies: obj.GetAnnotations()[api.AnnotationPolicies], Binding: approval.Binding{
			RunUID: spec.RunUID, Stage: spec.TargetStage, When: when, Attempt: int(spec.Attempt), Plan: spec.PlanDigest,
		}}
		want, err := sealBy(sealing, requestFacts(obj, p))
		if err != nil {
			return nil, err
		}
		if hmac.Equal([]byte(has), []byte(want)) {
			return p, nil
		}
	}
	return nil, nil
}

// Of returns an HMAC of any values.
func (s *Seals) Of(ctx context.Context, about []any) (string, error) {
	sealing, err := s.sealingKey(ctx)
	if err != nil {
		return "", err
	}
	return sealBy(sealing, about)
}

func sealBy(sealing []byte, about []any) (string, error) {
	text, err := json.Marshal(about)
	if err != nil {
		return "", err
	}
	sum := hmac.New(sha256.New, sealing)
	sum.Write(text)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// sealKey is the key of the record with the HMAC key.
const sealKey = "hub/seal"

// sealingKey returns the key in the store, from a cache that is at most keyAge old.
func (s *Seals) sealingKey(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	key, fresh := s.key, time.Since(s.read) < keyAge
	s.mu.Unlock()
	if fresh {
		return key, nil
	}
	began := time.Now()
	key, err := s.storedKey(ctx)
	if err == nil {
		s.mu.Lock()
		s.key, s.read = key, began
		s.mu.Unlock()
	}
	return key, err
}

// storedKey returns the key in the store, and makes it if there is none.
func (s *Seals) storedKey(ctx context.Context) ([]byte, error) {
	rec, err := s.Store.Get(ctx, sealKey)
	if !errors.Is(err, backend.ErrNotFound) {
		return rec.Value, err
	}
	fresh := make([]byte, sha256.Size)
	if _, err := rand.Read(fresh); err != nil {
		return nil, err
	}
	if _, err = s.Store.Put(ctx, sealKey, fresh, ""); err != nil && !errors.Is(err, backend.ErrConflict) {
		return nil, err
	}
	rec, err = s.Store.Get(ctx, sealKey)
	return rec.Value, err
}
