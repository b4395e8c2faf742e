package delivery

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/formats/oam"
)

// StatusOf returns the status of an application: the status of its last release, which is empty
// in rec if there is none, and the problem that prevents the next one. If the status of app
// already has the same problem, the problem keeps its time, so that the status is not rewritten
// needlessly. It is a pure function.
func StatusOf(rec oam.Record, problem error, app *unstructured.Unstructured, now time.Time) oam.AppStatus {
	var status oam.AppStatus
	if rec.Run != nil {
		status = oam.NewStatus(rec)
	}
	if problem == nil {
		return status
	}
	status = oam.Refused(status, problem, now)
	for _, old := range conditionsOf(app) {
		for i := range status.Conditions {
			if c := &status.Conditions[i]; c.Type == old.Type && c.Message == old.Message && !old.LastTransitionTime.IsZero() {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	return status
}

// conditionsOf returns the conditions of an object, none if they cannot be decoded.
func conditionsOf(obj *unstructured.Unstructured) (conditions []metav1.Condition) {
	list, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "status", "conditions")
	text, err := json.Marshal(list)
	if err == nil {
		err = json.Unmarshal(text, &conditions)
	}
	if err != nil {
		return nil
	}
	return conditions
}
