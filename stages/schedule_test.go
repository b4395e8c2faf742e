package stages

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// scheduleOracle is the first minute strictly after a moment that the wall clock at the offset
// shows as the schedule says. It searches minute by minute and needs no arithmetic with days.
func scheduleOracle(s Schedule, offset time.Duration, after time.Time) time.Time {
	zone := time.FixedZone("", int(offset/time.Second))
	for at := after.UTC().Truncate(time.Minute); ; at = at.Add(time.Minute) {
		local := at.In(zone)
		if at.After(after) && local.Format("15:04") == s.Time && (s.Day == "" || local.Format("Monday") == s.Day) {
			return at
		}
	}
}

func TestScheduledStartAgreesWithAMinuteCalendar(t *testing.T) {
	rnd := rand.New(rand.NewPCG(6, 11))
	days := append(days(), "")
	for range 300 {
		s := Schedule{Day: days[rnd.IntN(len(days))], Time: fmt.Sprintf("%02d:%02d", rnd.IntN(24), rnd.IntN(60))}
		offset := time.Duration(rnd.IntN(26*60+1)-12*60) * time.Minute
		sign, size := "+", offset
		if offset < 0 {
			sign, size = "-", -offset
		}
		s.Offset = fmt.Sprintf("%s%02d:%02d", sign, int(size.Hours()), int(size.Minutes())%60)
		after := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rnd.Int64N(int64(2 * 365 * 24 * time.Hour))))
		if rnd.IntN(4) == 0 { // exactly at it
			after = scheduleOracle(s, offset, after)
		}
		if problems := s.problems(nil); len(problems) > 0 {
			t.Fatalf("%+v: %v", s, problems)
		}
		if want, got := scheduleOracle(s, offset, after), s.Next(after); !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%+v after %s is %s, want %s", s, after, got, want)
		}
	}
}

func TestAScheduledStartIsStrictlyInTheFuture(t *testing.T) {
	at := func(day, hour int) time.Time { return time.Date(2026, 1, day, hour, 0, 0, 0, time.UTC) } // the 7th is a Wednesday
	for name, tt := range map[string]struct {
		s           Schedule
		after, want time.Time
	}{
		"an hour late is next week":        {Schedule{Day: "Wednesday", Time: "02:00"}, at(7, 3), at(14, 2)},
		"exactly then is next week":        {Schedule{Day: "Wednesday", Time: "02:00"}, at(7, 2), at(14, 2)},
		"a moment before is the same day":  {Schedule{Day: "Wednesday", Time: "02:00"}, at(7, 2).Add(-1), at(7, 2)},
		"every day":                        {Schedule{Time: "02:00"}, at(7, 2), at(8, 2)},
		"the day is that of the offset":    {Schedule{Day: "Wednesday", Time: "01:00", Offset: "+14:00"}, at(5, 0), at(6, 11)},
		"the day begins later in the west": {Schedule{Day: "Wednesday", Time: "23:00", Offset: "-12:00"}, at(7, 0), at(8, 11)},
		"half an hour":                     {Schedule{Time: "05:30", Offset: "+05:30"}, at(7, 1), at(8, 0)},
	} {
		if got := tt.s.Next(tt.after); !got.Equal(tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
