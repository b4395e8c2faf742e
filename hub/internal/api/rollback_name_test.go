package api

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// longNamespace leaves no room for a rollback in an engine name.
var longNamespace = strings.Repeat("n", 55)

// objectsOfRuns returns keys of runs with short and long names.
func objectsOfRuns() (out []Key) {
	for _, namespace := range []string{"", "web", strings.Repeat("n", 42), strings.Repeat("n", 43), longNamespace, strings.Repeat("n", 63)} {
		for _, name := range []string{"r", "r.v2", strings.Repeat("x", 54), strings.Repeat("x", 55), strings.Repeat("x", 61) + ".v", strings.Repeat("x", 63)} {
			out = append(out, Key{Namespace: namespace, Name: name})
		}
	}
	return out
}

// statusOfRollback returns the engine's status of the nth rollback of an object's run.
func statusOfRollback(of Key, n int) *fleet.Status {
	run, title := kubefleet.EngineName(of.Namespace, of.Name), TitleOf(of)
	return &fleet.Status{
		Run: step.Run{Name: RollbackName(run, title, n)}, Title: title,
		Plan: &stages.Plan{Rollback: &stages.PlannedRollback{Run: run}},
	}
}

// TestEveryRollbackHasAnObject: for any name of a run's object, the object of the rollback is in
// the same namespace, has a valid name, and is found from the engine's status and from the object
// of the run.
func TestEveryRollbackHasAnObject(t *testing.T) {
	names := map[string]Key{}
	for _, of := range objectsOfRuns() {
		for _, n := range []int{1, 2, 10, mostRollbacks} {
			want := Key{Namespace: of.Namespace, Name: fleet.RollbackName(of.Name, n)}
			status := statusOfRollback(of, n)
			name := status.Run.Name
			if other, taken := names[name]; taken {
				t.Errorf("%s and %s are both called %s", other, want, name)
			}
			names[name] = want
			if len(name) > 63 || len(want.Name) > 63 || len(validation.IsDNS1123Subdomain(name)) > 0 || len(validation.IsDNS1123Subdomain(want.Name)) > 0 {
				t.Errorf("%s is called %s", want, name)
			}
			if got, ok := KeyOfStatus(status); !ok || got != want || kubefleet.EngineName(got.Namespace, got.Name) != name {
				t.Errorf("run %s of %s is shown as %s, %t, want %s", name, of, got, ok, want)
			}
			if got, ok := RollbackKey(of, name); !ok || got != want {
				t.Errorf("run %s is looked for at %s, %t, want %s", name, got, ok, want)
			}
			if got := RolledBackShown(status); got != of.Name {
				t.Errorf("run %s takes back %s, want %s", name, got, of.Name)
			}
		}
	}
}

// TestTitlesAreForNamesThatAreCut: the record of a run has a title only if it needs one, and a
// title that belongs to another object is ignored.
func TestTitlesAreForNamesThatAreCut(t *testing.T) {
	for _, k := range objectsOfRuns() {
		run := kubefleet.EngineName(k.Namespace, k.Name)
		title := TitleOf(k)
		if want := k.Namespace + "/" + k.Name; title != "" && title != want || (title != "") != kubefleet.IsCut(run) {
			t.Errorf("the title of %s, called %s, is %q", k, run, title)
		}
		if got, ok := keyOfRun(run, title); !ok || got != k {
			t.Errorf("run %s with title %q is that of %s, %t, want %s", run, title, got, ok, k)
		}
		for _, other := range []string{"", "/", "web", "web/r", title + "x"} {
			if got, ok := keyOfRun(run, other); ok && got != k {
				t.Errorf("run %s with title %q is that of %s", run, other, got)
			}
		}
	}
}

// TestRollbacksOfOlderVersions: a run whose name was cut before runs had titles keeps its rollback
// without an object, and so does a rollback that a host named.
func TestRollbacksOfOlderVersions(t *testing.T) {
	of := Key{Namespace: longNamespace, Name: "a-run-of-a-long-name"}
	run := kubefleet.EngineName(of.Namespace, of.Name)
	name := RollbackName(run, "", 1)
	if want := fleet.RollbackName(run, 1); name != want {
		t.Errorf("it is called %s, want %s", name, want)
	}
	status := &fleet.Status{Run: step.Run{Name: name}, Plan: &stages.Plan{Rollback: &stages.PlannedRollback{Run: run}}}
	if k, ok := KeyOfStatus(status); ok {
		t.Errorf("it is shown as %s", k)
	}
	if k, ok := RollbackKey(of, name); ok || RollbackShown(of, name) != name {
		t.Errorf("it is looked for at %s", k)
	}
	if got := RolledBackShown(status); got != run {
		t.Errorf("it takes back %s", got)
	}
	for name, want := range map[string]string{"undo": "undo", "n.web.r-rollback": "r-rollback", "n.web." + strings.Repeat("x", 30) + "-0a1b2c3d-rollback": strings.Repeat("x", 30) + "-0a1b2c3d-rollback"} {
		if got := RollbackShown(of, name); got != want {
			t.Errorf("%s is shown as %s, want %s", name, got, want)
		}
	}
}

// TestNumbersOfRollbacksAreFound: the number of a rollback is found even if its engine name was
// cut.
func TestNumbersOfRollbacksAreFound(t *testing.T) {
	of := Key{Namespace: longNamespace, Name: "r"}
	for n := 1; n <= 3; n++ {
		want := "r-rollback"
		if n > 1 {
			want += fmt.Sprint("-", n)
		}
		if k, ok := KeyOfStatus(statusOfRollback(of, n)); !ok || k.Name != want {
			t.Errorf("number %d is %s, %t", n, k, ok)
		}
	}
}
