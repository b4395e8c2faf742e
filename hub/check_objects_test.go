package hub_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var jobs = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}

// job returns the name of the only Job in the story's namespace on a member, or an error if there
// is not exactly one.
func (s *scenario) job(member int) (string, error) {
	list, err := s.member(member).Resource(jobs).Namespace(s.name).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	if len(list.Items) != 1 {
		return "", fmt.Errorf("member %d has %d Jobs", member, len(list.Items))
	}
	return list.Items[0].GetName(), nil
}

// ended writes the status of a Job that has ended, like the Job controller.
func (s *scenario) ended(member int, job, conditions, more string) {
	s.Helper()
	status := `{status: {startTime: "2026-01-01T00:00:00Z", uncountedTerminatedPods: {}, ` + more + `conditions: [` + conditions + `]}}`
	if err := s.tryPatchOf(member, job, status); err != nil {
		s.Fatal(err)
	}
}

func (s *scenario) tryPatchOf(member int, job, status string) error {
	obj := s.objects("{apiVersion: batch/v1, kind: Job, metadata: {name: " + job + ", namespace: NAME}}")[0]
	obj.Object["status"] = s.objects(status)[0].Object["status"]
	_, err := s.member(member).Resource(jobs).Namespace(s.name).ApplyStatus(s.Context(), job, obj, metav1.ApplyOptions{FieldManager: "job-controller", Force: true})
	return err
}

// TestAJobInAnEnvelopeIsACheck: a Job that the hub keeps in an envelope runs on each member after
// the other objects, and the run uses its verdict. Afterwards it is on no member, and it is never
// on the hub.
func TestAJobInAnEnvelopeIsACheck(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.put("v1")
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourceEnvelope
metadata: {name: checks, namespace: NAME}
data:
  smoke.yaml:
    apiVersion: batch/v1
    kind: Job
    metadata: {name: smoke-test, namespace: NAME, annotations: {slipway.dev/check: smoke}}
    spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: test, image: "smoke:1"}]}}}`)
	s.strategy("clusterChecks: [{name: smoke, object: smoke}]", "clusterChecks: [{name: smoke, object: smoke}]")
	s.place("type: External")
	s.scheduled()
	s.run("1", "")
	job := ""
	s.eventually("the Job on the first member", func() (err error) {
		job, err = s.job(1)
		return err
	})
	if !strings.HasPrefix(job, "smoke-test-") {
		t.Errorf("the Job is %s", job)
	}
	s.eventually("the rest on the first member", s.has(1, "config", "v1"))
	if _, err := s.job(2); err == nil {
		t.Error("the second member has a Job before its stage has begun")
	}
	s.ended(1, job, `{type: SuccessCriteriaMet, status: "True", reason: CompletionsReached, lastTransitionTime: "2026-01-01T00:00:09Z"}, {type: Complete, status: "True", reason: CompletionsReached, message: all tests passed, lastTransitionTime: "2026-01-01T00:00:09Z"}`,
		`completionTime: "2026-01-01T00:00:09Z", succeeded: 1, `)
	s.eventually("the Job on the second member", func() (err error) {
		job, err = s.job(2)
		return err
	})
	s.eventually("the Job to go from the first member", func() error {
		if name, err := s.job(1); err == nil {
			return fmt.Errorf("it is %s", name)
		}
		return nil
	})
	s.ended(2, job, `{type: FailureTarget, status: "True", reason: BackoffLimitExceeded, lastTransitionTime: "2026-01-01T00:00:09Z"}, {type: Failed, status: "True", reason: BackoffLimitExceeded, message: the shop does not answer, lastTransitionTime: "2026-01-01T00:00:09Z"}`,
		`failed: 1, `)
	s.comes("csur/NAME-1", "Succeeded", "False", "")
	u, err := s.get("csur/NAME-1")
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(u.Object["status"]); !strings.Contains(text, "check smoke is Failed") || !strings.Contains(text, "the shop does not answer") {
		t.Errorf("the status does not have the verdict: %s", text)
	}
	s.eventually("no Job and no ledger of one", func() error {
		for i := 1; i <= 2; i++ {
			if name, err := s.job(i); err == nil {
				return fmt.Errorf("member %d has %s", i, name)
			}
		}
		return nil
	})
	list, err := s.admin.Resource(jobs).Namespace(s.name).List(s.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("the hub has %d Jobs, %v", len(list.Items), err)
	}
}
