package status

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

// longestMessage is the longest message of a condition, in bytes. The schema allows 32768
// characters.
const longestMessage = 30 << 10

// conditions builds conditions. Each has the time of a recorded fact, in whole seconds, so that the
// same facts give the same status again.
type conditions struct {
	// observedGeneration is the generation of the object's spec.
	observedGeneration int64
	// created is the time of a condition whose fact has no time.
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
