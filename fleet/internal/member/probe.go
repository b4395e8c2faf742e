package member

import (
	"context"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet/internal/guard"
)

// Health is what a [Prober] says of an object. An object that is neither
// healthy nor failed may become healthy.
type Health struct {
	Healthy bool
	// Failed reports that waiting will not make the object healthy.
	Failed bool
	// Message says what is wrong, for people. It is cut at 256 characters.
	Message string
}

// Prober reports whether an object is healthy. It must not change the object,
// may be called concurrently and honours ctx. An error means that the health is not known.
type Prober interface {
	Probe(ctx context.Context, obj *unstructured.Unstructured) (Health, error)
}

// ProberFunc makes a function a [Prober].
type ProberFunc func(ctx context.Context, obj *unstructured.Unstructured) (Health, error)

// Probe calls f.
func (f ProberFunc) Probe(ctx context.Context, obj *unstructured.Unstructured) (Health, error) {
	return f(ctx, obj)
}

// kstatusProber is the default: what kstatus calls Current is healthy, Failed
// has failed, and anything else is not yet healthy. An object without any
// status is Current.
type kstatusProber struct{}

func (kstatusProber) Probe(_ context.Context, obj *unstructured.Unstructured) (Health, error) {
	r, err := status.Compute(obj)
	if err != nil {
		// A member may put anything into a status.
		return Health{Message: "its status cannot be read"}, nil //nolint:nilerr // it is not healthy yet, and may be later
	}
	switch r.Status {
	case status.CurrentStatus:
		return Health{Healthy: true}, nil
	case status.FailedStatus:
		return Health{Failed: true, Message: r.Message}, nil
	default:
		return Health{Message: r.Message}, nil
	}
}

// probes calls a prober that may belong to the host.
type probes struct {
	prober Prober
	guard  *guard.Guard
}

func (p probes) probe(ctx context.Context, cluster string, obj *unstructured.Unstructured) (Health, error) {
	if k, ours := p.prober.(kstatusProber); ours || p.prober == nil {
		return guard.Recovered("Probe", func() (Health, error) { return k.Probe(ctx, obj) })
	}
	return guard.Call(ctx, p.guard, "Probe", cluster, func(ctx context.Context) (Health, error) {
		return p.prober.Probe(ctx, obj)
	})
}
