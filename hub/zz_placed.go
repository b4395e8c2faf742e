package hub

import (
	"context"
	"iter"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// Temporary, until Engine.Placed is there.
type placedNow struct {
	Name, UID string
	Index     int
	Revision  string
	Tried     int
	Run       string
	State     stages.State
	Since     time.Time
}

func (s *service) placed(ctx context.Context, placement string) iter.Seq2[placedNow, error] {
	return func(yield func(placedNow, error) bool) {
		names, _ := s.engine.Runs(ctx, placement)
		m := map[string]placedNow{}
		for _, n := range names {
			st, err := s.engine.Status(ctx, n)
			if err != nil {
				continue
			}
			for _, c := range st.Plan.Clusters {
				x := placedNow{Name: c.Name, UID: c.UID, Index: -1, Tried: st.Plan.Index}
				if st.Run.State == stages.Completed {
					x.Index, x.Since = st.Plan.Index, st.Run.Ended.Time()
				} else {
					x.Run, x.State = n, stages.Running
				}
				m[c.Name] = x
			}
		}
		for _, c := range m {
			if !yield(c, nil) {
				return
			}
		}
	}
}
