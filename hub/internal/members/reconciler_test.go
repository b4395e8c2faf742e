package members

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/internal/reconcile"
)

// TestAMemberIsAskedAgainThatIsBeingAsked: a member's answer may be older than the request to ask
// again.
func TestAMemberIsAskedAgainThatIsBeingAsked(t *testing.T) {
	t.Parallel()
	r := New(&Reconciler{Queues: &queues.Queues{Members: reconcile.New(reconcile.Options[api.Key]{})}})
	obj := &unstructured.Unstructured{}
	obj.SetName("m")
	asked := func() { r.setChecked("m", &check{at: time.Now(), next: time.Now().Add(time.Hour)}) }
	steps := []struct {
		name string
		do   func()
		due  bool
	}{
		{"at first", func() {}, true},
		{"once it is asked", func() { r.begin("m"); asked() }, false},
		{"once it is to be asked again", func() { r.AskAgain("m") }, true},
		{"once that is done", func() { r.begin("m"); asked() }, false},
		{"once it is to be asked again while it is being asked", func() { r.begin("m"); r.AskAgain("m"); asked() }, true},
		{"once that is done, too", func() { r.begin("m"); asked() }, false},
	}
	for _, s := range steps {
		s.do()
		if due := r.lastCheck(obj) == nil; due != s.due {
			t.Errorf("%s: due %t, want %t", s.name, due, s.due)
		}
	}
}
