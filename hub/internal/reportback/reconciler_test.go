package reportback

import (
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/snapshot"
)

func configMap(value string, created time.Time) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "a", "namespace": "b", "uid": "u"}, "data": map[string]any{"key": value},
	}}
	obj.SetCreationTimestamp(metav1.NewTime(created))
	return obj
}

// An object that was deleted and created again is another object, unless it has the content of the
// cluster's copy. An object that existed when the copy was made may have changed since.
func TestAnObjectThatWasMadeAgainIsAnotherOne(t *testing.T) {
	taken := time.Date(2026, 11, 26, 12, 0, 0, int(300*time.Millisecond), time.UTC)
	set, err := snapshot.NewSet([]*unstructured.Unstructured{snapshot.Clean(configMap("copied", taken))})
	if err != nil {
		t.Fatal(err)
	}
	from := original{set.Items[0].Digest, taken}
	for _, c := range []struct {
		name    string
		value   string
		created time.Time
		want    bool
	}{
		{"as it was copied", "copied", taken.Add(-time.Hour), true},
		{"changed since", "changed", taken.Add(-time.Hour), true},
		{"made again as it was", "copied", taken.Add(time.Hour), true},
		{"made again as another one", "changed", taken.Add(time.Hour), false},
		{"made in the second in which it was copied, as another one", "changed", taken.Truncate(time.Second), false},
	} {
		if got := from.isStill(configMap(c.value, c.created)); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// An object from an envelope has no original, and neither has an object that is no longer selected.
func TestEnvelopeObjectsHaveNoOriginal(t *testing.T) {
	id := func(name string) snapshot.ID {
		return snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "b", Name: name}
	}
	all := map[snapshot.ID]original{id("a"): {}, id("gone"): {}, id("packed"): {}}
	got := among(all, []snapshot.Item{{ID: id("a")}, {ID: id("new")}, {ID: id("packed"), Envelope: &snapshot.ID{Kind: "ResourceEnvelope"}}})
	if _, ok := got[id("a")]; !ok || len(got) != 1 {
		t.Errorf("%v, want a alone", got)
	}
}

// A report is kept within limits: no status that is too long, and at most mostObjects objects.
// Objects from envelopes do not count, because they have no original on the hub.
func TestAReportIsKeptWithinItsBounds(t *testing.T) {
	of := func(enveloped, plain int) apply.StatusReport {
		from := apply.StatusReport{Cluster: "c", Revision: "r"}
		for i := range enveloped + plain {
			from.Objects = append(from.Objects, apply.ObjectStatus{
				ID:     snapshot.ID{Version: "v1", Kind: "ConfigMap", Name: strconv.Itoa(i)},
				Status: map[string]any{"text": strings.Repeat("x", i*500)}, Enveloped: i < enveloped,
			})
		}
		return from
	}
	for _, c := range []struct {
		name             string
		enveloped, plain int
		want             int
		more             bool
	}{
		{"few", 0, 3, 3, false},
		{"as many as are written", 0, 200, 200, false},
		{"one more", 0, 201, 200, true},
		{"many", 0, 1000, 200, true},
		{"behind what envelopes brought", 150, 200, 200, false},
		{"what envelopes brought alone", 250, 0, 0, false},
		{"too many behind what envelopes brought", 150, 201, 200, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := reportOf(of(c.enveloped, c.plain))
			if len(got.objects) != c.want || got.more != c.more {
				t.Fatalf("%d objects, more: %t, want %d and %t", len(got.objects), got.more, c.want, c.more)
			}
			for i, o := range got.objects {
				at := c.enveloped + i
				if want := at*500 + len(`{"text":""}`); o.Name != strconv.Itoa(at) || o.size != want || (o.status == nil) != (want > mostBytes) {
					t.Fatalf("object %d is %s and has %d bytes, want %d, kept: %t", i, o.Name, o.size, want, o.status != nil)
				}
			}
		})
	}
}
