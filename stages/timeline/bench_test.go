package timeline_test

import (
	"io"
	"testing"

	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/timeline"
)

// BenchmarkPicture makes the picture of a run of 10,000 clusters and draws it.
func BenchmarkPicture(b *testing.B) {
	s := samples()["groups"]
	p, err := simulate.NewPlan(s.strategy, s.clusters)
	if err != nil {
		b.Fatal(err)
	}
	var events []simulate.Event
	if _, err := simulate.Run(p, s.w, func(e simulate.Event) error {
		events = append(events, e)
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			timeline.Simulated(p, events, timeline.Options{})
		}
	})
	picture := timeline.Simulated(p, events, timeline.Options{})
	b.Run("svg", func(b *testing.B) {
		for b.Loop() {
			if err := timeline.SVG(io.Discard, picture, timeline.SVGOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("text", func(b *testing.B) {
		for b.Loop() {
			if err := timeline.Text(io.Discard, picture, timeline.TextOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
