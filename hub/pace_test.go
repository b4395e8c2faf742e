package hub

import (
	"testing"
	"time"
)

// TestAStatusIsWrittenAsOftenAsItsSizeAllows has a run and a placement of the same name.
func TestAStatusIsWrittenAsOftenAsItsSizeAllows(t *testing.T) {
	s := &service{}
	s.sizes.Store(sized{runKind, "web"}, 30)
	s.sizes.Store(sized{runKind, "all"}, 5000)
	s.sizes.Store(sized{placementKind, "web"}, 100)
	for _, test := range []struct {
		kind, name string
		want       time.Duration
	}{
		{runKind, "web", 500 * time.Millisecond},
		{runKind, "all", 2 * time.Second},
		{runKind, "new", 200 * time.Millisecond},
		{placementKind, "web", 1200 * time.Millisecond},
		{placementKind, "all", 200 * time.Millisecond},
	} {
		if got := s.paceOf(test.kind, test.name); got != test.want {
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
		if got := s.paceOfProgress(test.run, test.placement); got != test.want {
			t.Errorf("placement %s for run %s: every %v, want %v", test.placement, test.run, got, test.want)
		}
	}
}
