package stages

import "time"

// Instant is a moment in milliseconds since the Unix epoch; 0 is none. Runs keep times this way so
// that a time does not change when it is stored.
type Instant int64

// At returns t as an Instant, rounded down.
func At(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixMilli())
}

// Time returns the moment in UTC, and the zero time for 0.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(i)).UTC()
}

// Duration returns a difference of moments.
func (i Instant) Duration() time.Duration { return time.Duration(i) * time.Millisecond }

// Add returns the moment d later, rounded up, so that a wait never ends early.
func (i Instant) Add(d time.Duration) Instant {
	return i + Instant((d+time.Millisecond-1)/time.Millisecond)
}

// LastInstant is the latest moment that a run may name: the end of the year 9990. The limit exists
// because events after the year 9999 cannot be stored. The time of a run stays before LastNow, so
// that its waits end by LastInstant.
const (
	LastInstant = Instant(253118303999999)
	LastNow     = LastInstant - 366*24*3600*1000
)
