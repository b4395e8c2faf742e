package hub

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// syncRequests makes an object of each request that the run has open, takes in
// what people answered, and tells in the objects what became of it.
func (s *service) syncRequests(ctx context.Context, k key, run *unstructured.Unstructured, status fleet.Status) error {
	open := requestsOfStages(stages.Requests(status.Plan, &status.Run))
	for i := range open {
		if err := s.ask(ctx, k, run, &open[i]); err != nil {
			return err
		}
	}
	for _, obj := range s.requestsOf(k) {
		if err := s.conclude(ctx, k, obj, status); err != nil {
			return err
		}
	}
	return nil
}

// requestsOfStages leaves out the requests of groups: no strategy of the API has
// any, and an object of one would pass for that of its stage.
func requestsOfStages(open []approval.Request) []approval.Request {
	return slices.DeleteFunc(open, func(r approval.Request) bool { return r.Group != "" })
}

// requestsOf returns the objects of a run's requests as they were last seen.
func (s *service) requestsOf(k key) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, obj := range s.all(scopeOf(k).gvr(approvalKind)) {
		if obj.GetNamespace() == k.Namespace && specString(obj, "parentStageRollout") == k.Name {
			out = append(out, obj.DeepCopy())
		}
	}
	return out
}

// ask makes the object of a request, or takes in the answer that it has. An
// object of that name which is not the engine's request, because somebody made it
// before or it is of an earlier attempt, is deleted: no answer in it counts.
func (s *service) ask(ctx context.Context, k key, run *unstructured.Unstructured, request *approval.Request) error {
	want, err := s.requestObject(ctx, k, run, request)
	if err != nil {
		return err
	}
	have := s.object(scopeOf(k).gvr(approvalKind), keyOf(want))
	switch {
	case have == nil:
		_, err := s.client.Resource(scopeOf(k).gvr(approvalKind)).Namespace(k.Namespace).Create(ctx, want, metav1.CreateOptions{FieldManager: manager})
		if apierrors.IsAlreadyExists(err) {
			return s.askedBefore(ctx, k, want)
		}
		return err
	case !isOurs(have, want):
		return s.removeRequest(ctx, k, have)
	}
	stamped, since, err := s.stamped(ctx, have)
	switch {
	case err != nil:
		return err
	case !stamped && !since.IsZero() && !anybodyMayDecide(request.Policy):
		return s.removeRequest(ctx, k, have) // it was asked before anybody vouched for answers
	}
	return s.takeAnswer(ctx, k, have, request, stamped)
}

// requestObject is the object of a request, sealed.
func (s *service) requestObject(ctx context.Context, k key, run *unstructured.Unstructured, request *approval.Request) (*unstructured.Unstructured, error) {
	want, err := approvalObject(&approvalFacts{Run: k.Name, Namespace: k.Namespace, RunUID: run.GetUID(), Request: request})
	if err != nil {
		return nil, err
	}
	seal, err := s.seal(ctx, run, request.Binding)
	if err != nil {
		return nil, err
	}
	want.SetAnnotations(map[string]string{annotationSeal: seal})
	return want, nil
}

// conclude tells in the object of a request that was decided what came of it.
func (s *service) conclude(ctx context.Context, k key, obj *unstructured.Unstructured, status fleet.Status) error {
	for i := range status.Run.Stages {
		for j := range status.Run.Stages[i].Gates {
			g := &status.Run.Stages[i].Gates[j]
			if g.Type != stages.Approval || approval.RequestName(k.Name, status.Plan.Stages[i].Name, g.When) != obj.GetName() {
				continue
			}
			switch g.State {
			case stages.Completed:
				return s.writeCondition(ctx, k, obj, acceptedCondition(obj.GetGeneration(), g.Ended.Time()))
			case stages.Failed:
				return s.writeCondition(ctx, k, obj, rejectedCondition(obj.GetGeneration(), decidedBy(g), g.Ended.Time()))
			default:
			}
		}
	}
	return nil
}

// decidedBy names who decided last at a gate.
func decidedBy(g *stages.Gate) string {
	if len(g.Decisions) == 0 {
		return "nobody"
	}
	return g.Decisions[len(g.Decisions)-1].By.Name
}

// writeCondition writes one condition of a request, and leaves what others wrote.
func (s *service) writeCondition(ctx context.Context, k key, obj *unstructured.Unstructured, c metav1.Condition) error {
	status, err := withCondition(obj, c)
	if err != nil || status == nil {
		return err
	}
	obj.Object["status"] = status
	_, err = s.client.Resource(scopeOf(k).gvr(approvalKind)).Namespace(k.Namespace).UpdateStatus(ctx, obj, metav1.UpdateOptions{FieldManager: manager})
	return settled(err)
}

// askedBefore looks at an object that the cache did not have yet.
func (s *service) askedBefore(ctx context.Context, k key, want *unstructured.Unstructured) error {
	have, err := s.client.Resource(scopeOf(k).gvr(approvalKind)).Namespace(k.Namespace).Get(ctx, want.GetName(), metav1.GetOptions{})
	if err != nil || isOurs(have, want) {
		return settled(err)
	}
	return s.removeRequest(ctx, k, have)
}

// isOurs tells that an object is the engine's request: it quotes what only this
// hub could compute, see [service.seal].
func isOurs(have, want *unstructured.Unstructured) bool {
	seal := want.GetAnnotations()[annotationSeal]
	return hmac.Equal([]byte(have.GetAnnotations()[annotationSeal]), []byte(seal)) &&
		reflect.DeepEqual(have.Object["spec"], want.Object["spec"])
}

// annotationSeal holds the seal of a request.
const annotationSeal = "slipway.dev/seal"

// seal returns what nobody else can compute for a request: an HMAC of what it is
// about, by a key that is in the store. A request that somebody makes before the
// gate is reached cannot have it.
func (s *service) seal(ctx context.Context, run *unstructured.Unstructured, b approval.Binding) (string, error) {
	return s.sealOf(ctx, []any{run.GetUID(), b})
}

// sealOf is an HMAC of anything.
func (s *service) sealOf(ctx context.Context, about []any) (string, error) {
	sealing, err := s.sealingKey(ctx)
	if err != nil {
		return "", err
	}
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

// removeRequest deletes an object that has the name of a request and is none. It
// is made anew when its deletion is seen.
func (s *service) removeRequest(ctx context.Context, k key, obj *unstructured.Unstructured) error {
	s.notes.warn(obj, "RequestNotHonoured", "this is not the request that run %s made: it is deleted, and what was answered in it does not count", k.Name)
	err := s.client.Resource(scopeOf(k).gvr(approvalKind)).Namespace(k.Namespace).Delete(ctx, obj.GetName(), exactly(obj))
	return settled(err)
}

// takeAnswer gives the engine the answers that an object has, with who gave them.
func (s *service) takeAnswer(ctx context.Context, k key, obj *unstructured.Unstructured, request *approval.Request, stamped bool) error {
	answers, err := answersOf(obj, stamped)
	if err != nil {
		return err
	}
	var refusals []string
	for _, a := range answers {
		refusal, err := s.decide(ctx, obj, request, a)
		if err != nil {
			return err
		}
		if refusal != "" && !slices.Contains(refusals, refusal) {
			refusals = append(refusals, refusal)
		}
	}
	if len(refusals) == 0 {
		return nil
	}
	return s.writeCondition(ctx, k, obj, refusedCondition(obj.GetGeneration(), strings.Join(refusals, "; "), time.Now()))
}

// decide gives the engine one answer, once, and returns why it does not count, if
// so.
func (s *service) decide(ctx context.Context, obj *unstructured.Unstructured, request *approval.Request, a answer) (refused string, err error) {
	if a.By.Name == "" && anybodyMayDecide(request.Policy) {
		a.By = anybody()
	}
	err = s.engine.Decide(ctx, request.Run, fleet.Answer{
		Request: request.Name, Verdict: a.Verdict, By: a.By, Comment: a.Comment, Binding: request.Binding, ID: answerID(obj, request, a),
	})
	var refusal *approval.RefusedError
	switch {
	case errors.As(err, &refusal):
		return unvouched(a, refusal.Reason), nil
	case errors.Is(err, backend.ErrNotFound), errors.Is(err, backend.ErrConflict):
		return "", nil // the gate has been passed meanwhile, or the answer is there already
	}
	return "", err
}

// answerID is the same for the same answer to the same request.
func answerID(obj *unstructured.Unstructured, request *approval.Request, a answer) string {
	who := snapshot.Digest([]byte(string(a.Verdict) + "/" + a.By.Name))
	return fmt.Sprintf("%s-%d-%s", obj.GetUID(), request.Attempt, who[:16])
}

// unvouched says why an answer does not count, and where it is because nobody
// knows whose it is, what would help.
func unvouched(a answer, reason string) string {
	if a.By.Name != "" {
		return a.By.Name + ": " + reason
	}
	return "the approval policy asks who answers, and nothing on this server tells: install the admission policies of package hub/manifests, and answer again"
}

// stamped tells that the API server wrote into a request who answered it, or into a
// run who made it, and since when it does so, zero where it does not.
func (s *service) stamped(ctx context.Context, obj *unstructured.Unstructured) (stamped bool, since time.Time, err error) {
	since, err = manifests.InForceSince(ctx, s.kube)
	return !since.IsZero() && obj.GetCreationTimestamp().After(since), since, err
}

// starter is who made a run, as the API server stamped it.
func (s *service) starter(ctx context.Context, run *unstructured.Unstructured) (approval.Identity, error) {
	stamped, _, err := s.stamped(ctx, run)
	if err != nil || !stamped {
		return approval.Identity{}, err
	}
	return manifests.Creator(run), nil
}
