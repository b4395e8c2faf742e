package hub_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// closable is a limit of requests that lets none pass after it is closed.
type closable struct {
	flowcontrol.RateLimiter
	closed atomic.Bool
}

func (l *closable) Wait(ctx context.Context) error {
	if l.closed.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// TestALeaderRenewsItsLeaseBeyondTheLimitOfRequests: a hub whose other requests use up the limit of
// requests keeps the lead.
func TestALeaderRenewsItsLeaseBeyondTheLimitOfRequests(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	limit := &closable{RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}
	w.start("one", func(c *hub.Config) {
		c.AlwaysLead, c.Rest.RateLimiter = false, limit
	})
	renewed := func() (string, time.Time, error) {
		l, err := w.kube.CoordinationV1().Leases(w.name+"-hub").Get(t.Context(), "slipway-hub", metav1.GetOptions{})
		if err != nil || l.Spec.RenewTime == nil || l.Spec.HolderIdentity == nil {
			return "", time.Time{}, fmt.Errorf("the lease is %+v: %v", l, err)
		}
		return *l.Spec.HolderIdentity, l.Spec.RenewTime.Time, nil
	}
	w.eventually("the hub to lead", func() error {
		if holder, _, err := renewed(); err != nil || holder != "one" {
			return fmt.Errorf("%s leads: %v", holder, err)
		}
		return nil
	})
	limit.closed.Store(true)
	_, since, err := renewed()
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("the lease to be renewed for three times its duration", func() error {
		holder, at, err := renewed()
		if err != nil || holder != "one" || at.Sub(since) < 6*time.Second {
			return fmt.Errorf("%s renewed it after %v: %v", holder, at.Sub(since), err)
		}
		return nil
	})
	limit.closed.Store(false)
}

// A hub waits for an API server that refuses requests because it has not read the roles yet. If the
// server is ready, a refusal ends the hub with an error that names what it must read.
func TestAHubWaitsForAnAPIServerThatStarts(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	w.mayWarn("the API server is not ready")
	var starting, ready kubeenv.Faults
	struck := starting.Add(kubeenv.Rule{Times: 3, Fault: kubeenv.LacksRight()}) // a definition, whether it is ready, its versions
	w.start("one", func(c *hub.Config) { c.Rest.Wrap(starting.Wrap) })
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec: {resourceSelectors: [{group: "", version: v1, kind: Namespace, name: default}], strategy: {type: External}}`)
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	if struck() != 3 {
		t.Errorf("%d requests were refused, want 3", struck())
	}

	ready.Add(kubeenv.Rule{Path: "customresourcedefinitions", Times: -1, Fault: kubeenv.LacksRight()})
	cfg := w.config("two")
	cfg.Rest.Wrap(ready.Wrap)
	two, err := hub.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := two.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("with a server that is ready, it ends with %v", err)
	}
}
