package hub

import (
	"context"
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
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// asking is what came of making a run's requests.
type asking struct {
	// again is when the run is to be asked for again; 0 is when something changes.
	again time.Duration
	// held are the requests that have no object yet, because their name is taken.
	held []heldRequest
}

// heldRequest is a gate whose request has no object, and why.
type heldRequest struct {
	Stage string
	When  approval.When
	Why   string
}

// syncRequests makes an object of each request that the run has open, takes in
// what people answered, and tells in the objects what became of it.
func (s *service) syncRequests(ctx context.Context, k key, run *unstructured.Unstructured, status fleet.Status) (asking, error) {
	var out asking
	open := requestsOfStages(stages.Requests(status.Plan, &status.Run))
	for i := range open {
		if err := s.ask(ctx, k, run, &open[i], &out); err != nil {
			return out, err
		}
	}
	for _, obj := range s.requestsOf(k) {
		if err := s.conclude(ctx, k, run, obj, status); err != nil {
			return out, err
		}
	}
	return out, nil
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

// ask makes the object of a request, or takes in the answer that it has. An object of that name which is not the
// engine's request, because it was there before or is of an earlier attempt, is deleted: no answer in it counts. The
// request of another run is left, and this one waits for it to go.
func (s *service) ask(ctx context.Context, k key, run *unstructured.Unstructured, request *approval.Request, out *asking) error {
	have := s.object(scopeOf(k).gvr(approvalKind), key{Namespace: k.Namespace, Name: approval.RequestName(k.Name, request.Stage, request.When)})
	answered := have != nil && (len(untaken(have, request.Decisions)) > 0 || len(otherGenerations(have)) > 0)
	known := s.vouched.Load()
	var v vouching
	var err error
	if have != nil && !answered && known != nil {
		v = *known // no answer is judged by it
	} else if v, err = s.vouching(ctx); err != nil { // after the answer was read, or the policies could change in between
		return err
	}
	want, err := s.requestObject(ctx, k, run, request, v.version)
	if err != nil {
		return err
	}
	if have == nil {
		if v.settling > 0 {
			out.again = v.settling
			return nil
		}
		if have, err = s.create(ctx, k, want); err != nil || have == nil {
			return err
		}
	}
	seal, err := s.proofOf(ctx, have)
	if err != nil {
		return err
	}
	ours := seal != nil && seal.Run == run.GetUID() && seal.Binding == request.Binding && reflect.DeepEqual(have.Object["spec"], want.Object["spec"])
	switch {
	case !ours && s.isOfAnother(have, seal, run):
		held := heldBy(have, seal, request)
		s.notes.warn(run, "RequestNameTaken", "%s", held.Why)
		out.held = append(out.held, held)
		return nil
	case !ours && seal != nil && seal.Run == run.GetUID() && seal.Binding.Attempt < request.Attempt:
		return s.removeRequest(ctx, run, have, request.Decisions, fmt.Sprintf("it is attempt %d, which has expired, and run %s asks for the attempt %d", seal.Binding.Attempt, k.Name, request.Attempt))
	case !ours:
		return s.removeRequest(ctx, run, have, request.Decisions, "it is not the request that run "+k.Name+" made")
	case v.lost != "":
		return s.unheard(ctx, k, run, have, v.lost)
	case seal.Policies != v.version, conditionOf(have, conditionAccepted).Reason == reasonUnvouched:
		return s.removeRequest(ctx, run, have, request.Decisions, "the admission policies that say who may answer were installed or changed since it was made")
	case !answered:
		return nil
	case v.settling > 0:
		out.again = v.settling
		return nil
	}
	return s.takeAnswer(ctx, k, have, request, v.identity)
}

// requestObject is the object of a request, sealed.
func (s *service) requestObject(ctx context.Context, k key, run *unstructured.Unstructured, request *approval.Request, policies string) (*unstructured.Unstructured, error) {
	want, err := approvalObject(&approvalFacts{Run: k.Name, Namespace: k.Namespace, RunUID: run.GetUID(), Request: request})
	if err != nil {
		return nil, err
	}
	return want, s.seal(ctx, want, &proof{Run: run.GetUID(), Binding: request.Binding, Policies: policies})
}

// create creates the object of a request, or returns the one that has its name and that the cache did not have yet.
func (s *service) create(ctx context.Context, k key, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	requests := s.client.Resource(scopeOf(k).gvr(approvalKind)).Namespace(k.Namespace)
	_, err := requests.Create(ctx, want, metav1.CreateOptions{FieldManager: manager})
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	have, err := requests.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, settled(err)
	case have.GetAnnotations()[annotationSeal] == want.GetAnnotations()[annotationSeal]:
		return nil, nil // the watch will tell of it
	}
	return have, nil
}

// heldBy says why a request has no object: its name is that of the request of another run.
func heldBy(have *unstructured.Unstructured, seal *proof, request *approval.Request) heldRequest {
	theirs, other := gateName{seal.Binding.Stage, seal.Binding.When}, specString(have, "parentStageRollout")
	return heldRequest{request.Stage, request.When, fmt.Sprintf(
		"the request %s has the name %s of that of run %s %s, and is made when that is gone: delete run %s when it has ended",
		gateName{request.Stage, request.When}, have.GetName(), other, theirs, other)}
}

// side is "before" or "after".
func side(when approval.When) string { return strings.ToLower(string(when)) }

// unheard says in a request that no answer to it counts.
func (s *service) unheard(ctx context.Context, k key, run, obj *unstructured.Unstructured, why string) error {
	if conditionOf(obj, conditionAccepted).Message != why {
		s.notes.warn(run, reasonUnvouched, "request %s: %s", obj.GetName(), why)
	}
	return s.writeCondition(ctx, k, obj, unvouchedCondition(obj.GetGeneration(), why, time.Now()))
}

// conclude tells in the object of a request that was decided what came of it.
func (s *service) conclude(ctx context.Context, k key, run, obj *unstructured.Unstructured, status fleet.Status) error {
	if isConcluded(obj) {
		return nil
	}
	seal, err := s.proofOf(ctx, obj)
	if err != nil || seal == nil || seal.Run != run.GetUID() {
		return err
	}
	g := gateAt(&status, seal.Binding)
	if g == nil {
		return nil
	}
	switch g.State {
	case stages.Completed:
		return s.writeCondition(ctx, k, obj, acceptedCondition(obj.GetGeneration(), g.Ended.Time()))
	case stages.Failed:
		return s.writeCondition(ctx, k, obj, rejectedCondition(obj.GetGeneration(), decidedBy(g), g.Ended.Time()))
	case stages.Skipped:
		if lost := untaken(obj, g.Decisions); len(lost) > 0 {
			why := fmt.Sprintf("the request is not needed any more, and no answer to it counts: run %s is %s", k.Name, status.Run.State)
			return s.writeCondition(ctx, k, obj, refusedCondition(obj.GetGeneration(), why, g.Ended.Time()))
		}
	default:
	}
	return nil
}

// gateAt is the approval that a request was made for, nil where the run has none.
func gateAt(status *fleet.Status, b approval.Binding) *stages.Gate {
	if b.RunUID != status.Run.UID || b.Plan != status.Plan.Digest || b.Group != "" {
		return nil
	}
	for i := range status.Run.Stages {
		for j := range status.Run.Stages[i].Gates {
			g := &status.Run.Stages[i].Gates[j]
			if g.Type == stages.Approval && status.Plan.Stages[i].Name == b.Stage && g.When == b.When && g.Attempt == b.Attempt {
				return g
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

// removeRequest deletes an object that has the name of a request and is none, or not any more. The request is made
// again when its deletion is seen. What was answered in it and is not among the decisions that were taken is told.
func (s *service) removeRequest(ctx context.Context, run, obj *unstructured.Unstructured, taken []approval.Decision, why string) error {
	s.notes.warn(obj, "RequestNotHonoured", "%s: it is deleted, and what was answered in it does not count", why)
	err := s.client.Resource(scopeOf(keyOf(obj)).gvr(approvalKind)).Namespace(obj.GetNamespace()).Delete(ctx, obj.GetName(), asRead(obj))
	if err == nil {
		s.tellUntaken(ctx, run, obj, taken, why)
	}
	return settled(err)
}

// tellUntaken writes as Events, on a request that is deleted and on its run, whose answers in it do not count.
func (s *service) tellUntaken(ctx context.Context, run, obj *unstructured.Unstructured, taken []approval.Decision, why string) {
	lost := untaken(obj, taken)
	if len(lost) == 0 {
		return
	}
	seal, err := s.proofOf(ctx, obj)
	v, problem := s.vouching(ctx)
	vouched := err == nil && problem == nil && v.identity && seal != nil && seal.Policies == v.version
	for _, a := range lost {
		author := a.By.Name
		switch {
		case author == "":
			author = "an unknown author"
		case !vouched:
			author += " (as the request says, for which nothing vouches)"
		}
		for _, about := range []*unstructured.Unstructured{run, obj} {
			s.notes.warn(about, "AnswerNotCounted", "request %s is deleted: %s; the answer %s by %s was not taken in and does not count", obj.GetName(), why, a.Verdict, author)
		}
	}
}

// takeAnswer gives the engine the answers that an object has, with who gave them.
func (s *service) takeAnswer(ctx context.Context, k key, obj *unstructured.Unstructured, request *approval.Request, stamped bool) error {
	answers, err := answersOf(obj, stamped)
	if err != nil {
		return err
	}
	refusals := otherGenerations(obj)
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
