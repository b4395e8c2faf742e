package member

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// nameless adds a revision that extends another revision by an object without a name.
func (k *kit) nameless(name, of string) snapshot.Unplaced {
	u := snapshot.Unplaced{
		ID: snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "app"}, GenerateName: "settings-",
		Envelope: snapshot.ID{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ResourceEnvelope", Namespace: "app", Name: "hard"},
	}
	set := k.sets[k.revs[of]]
	set.Unplaced = []snapshot.Unplaced{u}
	set.Digest = snapshot.Digest(set.Root().Encode())
	k.sets[set.Digest], k.revs[name] = set, set.Digest
	return u
}

// TestAnObjectWithoutANameIsReportedAndTheOthersAreApplied checks that an object without a name is
// never applied, while the others are, and that the cluster does not prove the revision, however
// often it is tried. The cluster proves the next revision without such an object.
func TestAnObjectWithoutANameIsReportedAndTheOthersAreApplied(t *testing.T) {
	k := newKit(t)
	u := k.nameless("A+", "A")
	var failing []apply.FailingObject
	a := NewApplier(NewConns(backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) { return k.member.Conn(), nil }), 0),
		k.load, kstatusProber{}, Options{Failing: func(_ *Assignment, _ bool, objects []apply.FailingObject) { failing = objects }})
	for range 3 {
		r, err := a.Update(t.Context(), k.want("A+", 1, "r1"))
		if !errors.Is(err, backend.ErrPermanent) || r.Revision != "" || r.Healthy || !strings.Contains(err.Error(), `ConfigMap.v1 app/(no name) in ResourceEnvelope.v1beta1.placement.kubernetes-fleet.io app/hard: it has the generateName "settings-" and no name`) {
			t.Fatalf("%+v, %v", r, err)
		}
		wantObjects(t, k, k.expected("A", false))
		if len(failing) != 1 || failing[0].ID != u.ID || failing[0].Reason != apply.NotApplied || *failing[0].Envelope != u.Envelope {
			t.Errorf("failing: %+v", failing)
		}
	}
	if r, err := a.Observe(t.Context(), k.want("A+", 1, "r1")); err != nil || r.Current || r.Healthy {
		t.Errorf("observed: %+v, %v", r, err)
	}
	out := drift.ClusterReport{}
	load := func(ctx context.Context) (*Revision, error) { return k.load(ctx, kitPlacement, k.revs["A+"]) }
	if _, err := a.Preview(t.Context(), k.want("A+", 1, "r1"), load, &out); err != nil || len(out.Problems) != 1 || !strings.Contains(out.Problems[0], "no name") {
		t.Errorf("previewed: %v, %v", out.Problems, err)
	}
	reports := k.want("A+", 1, "r1")
	reports.Strategy.Type = apply.ReportDiff
	if r, err := a.Update(t.Context(), reports); err != nil || !strings.Contains(r.Message, "1 could not be compared: ConfigMap.v1 app/(no name)") {
		t.Errorf("compared: %+v, %v", r, err)
	}
	if r := k.must(a, k.want("B", 2, "r2")); !r.Healthy || len(failing) != 0 {
		t.Errorf("without it: %+v, failing %+v", r, failing)
	}
	wantObjects(t, k, k.expected("B", false))
}
