package queues

import (
	"testing"
	"time"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// TestAStatusIsWrittenAsOftenAsItsSizeAllows has a run and a placement of the same name.
func TestAStatusIsWrittenAsOftenAsItsSizeAllows(t *testing.T) {
	s := &Queues{}
	s.Resize(api.RunKind, "web", 30)
	s.Resize(api.RunKind, "all", 5000)
	s.Resize(api.PlacementKind, "web", 100)
	for _, test := range []struct {
		kind, name string
		want       time.Duration
	}{
		{api.RunKind, "web", 500 * time.Millisecond},
		{api.RunKind, "all", 2 * time.Second},
		{api.RunKind, "new", 200 * time.Millisecond},
		{api.PlacementKind, "web", 1200 * time.Millisecond},
		{api.PlacementKind, "all", 200 * time.Millisecond},
	} {
		if got := s.PaceOf(test.kind, test.name); got != test.want {
			t.Errorf("%s %s: every %v, want %v", test.kind, test.name, got, test.want)
		}
	}
	for _, test := range []struct {
		run, placement string
		want           time.Duration
	}{
		{"web", "web", 1200 * time.Millisecond},
		{"web", "new", time.Second},
		{"new", "web", 1200 * time.Millisecond},
		{"new", "new", 400 * time.Millisecond},
		{"all", "web", 4 * time.Second},
	} {
		if got := s.PaceOfProgress(test.run, test.placement); got != test.want {
			t.Errorf("placement %s for run %s: every %v, want %v", test.placement, test.run, got, test.want)
		}
	}
}
