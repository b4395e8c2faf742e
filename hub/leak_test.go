package hub_test

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/hub"
)

// A hub that loses the lead takes it again when it can. When it is told to end, it ends within
// seconds, releases the lead, and leaves no goroutine and no watch.
func TestAHubThatEndsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 2)
	w.place("v1")
	w.staged("")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	pprof.Do(ctx, pprof.Labels("hub", w.name), func(ctx context.Context) {
		h := w.made("one")
		go func() { ended <- h.Run(ctx) }()
	})
	for i := range 2 {
		run := fmt.Sprintf("%s-%d", w.name, i)
		w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
		w.run(run, "")
		w.await("csur", run, "Succeeded", "True")
		if i == 0 {
			w.usurp("one")
		}
	}
	if w.labelled() == "" {
		t.Fatal("no goroutine of the hub that runs is seen")
	}
	stop()
	begun := time.Now()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("Run returned %v", err)
		}
	case <-time.After(patience):
		t.Fatalf("Run does not return:\n%s", stacks())
	}
	t.Logf("Run took %v to return", time.Since(begun))
	w.lawOfNobody()
	w.eventually("all goroutines of the hub to end", func() error {
		if left := w.labelled(); left != "" {
			return fmt.Errorf("these are left:\n%s", left)
		}
		return nil
	})
}

// usurp gives the lead to a holder that never renews it, and waits until the hub has noticed and
// leads again.
func (w *hubEnv) usurp(name string) {
	w.t.Helper()
	leases := w.kube.CoordinationV1().Leases(w.name + "-hub")
	patch := fmt.Appendf(nil, `{"spec":{"holderIdentity":"somebody","renewTime":%q}}`, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	if _, err := leases.Patch(w.t.Context(), "slipway-hub", mergePatch, patch, metav1.PatchOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.eventually("the hub to lead again", func() error {
		lease, err := leases.Get(w.t.Context(), "slipway-hub", getOptions())
		if err == nil && *lease.Spec.HolderIdentity != name {
			err = fmt.Errorf("%s leads", *lease.Spec.HolderIdentity)
		}
		return err
	})
}

// made returns a hub that takes part in the election.
func (w *hubEnv) made(name string) *hub.Hub {
	w.t.Helper()
	cfg := w.config(name)
	cfg.AlwaysLead = false
	h, err := hub.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

// lawOfNobody: the lead is free.
func (w *hubEnv) lawOfNobody() {
	w.t.Helper()
	lease, err := w.kube.CoordinationV1().Leases(w.name+"-hub").Get(w.t.Context(), "slipway-hub", getOptions())
	if err != nil {
		w.t.Fatal(err)
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder != "" {
		w.t.Errorf("%s still has the lead", *holder)
	}
}

func stacks() string {
	var out strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&out, 1)
	return out.String()
}

// labelled returns the stacks of the goroutines of the environment's hub. Each goroutine inherits a
// label from its creator, which distinguishes it from hubs of other tests.
func (w *hubEnv) labelled() string {
	var left []string
	for g := range strings.SplitSeq(stacks(), "\n\n") {
		if strings.Contains(g, fmt.Sprintf(`"hub":%q`, w.name)) {
			left = append(left, g)
		}
	}
	return strings.Join(left, "\n\n")
}
