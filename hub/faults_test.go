package hub_test

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// prologue takes an environment to the point at which value v1 is in a snapshot, and a run of it
// requires an approval after its first stage.
func (w *hubEnv) prologue() {
	w.t.Helper()
	w.place("v1")
	w.staged("Approval")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
}

// asked waits for the request of a run.
func (w *hubEnv) asked(run string) {
	w.t.Helper()
	w.await("careq", run+"-canary", "Approved", "")
}

// finale waits for the end of a run. Then all members must hold value, and the laws must hold.
func (w *hubEnv) finale(r *running, run string, values ...string) {
	w.t.Helper()
	w.await("csur", run, "Succeeded", "True")
	w.await("careq", run+"-canary", "ApprovalAccepted", "True")
	w.eventually("all members to have it", func() error { return w.allHold(values[len(values)-1]) })
	w.laws(r.Engine(), values, run)
}

// A hub that is started while its API server is down waits for it.
//
// If the API server is killed in the middle of a run, with an answer that perhaps no hub has read
// yet, the result is the same.
func TestTheHubsAPIServerIsKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 3)
	w.mayWarn()
	if err := w.server.Kill(); err != nil {
		t.Fatal(err)
	}
	r := w.start("one")
	w.bounce()
	w.prologue()
	w.asked(w.name)
	w.approve(w.name + "-canary")
	w.bounce()
	w.finale(r, w.name, "v1")
}

// bounce kills the hub's API server and starts it again.
func (w *hubEnv) bounce() {
	w.t.Helper()
	if err := w.server.Kill(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.server.Restart(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// The outcome of a request is written even if it could not be written before the run had ended.
func TestTheOutcomeOfARequestIsWrittenAfterTheRun(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.mayWarn("a fault of the test")
	r := w.start("one")
	w.prologue()
	w.asked(w.name)
	refused := r.faults.Add(kubeenv.Rule{
		Verb: "update", Path: "clusterapprovalrequests", Times: -1,
		Fault: kubeenv.Answer(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable),
	})
	w.approve(w.name + "-canary")
	w.await("csur", w.name, "Succeeded", "True")
	before := refused()
	w.eventually("the outcome to be written again and again", func() error {
		if n := refused() - before; n < 3 {
			return fmt.Errorf("it was refused %d times since the run ended", n)
		}
		return nil
	})
	r.faults.Heal()
	w.finale(r, w.name, "v1")
}

// A member whose API server is killed, and a member that does not answer, delay the run for that
// time, and each is updated once.
func TestMembersAreLostForAWhile(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 3)
	r := w.start("one")
	w.prologue()
	w.asked(w.name)
	dead, paused := w.members[1], w.members[2]
	w.lose(dead, paused)
	w.approve(w.name + "-canary")
	w.eventually("the run to tell that both are not reached", func() error {
		return w.tells(w.name, dead.name, paused.name)
	})
	if err := dead.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	paused.server.Resume()
	w.finale(r, w.name, "v1")
}

// lose kills one member and pauses another, and restores both at the end of the test.
func (w *hubEnv) lose(dead, paused *member) {
	w.t.Helper()
	w.t.Cleanup(func() {
		paused.server.Resume()
		if _, err := dead.client.Resource(w.kindOf("ns").gvr).Get(w.t.Context(), "default", getOptions()); err != nil {
			_ = dead.server.Restart(withoutCancel(w.t))
		}
	})
	if err := dead.server.Kill(); err != nil {
		w.t.Fatal(err)
	}
	if err := paused.server.Pause(); err != nil {
		w.t.Fatal(err)
	}
}

// tells returns an error unless the status of a run gives for each of the clusters the reason why
// it is not updated.
func (w *hubEnv) tells(run string, clusters ...string) error {
	obj, err := w.at("csur").Get(w.t.Context(), run, getOptions())
	if err != nil {
		return err
	}
	for _, name := range clusters {
		if text := clusterMessage(obj, name); text == "" {
			return fmt.Errorf("the run says nothing of %s", name)
		}
	}
	return nil
}

// A member that is briefly unreachable, either new or joined, is picked all the same, and a run
// waits for it.
func TestAMemberThatIsNotReachedForAMomentIsPicked(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 2)
	joined, fresh := w.members[0], w.members[1]
	cut := kubeenv.Rule{Times: -1, Fault: kubeenv.ResetBefore()}
	fresh.faults.Add(cut)
	r := w.start("one")
	w.await("mc", fresh.name, "Healthy", "False")
	w.await("mc", fresh.name, "Joined", "Unknown")
	w.await("mc", joined.name, "Healthy", "True")
	joined.faults.Add(cut)
	w.patch("mc", joined.name, `{"metadata":{"labels":{"look":"again"}}}`)
	w.await("mc", joined.name, "Healthy", "False")
	w.await("mc", joined.name, "Joined", "True")
	w.place("v1")
	w.staged("")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
	w.eventually("the run to tell what it waits for", func() error { return w.tells(w.name, joined.name) })
	for _, m := range w.members {
		m.faults.Heal()
	}
	w.await("csur", w.name, "Succeeded", "True")
	if err := w.allHold("v1"); err != nil {
		t.Error(err)
	}
	w.lawOfRun(r.Engine(), w.name)
}

// After a storm of refusals, cut connections and expired watches, between the hub, its API server
// and the members, the result is the same as without it. The seed determines which requests are
// disturbed.
func TestStorms(t *testing.T) {
	t.Parallel()
	for _, seed := range seeds(2, 60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			w := newHubEnv(t, 3)
			w.mayWarn()
			r := w.start("one")
			s := newStorm(seed)
			s.over(&r.faults)
			for _, m := range w.members {
				s.touch(m.faults)
			}
			w.prologue()
			w.asked(w.name)
			r.faults.CutWatches()
			w.approve(w.name + "-canary")
			w.await("csur", w.name, "Succeeded", "True")
			s.calm(t, r, w.members)
			w.change("v2")
			w.run(w.name+"-2", "")
			w.asked(w.name + "-2")
			w.approve(w.name + "-2-canary")
			w.finale(r, w.name+"-2", "v1", "v2")
			w.lawOfRun(r.Engine(), w.name)
		})
	}
}

// A snapshot with a definition and an object of the defined kind is applied in one run.
func TestADefinitionComesWithAnObjectOfItsKind(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 2)
	w.grantKind("system:serviceaccount:"+w.name+"-hub:slipway-hub", w.name+".example.com", "widgets")
	w.start("one")
	w.define()
	w.staged("")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
	w.await("csur", w.name, "Succeeded", "True")
	for _, m := range w.members {
		if _, err := m.client.Resource(w.widgets()).Namespace(w.name).Get(t.Context(), "first", getOptions()); err != nil {
			t.Errorf("member %s: %v", m.name, err)
		}
	}
}
