package status

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// longestMessage bounds the message of a condition, in bytes. The schema takes
// 32768 characters.
const longestMessage = 30 << 10

// conditions makes conditions. Each has the time of a fact that is recorded, in
// whole seconds, so that a status that is made again is the same.
type conditions struct {
	// generation is that of the object's spec.
	observedGeneration int64
	// birth is the time of what has no time of its own.
	created stages.Instant
}

func (t conditions) isTrue(kind, reason, message string, at stages.Instant) metav1.Condition {
	return t.condition(kind, metav1.ConditionTrue, reason, message, at)
}

func (t conditions) isFalse(kind, reason, message string, at stages.Instant) metav1.Condition {
	return t.condition(kind, metav1.ConditionFalse, reason, message, at)
}

func (t conditions) isUnknown(kind, reason, message string, at stages.Instant) metav1.Condition {
	return t.condition(kind, metav1.ConditionUnknown, reason, message, at)
}

func (t conditions) condition(kind string, status metav1.ConditionStatus, reason, message string, at stages.Instant) metav1.Condition {
	return metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: api.Printable(message, longestMessage),
		ObservedGeneration: t.observedGeneration, LastTransitionTime: api.Seconds(cmp.Or(at, t.created)),
	}
}
