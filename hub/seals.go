package hub

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
)

// annotationSeal holds the seal of an object that the hub made, annotationPolicies that version of the admission
// policies under which a request was made.
const (
	annotationSeal     = "slipway.dev/seal"
	annotationPolicies = "slipway.dev/policies"
)

// proof is what the seal of a request proves: that a hub of this store made it, and for what.
type proof struct {
	// Run is the UID of the object of the run.
	Run     types.UID
	Binding approval.Binding
	// Policies is the version of the admission policies that were in force, "" where there were none.
	Policies string
}

// seal gives an object the annotations that prove that the hub made it for p: an HMAC, by a key that is in the store.
// A request that was made by others, before the gate is reached or as a copy under another name, cannot have it.
func (s *service) seal(ctx context.Context, obj *unstructured.Unstructured, p *proof) error {
	text, err := s.sealOf(ctx, requestFacts(obj, p))
	if err != nil {
		return err
	}
	annotations := map[string]string{annotationSeal: text}
	if p.Policies != "" {
		annotations[annotationPolicies] = p.Policies
	}
	obj.SetAnnotations(annotations)
	return nil
}

// requestFacts are what the seal of a request is about: p, and what the object says of itself.
func requestFacts(obj *unstructured.Unstructured, p *proof) []any {
	return []any{"request", obj.GetNamespace(), obj.GetName(), specString(obj, "parentStageRollout"), p}
}

// proofOf returns what the seal of a request proves, nil where the object has none or was changed since.
func (s *service) proofOf(ctx context.Context, obj *unstructured.Unstructured) (*proof, error) {
	has := obj.GetAnnotations()[annotationSeal]
	owner := metav1.GetControllerOfNoCopy(obj)
	if has == "" || owner == nil {
		return nil, nil
	}
	var spec approvalSpec
	if fromMap(obj, "spec", &spec) != nil {
		return nil, nil //nolint:nilerr // no hub wrote that
	}
	sealing, err := s.sealingKey(ctx)
	if err != nil {
		return nil, err
	}
	for _, when := range []approval.When{approval.Before, approval.After} {
		p := &proof{Run: owner.UID, Policies: obj.GetAnnotations()[annotationPolicies], Binding: approval.Binding{
			RunUID: spec.RunUID, Stage: spec.Stage, When: when, Attempt: int(spec.Attempt), Plan: spec.Plan,
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

// isOfAnother reports whether an object is the request of another run that is there.
func (s *service) isOfAnother(obj *unstructured.Unstructured, p *proof, run *unstructured.Unstructured) bool {
	if p == nil || p.Run == run.GetUID() {
		return false
	}
	k := key{Namespace: obj.GetNamespace(), Name: specString(obj, "parentStageRollout")}
	owner := s.seen(scopeOf(k).gvr(runKind), k)
	return owner != nil && owner.GetUID() == p.Run
}

// sealOf is an HMAC of anything.
func (s *service) sealOf(ctx context.Context, about []any) (string, error) {
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

// sealKey is the record of the key by which requests are sealed.
const sealKey = "hub/seal"

// sealingKey returns that key, and makes it where there is none.
func (s *service) sealingKey(ctx context.Context) ([]byte, error) {
	rec, err := s.store.Get(ctx, sealKey)
	if !errors.Is(err, backend.ErrNotFound) {
		return rec.Value, err
	}
	fresh := make([]byte, sha256.Size)
	if _, err := rand.Read(fresh); err != nil {
		return nil, err
	}
	if _, err = s.store.Put(ctx, sealKey, fresh, ""); err != nil && !errors.Is(err, backend.ErrConflict) {
		return nil, err
	}
	rec, err = s.store.Get(ctx, sealKey)
	return rec.Value, err
}
