package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAReportCountsSteps: a step skipped after a failure counts as failed, and a step that was
// not selected does not count. A failure must be known by its name, by its message, or by both. A
// step skipped after a known failure is known, too.
func TestAReportCountsSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	known := write("known", "# why\nskip: b fails\na / fails\nmessage: no matches for kind \"AppliedWork\"\nd / stays | message: still exists\n")
	passed := `{"LeafNodeType":"It","LeafNodeText":"passes","ContainerHierarchyTexts":["a"],"State":"passed"}`
	failed := `{"LeafNodeType":"It","LeafNodeText":"fails","ContainerHierarchyTexts":["a"],"State":"failed","Failure":{"Message":"no"}}`
	inside := `{"LeafNodeType":"It","LeafNodeText":"looks","ContainerHierarchyTexts":["c"],"State":"failed","Failure":{"Message":"x: no matches for kind \"AppliedWork\" in version"}}`
	stays := `{"LeafNodeType":"It","LeafNodeText":"stays","ContainerHierarchyTexts":["d"],"State":"failed","Failure":{"Message":"namespace x still exists"}}`
	for name, c := range map[string]struct{ specs, says, problem string }{
		"one that passed":         {passed, "1 of 1 steps passed", ""},
		"one that is known":       {passed + "," + failed, "1 of 2 steps passed", ""},
		"one that is not":         {passed + "," + strings.ReplaceAll(failed, `"a"`, `"b"`), "1 of 2 steps passed", "b / fails"},
		"one skipped for another": {passed + `,{"LeafNodeType":"It","LeafNodeText":"next","ContainerHierarchyTexts":["a"],"State":"skipped","Failure":{"Message":"an earlier spec failed"}}`, "1 of 2 steps passed", "a / next"},
		"one of a known kind": {passed + "," + inside +
			`,{"LeafNodeType":"It","LeafNodeText":"next","ContainerHierarchyTexts":["c"],"State":"skipped","Failure":{"Message":"an earlier spec failed"}}`, "1 of 3 steps passed, 1 were not run after a known failure", ""},
		"one of a known kind in a known step":   {passed + "," + stays, "1 of 2 steps passed", ""},
		"one of a known kind in another step":   {passed + "," + strings.ReplaceAll(stays, "stays", "goes"), "1 of 2 steps passed", "d / goes"},
		"one of another kind in the known step": {passed + "," + strings.ReplaceAll(stays, "still exists", "is denied"), "1 of 2 steps passed", "d / stays"},
		"one skipped by itself":                 {passed + `,{"LeafNodeType":"It","LeafNodeText":"next","State":"skipped","Failure":{"Message":"no Azure"}}`, "1 of 1 steps passed", ""},
		"one not chosen":                        {passed + `,{"LeafNodeType":"It","LeafNodeText":"next","State":"skipped"}`, "1 of 1 steps passed", ""},
		"none":                                  {`{"LeafNodeType":"BeforeSuite","State":"failed"}`, "0 of 0 steps passed", "no step was run"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := report(&out, known, []string{write(strings.ReplaceAll(name, " ", "-"), `[{"SpecReports":[`+c.specs+`]}]`)})
			if strings.TrimSpace(out.String()) != c.says {
				t.Errorf("it says %q, want %q", out.String(), c.says)
			}
			if (err != nil) != (c.problem != "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Errorf("%v, want %q", err, c.problem)
			}
		})
	}
}

// TestPodsRun: a Pod runs, the Pod of a Job completes, and a Pod with an untagged image never
// starts.
func TestPodsRun(t *testing.T) {
	t.Parallel()
	pod := func(image, owner string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: owner}}
		}
		return p
	}
	if got := podStarted(pod("pause:3", "ReplicaSet"), metav1.Now()); got == nil || got.Status.Phase != corev1.PodRunning || len(got.Status.Conditions) != 2 {
		t.Errorf("%+v", got)
	}
	if got := podStarted(pod("pause:3", "Job"), metav1.Now()); got == nil || got.Status.Phase != corev1.PodSucceeded {
		t.Errorf("%+v", got)
	}
	if got := podStarted(pod("none", ""), metav1.Now()); got != nil {
		t.Errorf("%+v", got)
	}
}
