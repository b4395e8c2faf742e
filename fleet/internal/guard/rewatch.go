package guard

import (
	"context"
	"iter"
	"time"

	"github.com/slipway-dev/slipway/internal/backoff"
)

// Rewatch restarts a watch whenever it ends, with a pause in between.
func Rewatch(ctx context.Context, watch func() iter.Seq2[struct{}, error], poll time.Duration) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		pause := backoff.Poll(poll).Spread()
		for {
			for _, err := range watch() {
				if err == nil {
					pause.Reset()
				}
				if !yield(struct{}{}, err) {
					return
				}
			}
			if !pause.Wait(ctx) {
				return
			}
		}
	}
}
