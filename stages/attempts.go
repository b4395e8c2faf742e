package stages

import "time"

// removalDeadline is the default of Removal.Deadline.
const removalDeadline = 5 * time.Minute

// attempts is how often a cluster is tried; 0 is without end.
func attempts(s *Strategy) int {
	switch {
	case s.Attempts > 0:
		return s.Attempts
	case s.Attempts < 0:
		return 0
	case s.Profile == ClusterUpdate:
		return 1
	case s.Profile == Workflow:
		return 11
	default:
		return 0
	}
}

// backoff is the wait after an attempt.
func backoff(s *Strategy, attempt int) time.Duration {
	wait, limit := s.Backoff, maxBackoff(s)
	if wait <= 0 {
		wait = time.Second
	}
	for i := 1; i < attempt && wait < limit; i++ {
		wait *= 2
	}
	return min(wait, limit)
}

func maxBackoff(s *Strategy) time.Duration {
	if s.MaxBackoff > 0 {
		return s.MaxBackoff
	}
	return max(time.Minute, s.Backoff)
}

// deadline is how long a cluster of the current stage may take; 0 for ever.
func (d *draft) deadline() time.Duration {
	if st, _, ok := d.stage(); ok && st.Remove {
		if limit := d.p.Strategy.Removal.Deadline; limit > 0 {
			return limit
		}
		return removalDeadline
	}
	return d.p.Strategy.ProgressDeadline
}

// late reports whether the deadline of a cluster has passed.
func (d *draft) late(f *Flight, deadline time.Duration) bool {
	return deadline > 0 && d.now >= f.Started.Add(deadline)
}
