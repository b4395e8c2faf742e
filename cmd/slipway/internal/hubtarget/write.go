package hubtarget

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// manager is the field manager of what a person asks for.
const manager = "slipway"

// answerWithin is how long a hub is given to say what it makes of a change. After that the change stands, and no
// answer is no error: the hub may be down.
const answerWithin = 5 * time.Second

// await reads an object until done says that the hub has answered.
func (h *Hub) await(ctx context.Context, kind string, k types.NamespacedName, done func(u *unstructured.Unstructured) (bool, error)) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, answerWithin, true, func(ctx context.Context) (bool, error) {
		u, err := h.resource(kind, k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
		if err != nil {
			return false, h.explain(err, k.Namespace, "viewer")
		}
		return done(u)
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return nil
	}
	return err
}

// Decide answers a request of a run by writing a condition to its status. The author is the user that the API server
// authenticates, and that its admission policies write down; a.By is not read. Where the hub refuses the answer, that
// is the error.
func (h *Hub) Decide(ctx context.Context, run string, a fleet.Answer) error {
	k := h.key(a.Request)
	requests := h.resource(requests, k.Namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		u, err := requests.Get(ctx, k.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var r requestObject
		if err := read(u, &r); err != nil {
			return err
		}
		if r.Spec.Run != h.key(run).Name {
			return fmt.Errorf("request %s is one of run %s, not of run %s: %w", a.Request, r.Spec.Run, run, backend.ErrNotFound)
		}
		c := metav1.Condition{Type: "Approved", Status: metav1.ConditionTrue, Reason: "Approved", Message: a.Comment, ObservedGeneration: r.Generation}
		if a.Verdict == approval.Reject {
			c.Status, c.Reason = metav1.ConditionFalse, "Rejected"
		}
		// An answer that differs in nothing would be none of this user's: the time tells it from that of another one.
		meta.RemoveStatusCondition(&r.Status.Conditions, c.Type)
		c.LastTransitionTime = metav1.Now()
		conditions, err := toList(append(r.Status.Conditions, c))
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions"); err != nil {
			return err
		}
		_, err = requests.UpdateStatus(ctx, u, metav1.UpdateOptions{FieldManager: manager})
		return err
	})
	if err != nil {
		return h.explain(err, k.Namespace, "approver")
	}
	return nil
}
