package fleet_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
)

// A refused rollback is reported: in an event, in the status of the rollback, and in the
// explanation of each cluster that the run changed.
func TestARefusedRollbackIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := rolling(t, nil)
		ranTo(t, e, inAll("r0"), stages.Completed)
		w.failsAt("s2a", "v1")
		w.holds("v1")
		w.capture(e, "v1")
		must(0, e.Placement(ep).SetIrreversible(t.Context(), 1, true, "ann"))(t)
		create(t, e, inAll("r1"))
		if s := endOf(t, e, "r1"); s.Run.State != stages.Failed || s.Run.Form(runstate.Key{}).RollbackRequest == nil {
			t.Fatalf("r1 is %s, %+v", s.Run.State, s.Run.Form(runstate.Key{}).RollbackRequest)
		}
		time.Sleep(time.Minute)
		const why = "4 keep their revision: snapshot 1 is irreversible"
		b := must(e.Run("r1").RollbackStatus(t.Context()))(t)
		if b.By != "" || b.Pending || !strings.Contains(b.Refused, why) {
			t.Errorf("it has become %+v", b)
		}
		x := must(e.Run("r1").Explain(t.Context(), "s1a"))(t)
		if !strings.Contains(x.Reason, "it is not, because ") || !strings.HasSuffix(x.Reason, why) {
			t.Errorf("explanation: %s", x.Reason)
		}
		told := 0
		for _, ev := range w.past(90) {
			if ev.Type == stages.RollbackRefused && ev.Run == "r1" && strings.Contains(ev.Message, why) {
				told++
			}
		}
		if told != 1 {
			t.Errorf("it is told %d times", told)
		}
		want := everywhere("v0")
		want["s1a"], want["s1b"], want["s2b"] = "v1", "v1", "v1"
		wantValues(t, w, want)
	})
}
