package status

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

func TestARunIsStuckWhenAClusterTakesLongerThanFiveMinutes(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: everything(), MaxConcurrency: number(5)}}}
	r := newRig(t, "10:00:00", s, false, named("a", "b", "c", "d", "e")...)
	r.step("", stages.Input{})
	r.finish("10:01:00", "e")
	r.facts.Now = r.now
	if got := ChangesAt(&r.facts); !got.Equal(clock(t, "10:05:00")) {
		t.Errorf("the status is said to change at %v", got)
	}
	r.now = clock(t, "10:04:59")
	if got := told(t, r.status()["conditions"])[1]; got != "Progressing=True UpdateRunProgressing: The update run is making progress" {
		t.Error(got)
	}
	r.now = clock(t, "10:06:00")
	got := r.status()["conditions"]
	if line := told(t, got)[1]; line != "Progressing=False UpdateRunStuck: The updateRun is stuck waiting for a, b, c... cluster(s) in stage all to finish updating, please check placement status for potential errors" {
		t.Error(line)
	}
	if at := since(t, got, "Progressing"); at != "10:05:00" {
		t.Errorf("stuck since %s", at)
	}
	if got := ChangesAt(&r.facts); !got.IsZero() {
		t.Errorf("nothing is to change by time alone, but at %v", got)
	}
	r.finish("10:07:00", "a", "b", "c")
	r.finish("10:08:00")
	if line := told(t, r.status()["conditions"])[1]; !strings.Contains(line, "waiting for d cluster(s)") {
		t.Error(line)
	}
}

func TestAClusterThatIsObservedToStayHealthyIsNotStuck(t *testing.T) {
	s := stages.Strategy{MinHealthy: metav1.Duration{Duration: time.Hour}, Stages: []stages.Stage{{Name: "all", Selector: everything()}}}
	r := newRig(t, "10:00:00", s, false, named("a")...)
	r.step("", stages.Input{})
	r.finish("10:01:00", "a")
	r.now = clock(t, "10:30:00")
	if got := told(t, r.status()["conditions"])[1]; got != "Progressing=True UpdateRunProgressing: The update run is making progress" {
		t.Error(got)
	}
	if at := ChangesAt(&r.facts); !at.IsZero() {
		t.Errorf("changes at %v", at)
	}
}

func TestProgressStartsWhenARunIsNoLongerStuck(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: everything()}}}
	r := newRig(t, "10:00:00", s, false, named("a", "b")...)
	r.step("", stages.Input{})
	r.finish("10:09:00", "a")
	if at := since(t, r.status()["conditions"], "Progressing"); at != "10:09:00" {
		t.Errorf("progressing since %s", at)
	}
}

func TestConditionsOfAStopAndAResume(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: everything()}}}
	r := newRig(t, "10:00:00", s, false, named("a", "b")...)
	r.step("", stages.Input{})
	r.command("10:01:00", stages.Command{Verb: stages.Stop, By: approval.Identity{Name: "sam"}, Message: "lunch"})
	got := r.status()
	if line := told(t, got["conditions"])[1]; !strings.HasPrefix(line, "Progressing=Unknown UpdateRunStopping: The update run is the process of stopping") {
		t.Error(line)
	}
	if line := told(t, stageAt(got, 0)["conditions"])[0]; !strings.HasPrefix(line, "Progressing=Unknown StageUpdatingStopping: ") {
		t.Error(line)
	}
	r.finish("10:02:00", "a")
	got = r.status()
	if line := told(t, got["conditions"])[1]; line != "Progressing=False UpdateRunStopped: The update run has been stopped: stopped by sam: lunch" {
		t.Error(line)
	}
	wantTold(t, "stage", stageAt(got, 0)["conditions"],
		"Progressing=False StageUpdatingStopped: All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed")
	if at := since(t, got["conditions"], "Progressing"); at != "10:02:00" {
		t.Errorf("stopped since %s", at)
	}
	r.command("10:03:00", stages.Command{Verb: stages.Start})
	got = r.status()
	for what, at := range map[string]string{"run": since(t, got["conditions"], "Progressing"), "stage": since(t, stageAt(got, 0)["conditions"], "Progressing")} {
		if at != "10:03:00" {
			t.Errorf("the %s goes on since %s", what, at)
		}
	}
}

func TestAResumedRunWaitsForATaskFromItsResumption(t *testing.T) {
	r := tutorialRig(t)
	r.command("21:35:00", stages.Command{Verb: stages.Stop})
	r.command("21:36:00", stages.Command{Verb: stages.Start})
	s := r.status()
	for what, c := range map[string]any{"run": s["conditions"], "stage": stageAt(s, 1)["conditions"]} {
		if at := since(t, c, "Progressing"); at != "21:36:00" {
			t.Errorf("the %s waits since %s", what, at)
		}
	}
}

func TestProgressStartsWhenTheTaskEnds(t *testing.T) {
	s, clusters := tutorial()
	r := newRig(t, "21:28:08", s, false, clusters...)
	r.step("", stages.Input{})
	r.finish("21:28:23", "member2")
	r.step("21:29:23", stages.Input{})
	if at := since(t, r.status()["conditions"], "Progressing"); at != "21:29:23" {
		t.Errorf("progressing since %s", at)
	}
}

func TestTasksBeforeAndAfterAStageAreDistinguished(t *testing.T) {
	approve := []stages.Task{{Type: stages.Approval}}
	r := newRig(t, "10:00:00", stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: everything(), Before: approve, After: approve}}}, false, named("a")...)
	r.step("", stages.Input{})
	r.decide("10:01:00", approval.Approve)
	st := stageAt(r.status(), 0)
	want := []any{map[string]any{"type": "Approval", "approvalRequestName": "example-run-after-all"}}
	if diff := cmp.Diff(want, st["afterStageTaskStatus"]); diff != "" {
		t.Errorf("a task that was not reached (-want +got):\n%s", diff)
	}
	before := st["beforeStageTaskStatus"].([]any)[0].(map[string]any)
	if got := len(told(t, before["conditions"])); got != 2 {
		t.Errorf("the task that passed has %d conditions", got)
	}
}
