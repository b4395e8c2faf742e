// Package requests reconciles the approval requests of runs.
package requests

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
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/policies"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/hub/internal/seals"
	"github.com/slipway-dev/slipway/hub/internal/status"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Requests creates the objects of the approvals that runs wait for, passes the answers in them to
// the engine, and writes the outcome of the answers into them. It owns the ApprovalRequests of both
// scopes.
type Requests struct {
	*objects.Client
	Engine   *fleet.Engine
	Seals    *seals.Seals
	Policies *policies.Policies
	Queues   *queues.Queues
}

// Result is the result of reconciling the requests of a run.
type Result struct {
	// Again is the time until the run must be reconciled again; 0 means only when something
	// changes.
	Again time.Duration
	// Blocked are the requests that have no object yet, because their name is taken.
	Blocked []status.BlockedRequest
	// Taken reports whether the engine has accepted an answer that is not part of the run yet. The
	// engine adds it immediately.
	Taken bool
}

// Reconcile creates an object for each open request of the run, and takes in the answers.
func (r *Requests) Reconcile(ctx context.Context, k api.Key, run *unstructured.Unstructured, st fleet.Status) (Result, error) {
	var out Result
	open := status.RequestsOfStages(step.Requests(st.Plan, &st.Run))
	for i := range open {
		if err := r.ask(ctx, k, run, &open[i], &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// ReportOutcomes writes the outcome into the objects of the requests that were decided and do not
// show it.
func (r *Requests) ReportOutcomes(ctx context.Context, k api.Key, run *unstructured.Unstructured, st fleet.Status) error {
	for _, obj := range r.RequestsOf(k) {
		if err := r.reportOutcome(ctx, k, run, obj, st); err != nil {
			return err
		}
	}
	return nil
}

// RequestsOf returns copies of the request objects of a run, from the cache.
func (r *Requests) RequestsOf(k api.Key) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, obj := range r.All(api.ScopeOf(k).GVR(api.ApprovalKind)) {
		if obj.GetNamespace() == k.Namespace && api.RunOfRequest(obj) == k.Name {
			out = append(out, obj.DeepCopy())
		}
	}
	return out
}

// ask creates the object of a request, or takes in the answers in it. It deletes an object of that
// name that is not the engine's request, because it is older or belongs to an earlier attempt; no
// answer in such an object counts. If the name belongs to the request of another run, the object
// stays, and this request waits until it is gone.
func (r *Requests) ask(ctx context.Context, k api.Key, run *unstructured.Unstructured, request *approval.Request, out *Result) error {
	have := r.Object(api.ScopeOf(k).GVR(api.ApprovalKind), api.Key{Namespace: k.Namespace, Name: status.RequestName(k.Name, request)})
	answered := have != nil && (len(status.Untaken(have, request.Decisions)) > 0 || len(status.OtherGenerations(have)) > 0)
	known := r.Policies.LastVouched()
	var v policies.State
	var err error
	if have != nil && !answered && known != nil {
		v = *known // no answer is judged by it
	} else if v, err = r.Policies.Now(ctx); err != nil { // after the answer was read: the policies must not change in between
		return err
	}
	want, err := r.requestObject(ctx, k, run, request, v.Version)
	if err != nil {
		return err
	}
	if have == nil {
		if v.Settling > 0 {
			out.Again = v.Settling
			return nil
		}
		if have, err = r.create(ctx, k, want); err != nil || have == nil {
			return err
		}
	}
	seal, err := r.Seals.ProofOf(ctx, have)
	if err != nil {
		return err
	}
	ours := seal != nil && seal.Run == run.GetUID() && seal.Binding == request.Binding && reflect.DeepEqual(have.Object["spec"], want.Object["spec"])
	switch {
	case !ours && r.IsOfAnother(have, seal, run):
		blocked := blockedBy(have, seal, request)
		r.Recorder.Warning(run, api.EventRequestNameTaken, "%s", blocked.Why)
		out.Blocked = append(out.Blocked, blocked)
		return nil
	case !ours && seal != nil && seal.Run == run.GetUID() && seal.Binding.Attempt < request.Attempt:
		return r.removeRequest(ctx, run, have, request.Decisions, fmt.Sprintf("it is attempt %d, which has expired, and run %s asks for the attempt %d", seal.Binding.Attempt, k.Name, request.Attempt))
	case !ours:
		return r.removeRequest(ctx, run, have, request.Decisions, "it is not the request that run "+k.Name+" made")
	case v.Lost != "":
		return r.reportUnvouched(ctx, k, run, have, v.Lost)
	case seal.Policies != v.Version, api.ConditionOf(have, api.ConditionAccepted).Reason == api.ReasonUnvouched:
		return r.removeRequest(ctx, run, have, request.Decisions, "the admission policies that say who may answer were installed or changed since it was made")
	case !answered:
		return nil
	case v.Settling > 0:
		out.Again = v.Settling
		return nil
	}
	taken, err := r.takeAnswer(ctx, k, have, request, v.Identity)
	out.Taken = out.Taken || taken
	return err
}

// requestObject returns the sealed object of a request.
func (r *Requests) requestObject(ctx context.Context, k api.Key, run *unstructured.Unstructured, request *approval.Request, policies string) (*unstructured.Unstructured, error) {
	want, err := status.ApprovalRequest(&status.ApprovalFacts{Run: k.Name, Namespace: k.Namespace, RunUID: run.GetUID(), Request: request})
	if err != nil {
		return nil, err
	}
	return want, r.Seals.Sign(ctx, want, &seals.Proof{Run: run.GetUID(), Binding: request.Binding, Policies: policies})
}

// create creates the object of a request. If another object has the name, create returns that
// object. It returns nil if it created the object, or if the cache does not yet show that it did so
// before.
func (r *Requests) create(ctx context.Context, k api.Key, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	requests := r.Dynamic.Resource(api.ScopeOf(k).GVR(api.ApprovalKind)).Namespace(k.Namespace)
	_, err := requests.Create(ctx, want, metav1.CreateOptions{FieldManager: api.Manager})
	if !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	have, err := requests.Get(ctx, want.GetName(), metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, objects.Settled(err)
	case have.GetAnnotations()[api.AnnotationSeal] == want.GetAnnotations()[api.AnnotationSeal]:
		return nil, nil // the cache will show it soon
	}
	return have, nil
}

// blockedBy explains why a request has no object: the request of another run has its name.
func blockedBy(have *unstructured.Unstructured, seal *seals.Proof, request *approval.Request) status.BlockedRequest {
	theirs, other := gateName{seal.Binding.Stage, seal.Binding.When}, api.RunOfRequest(have)
	return status.BlockedRequest{Stage: request.Stage, When: request.When, Why: fmt.Sprintf(
		"the request %s needs the name %s, which the request of run %s %s has: delete run %s after its end, and the hub creates the request",
		gateName{request.Stage, request.When}, have.GetName(), other, theirs, other)}
}

// reportUnvouched writes into a request that no answer to it counts.
func (r *Requests) reportUnvouched(ctx context.Context, k api.Key, run, obj *unstructured.Unstructured, why string) error {
	if api.ConditionOf(obj, api.ConditionAccepted).Message != why {
		r.Recorder.Warning(run, api.EventUnvouched, "request %s: %s", obj.GetName(), why)
	}
	return r.writeCondition(ctx, k, obj, status.UnvouchedCondition(obj.GetGeneration(), why, time.Now()))
}

// reportOutcome writes the outcome into the object of a request that was decided.
func (r *Requests) reportOutcome(ctx context.Context, k api.Key, run, obj *unstructured.Unstructured, st fleet.Status) error {
	if status.IsConcluded(obj) {
		return nil
	}
	seal, err := r.Seals.ProofOf(ctx, obj)
	if err != nil || seal == nil || seal.Run != run.GetUID() {
		return err
	}
	g := GateAt(&st, seal.Binding)
	if g == nil {
		return nil
	}
	switch g.State {
	case stages.Completed:
		return r.writeCondition(ctx, k, obj, status.AcceptedCondition(obj.GetGeneration(), g.Ended.Time()))
	case stages.Failed:
		return r.writeCondition(ctx, k, obj, status.RejectedCondition(obj.GetGeneration(), decidedBy(g), g.Ended.Time()))
	case stages.Skipped:
		if lost := status.Untaken(obj, g.Decisions); len(lost) > 0 {
			why := fmt.Sprintf("the request is not needed any more, and no answer to it counts: run %s is %s", k.Name, st.Run.State)
			return r.writeCondition(ctx, k, obj, status.RefusedCondition(obj.GetGeneration(), why, g.Ended.Time()))
		}
	default:
	}
	return nil
}

// GateAt returns the approval of a run that matches the binding of a request, or nil.
func GateAt(st *fleet.Status, b approval.Binding) *runstate.Gate {
	if b.RunUID != st.Run.UID || b.Plan != st.Plan.Digest || b.Group != "" {
		return nil
	}
	for i := range st.Run.Form(runstate.Key{}).Stages {
		for j := range st.Run.Form(runstate.Key{}).Stages[i].Gates {
			g := &st.Run.Form(runstate.Key{}).Stages[i].Gates[j]
			if g.Type == stages.Approval && st.Plan.Stages[i].Name == b.Stage && g.When == b.When && g.Attempt == b.Attempt {
				return g
			}
		}
	}
	return nil
}

// decidedBy names the author of the last decision at a gate.
func decidedBy(g *runstate.Gate) string {
	if len(g.Decisions) == 0 {
		return "nobody"
	}
	return g.Decisions[len(g.Decisions)-1].By.Name
}

// writeCondition writes one condition of a request and leaves the conditions of other clients.
func (r *Requests) writeCondition(ctx context.Context, k api.Key, obj *unstructured.Unstructured, c metav1.Condition) error {
	st, err := status.WithCondition(obj, c)
	if err != nil || st == nil {
		return err
	}
	obj.Object["status"] = st
	_, err = r.Dynamic.Resource(api.ScopeOf(k).GVR(api.ApprovalKind)).Namespace(k.Namespace).UpdateStatus(ctx, obj, metav1.UpdateOptions{FieldManager: api.Manager})
	return objects.Settled(err)
}

// removeRequest deletes an object that has the name of a request but is not, or no longer, that
// request. The request is created again when the deletion is seen. removeRequest emits an event for
// each answer in the object that is not among the decisions in taken.
func (r *Requests) removeRequest(ctx context.Context, run, obj *unstructured.Unstructured, taken []approval.Decision, why string) error {
	r.Recorder.Warning(obj, api.EventRequestNotHonoured, "%s: it is deleted, and what was answered in it does not count", why)
	err := r.Dynamic.Resource(api.ScopeOf(api.KeyOf(obj)).GVR(api.ApprovalKind)).Namespace(obj.GetNamespace()).Delete(ctx, obj.GetName(), objects.AsRead(obj))
	if err == nil {
		r.RecordUntaken(ctx, run, obj, taken, why)
	}
	return objects.Settled(err)
}

// RecordUntaken emits events on a request that is deleted and on its run, one for each answer that
// does not count and its author.
func (r *Requests) RecordUntaken(ctx context.Context, run, obj *unstructured.Unstructured, taken []approval.Decision, why string) {
	lost := status.Untaken(obj, taken)
	if len(lost) == 0 {
		return
	}
	seal, err := r.Seals.ProofOf(ctx, obj)
	v, problem := r.Policies.Now(ctx)
	vouched := err == nil && problem == nil && v.Identity && seal != nil && seal.Policies == v.Version
	for _, a := range lost {
		author := a.By.Name
		switch {
		case author == "":
			author = "an unknown author"
		case !vouched:
			author += " (as the request says, for which nothing vouches)"
		}
		for _, about := range []*unstructured.Unstructured{run, obj} {
			r.Recorder.Warning(about, api.EventAnswerNotCounted, "request %s is deleted: %s; the answer %s by %s was not taken in and does not count", obj.GetName(), why, a.Verdict, author)
		}
	}
}

// takeAnswer passes the answers in an object to the engine, with their authors, and reports whether
// any of them is new to the engine.
func (r *Requests) takeAnswer(ctx context.Context, k api.Key, obj *unstructured.Unstructured, request *approval.Request, stamped bool) (taken bool, err error) {
	answers, err := status.AnswersOf(obj, stamped)
	if err != nil {
		return false, err
	}
	r.Queues.Runs.Hasten(k) // show the outcome without waiting for the pace of the queue
	refusals := status.OtherGenerations(obj)
	for _, a := range answers {
		refusal, accepted, err := r.decide(ctx, obj, request, a)
		if err != nil {
			return taken, err
		}
		taken = taken || accepted
		if refusal != "" && !slices.Contains(refusals, refusal) {
			refusals = append(refusals, refusal)
		}
	}
	if len(refusals) == 0 {
		return taken, nil
	}
	return taken, r.writeCondition(ctx, k, obj, status.RefusedCondition(obj.GetGeneration(), strings.Join(refusals, "; "), time.Now()))
}

// decide passes one answer to the engine. It returns why the answer does not count, if so, and
// whether the engine has accepted the answer and not taken it in yet. A repeated answer counts
// once.
func (r *Requests) decide(ctx context.Context, obj *unstructured.Unstructured, request *approval.Request, a status.Answer) (refused string, accepted bool, err error) {
	if a.By.Name == "" && status.AnybodyMayDecide(request.Policy) {
		a.By = status.Anybody()
	}
	known := slices.ContainsFunc(request.Decisions, func(d approval.Decision) bool { return d.By.Name == a.By.Name && d.Verdict == a.Verdict })
	err = r.Engine.Run(request.Run).Command(ctx, stages.Command{
		Verb: stages.Decide, ID: answerID(obj, request, a), Name: request.Name, By: a.By, Decision: &approval.Decision{Verdict: a.Verdict, Comment: a.Comment, Binding: request.Binding},
	})
	var refusal *approval.RefusedError
	switch {
	case errors.As(err, &refusal):
		return refusalOf(a, refusal.Reason), false, nil
	case errors.Is(err, backend.ErrNotFound), errors.Is(err, backend.ErrConflict):
		return "", false, nil // the gate has passed, or the engine already has the answer
	}
	return "", err == nil && !known, err
}

// answerID returns the same ID for the same answer to the same request.
func answerID(obj *unstructured.Unstructured, request *approval.Request, a status.Answer) string {
	who := snapshot.Digest([]byte(string(a.Verdict) + "/" + a.By.Name))
	return fmt.Sprintf("%s-%d-%s", obj.GetUID(), request.Attempt, who[:16])
}

// refusalOf explains why an answer does not count, and names the remedy if the author is unknown.
func refusalOf(a status.Answer, reason string) string {
	if a.By.Name != "" {
		return a.By.Name + ": " + reason
	}
	return "the approval policy asks who answers, and nothing on this server tells: install the admission policies of package hub/manifests, and answer again"
}
