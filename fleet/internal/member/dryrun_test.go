package member

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// telling is a member whose server keeps ConfigMap app/a unchanged, whatever is applied, and shows
// that in dry runs.
type telling struct {
	backend.ConnWatcher
	err   error
	asked *int
}

func (c telling) DryRun(ctx context.Context, obj *unstructured.Unstructured, _ backend.ApplyOptions) (*unstructured.Unstructured, error) {
	*c.asked++
	if c.err != nil {
		return nil, c.err
	}
	return c.Get(ctx, snapshot.IDOf(obj))
}

// TestDryRunOfTheMemberDropsDifferences checks that a difference which an apply would not change
// is no difference if the strategy asks for dry runs. A member whose dry runs fail or are missing
// is compared without them.
func TestDryRunOfTheMemberDropsDifferences(t *testing.T) {
	for _, c := range []struct {
		name         string
		asks, cannot bool
		err          error
		total, asked int
		warns        bool
	}{
		{name: "not asked for", total: 1},
		{name: "asked for", asks: true, asked: 1},
		{name: "fails", asks: true, err: errors.New("denied: planted"), total: 1, asked: 1, warns: true},
		{name: "cannot", asks: true, cannot: true, total: 1, warns: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := driftedKit(t)
			asked := 0
			u := k.leader(func(conn backend.Conn) backend.Conn {
				if c.cannot {
					return struct{ backend.ConnWatcher }{conn.(backend.ConnWatcher)}
				}
				return telling{conn.(backend.ConnWatcher), c.err, &asked}
			})
			k.member.Record(true)
			x := Comparison{Placement: kitPlacement, Strategy: apply.Strategy{DryRun: c.asks}, Key: k.key, Cluster: k.want("A", 3, "r1").Cluster}
			got, err := u.Compare(t.Context(), x)
			if err != nil || got.Total != c.total || asked != c.asked {
				t.Fatalf("%+v, %v, asked %d times", got, err, asked)
			}
			if c.total == 1 {
				warnings := strings.Join(got.Objects[0].Warnings, " ")
				if strings.Contains(warnings, "dry run failed") != c.warns || strings.Contains(warnings, "planted") {
					t.Errorf("warnings: %s", warnings)
				}
			}
			if log := k.member.Log(); len(log) > 0 {
				t.Errorf("the member was written to: %v", log)
			}
		})
	}
}
