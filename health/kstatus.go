package health

import (
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Kstatus is the [Prober] of an engine whose host sets none. If the status of an object is of an
// older generation, the object is not ready. Otherwise the kstatus library judges it: Current means
// ready, Failed means failed, and anything else means not yet ready, for the reason in message. An
// object without any status is Current. Beyond kstatus
//
//   - a condition with an older observedGeneration proves nothing, for or against the object;
//   - known conditions count for every kind, such as NotReady, Degraded, Available, Programmed
//     and Accepted, unless Ready is True; so do such conditions of listeners, parents and
//     ancestors, by the conventions of the Gateway API;
//   - some kinds have rules of their own: see the section Health of docs/hub.md.
//
// A status that cannot be read is left out, and message says so, also if the object is ready.
func Kstatus(obj *unstructured.Unstructured) (ready, failed bool, message string) {
	r := read(obj)
	v := r.judge()
	if len(r.remarks) > 0 {
		v.message = strings.TrimPrefix(v.message+"; judged by the rest, because "+strings.Join(r.remarks, ", and "), "; ")
	}
	return v.ready, v.failed, v.message
}

// judge returns the health of an object.
func (r *reading) judge() *verdict {
	rule := ruleOf(r)
	if r.obj.GetDeletionTimestamp() == nil {
		if by := r.paused(); by != "" {
			return ready(by + " suspends it")
		}
		if stale := r.outdated(); stale != "" {
			return waits("%s", stale)
		}
		if rule.judge != nil {
			if v := rule.judge(r); v != nil {
				return v
			}
		}
	}
	kstatusKnows := status.GetLegacyConditionsFn(r.obj) != nil
	if rule.as != nil {
		rule.as(r)
	}
	v := r.kstatus()
	if !v.ready {
		return v
	}
	for _, kind := range rule.needs {
		if r.find(kind) == nil && findIn(r.stale, kind) == nil {
			return waits("it has no condition %s", kind)
		}
	}
	if !kstatusKnows {
		if v := r.byConditions(r.conditions, r.stale); v != nil {
			return v
		}
		if v := r.nested(); v != nil {
			return v
		}
	}
	if rule.after != nil {
		if v := rule.after(r); v != nil {
			return v
		}
	}
	return v
}

// kstatus returns the verdict of kstatus on the reading.
func (r *reading) kstatus() *verdict {
	result, err := compute(r.obj)
	switch {
	case err != nil:
		return waits("its status cannot be read: %v", err)
	case result.Status == status.FailedStatus:
		return fails(result.Message)
	case result.Status == status.CurrentStatus:
		return ready("")
	}
	return waits("%s", result.Message)
}

// compute asks kstatus, which panics on some shapes of containerStatuses: then they are left out.
func compute(obj *unstructured.Unstructured) (result *status.Result, err error) {
	defer func() {
		if p := recover(); p == nil {
			return
		}
		s, _ := obj.Object["status"].(map[string]any)
		if _, found := s["containerStatuses"]; !found {
			err = fmt.Errorf("its shape is unknown")
			return
		}
		delete(s, "containerStatuses") // the status is a copy
		result, err = compute(obj)
	}()
	return status.Compute(obj)
}
