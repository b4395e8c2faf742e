package fleet_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// Each scenario brings two runs, r1 and r2, into a state, with their rollbacks. The answers are the
// beginnings of the errors by run; "" is an accepted rollback.
var rollbackScenarios = map[string]struct {
	play    func(t *testing.T, w *engineEnv, e *fleet.Engine)
	answers map[string]string
}{
	"two runs have completed": {
		play: func(*testing.T, *engineEnv, *fleet.Engine) {},
		answers: map[string]string{
			"r1": "run r1 cannot be rolled back: run r2 has changed clusters since, and only the last run that changed clusters can be rolled back: roll out the snapshot",
			"r2": "",
		},
	},
	"the last run was rolled back": {
		play: func(t *testing.T, _ *engineEnv, e *fleet.Engine) { rollBack(t, e, "r2", stages.Completed) },
		answers: map[string]string{
			"r1":          "run r1 cannot be rolled back: run r2 has changed clusters since, and only",
			"r2":          "run r2 cannot be rolled back: every cluster has what it had before run r2, because run r2-rollback rolled it back",
			"r2-rollback": "run r2-rollback cannot be rolled back: it rolls back run r2 itself, and no run rolls back a rollback: roll out the snapshot",
		},
	},
	"the rollback of the last run has failed": {
		play: func(t *testing.T, w *engineEnv, e *fleet.Engine) {
			w.failsAt("s2a", "v1")
			rollBack(t, e, "r2", stages.Failed)
		},
		answers: map[string]string{
			"r1":          "run r1 cannot be rolled back: run r2 has changed clusters since, and only",
			"r2":          "",
			"r2-rollback": "run r2-rollback cannot be rolled back: it rolls back run r2 itself: to complete that, roll run r2 back once more",
		},
	},
	"the rollback of the last run is running": {
		play: func(t *testing.T, w *engineEnv, e *fleet.Engine) {
			w.fleet.Hang("s4a", true)
			must(e.Run("r2").Rollback(t.Context(), fleet.RollbackOptions{}))(t)
			time.Sleep(time.Minute)
		},
		answers: map[string]string{
			"r1":          "run r1 cannot be rolled back: run r2 has changed clusters since, and only",
			"r2":          "",
			"r2-rollback": "run r2-rollback cannot be rolled back: its strategy has no rollback: roll out the snapshot",
		},
	},
	"another run has the placement": {
		play: func(t *testing.T, w *engineEnv, e *fleet.Engine) {
			w.fleet.Hang("s1a", true)
			w.holds("v3")
			create(t, e, inAll("r3"))
			create(t, e, inAll("r4"))
			time.Sleep(time.Minute)
		},
		answers: map[string]string{
			"r1": "run r1 cannot be rolled back: run r2 has changed clusters since, and only",
			"r2": "run r2 cannot be rolled back: run r3 has placement example-placement: roll that run back, or wait until it has ended",
			"r3": "",
			"r4": "run r4 cannot be rolled back: the run has not changed anything yet: delete it",
		},
	},
	"the last run has no rollback": {
		play: func(t *testing.T, w *engineEnv, e *fleet.Engine) {
			w.holds("v3")
			ranTo(t, e, fleet.RunSpec{Name: "r3", Placement: ep, Strategy: inStages(nil, 1, 2, 3, 4)}, stages.Completed)
		},
		answers: map[string]string{
			"r1": "run r1 cannot be rolled back: the revisions that the clusters had before it are not known",
			"r2": "run r2 cannot be rolled back: the revisions that the clusters had before it are not known",
			"r3": "run r3 cannot be rolled back: its strategy has no rollback: roll out the snapshot",
		},
	},
	"the last run changed nothing": {
		play: func(t *testing.T, _ *engineEnv, e *fleet.Engine) { ranTo(t, e, inAll("r3"), stages.Completed) },
		answers: map[string]string{
			"r3": "run r3 cannot be rolled back: every cluster has what it had before run r3",
		},
	},
}

// rollBack rolls a run back, and waits for the state of the rollback run.
func rollBack(t *testing.T, e *fleet.Engine, run string, want stages.State) {
	t.Helper()
	must(e.Run(run).Rollback(t.Context(), fleet.RollbackOptions{}))(t)
	if back := endOfRollback(t, e, run); back.Run.State != want {
		t.Fatalf("%s is %s (%s), want %s", back.Run.Name, back.Run.State, back.Run.Reason, want)
	}
	time.Sleep(time.Minute)
}

var (
	advised = regexp.MustCompile(`roll (?:that run|run (\S+)) back`)
	named   = regexp.MustCompile(`run (\S+) has placement`)
)

// A refused rollback has a remedy. Following the remedies from run to run ends at an accepted
// rollback, or at a remedy that is no rollback. No text names a verb of the command.
func TestTheAdviceOfARefusedRollbackEnds(t *testing.T) {
	for what, c := range rollbackScenarios {
		for run, want := range c.answers {
			t.Run(what+"/"+run, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, e := rolling(t, nil)
					ranTo(t, e, inAll("r0"), stages.Completed)
					for i, value := range []string{"v1", "v2"} {
						w.holds(value)
						ranTo(t, e, inAll([]string{"r1", "r2"}[i]), stages.Completed)
					}
					time.Sleep(time.Minute)
					c.play(t, w, e)
					text, seen := refusalOf(t, e, run), map[string]bool{run: true}
					if text != want && (want == "" || !strings.HasPrefix(text, want)) {
						t.Errorf("the answer is %q, want %q", text, want)
					}
					for advised.MatchString(text) {
						next := advised.FindStringSubmatch(text)[1]
						if m := named.FindStringSubmatch(text); next == "" && m != nil {
							next = m[1]
						}
						if seen[next] || next == "" {
							t.Fatalf("the advice goes in a circle: %q", text)
						}
						seen[next] = true
						text = refusalOf(t, e, next)
					}
					if strings.Contains(text, "slipway") || strings.Contains(text, "abort") {
						t.Errorf("the text names a verb: %q", text)
					}
				})
			})
		}
	}
}

// refusalOf asks for the rollback of a run, and returns the refusal, or "". The preview must be
// refused in the same words.
func refusalOf(t *testing.T, e *fleet.Engine, run string) (text string) {
	t.Helper()
	_, preview := e.Run(run).PreviewRollback(t.Context())
	if _, err := e.Run(run).Rollback(t.Context(), fleet.RollbackOptions{}); err != nil {
		text = err.Error()
	}
	if said := fmt.Sprint(preview); text != "" && said != text || text == "" && preview != nil {
		t.Errorf("the preview of the rollback of run %s says %q, the rollback %q", run, said, text)
	}
	return text
}
