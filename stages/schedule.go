package stages

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Next returns the first time of the schedule that is later than the given time, in UTC. It never
// returns the given time itself.
func (s *Schedule) Next(after time.Time) time.Time {
	offset, _ := parseOffset(s.Offset)
	clock, _ := parseClock(s.Time)
	local := after.UTC().Add(offset)
	at := time.Date(local.Year(), local.Month(), local.Day(), 0, 0, 0, 0, time.UTC).Add(clock)
	for !at.After(local) || s.Day != "" && at.Weekday().String() != s.Day {
		at = at.AddDate(0, 0, 1)
	}
	return at.Add(-offset)
}

// problems returns what is wrong with a schedule at a path.
func (s *Schedule) problems(at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Day != "" && !slices.Contains(days(), s.Day) {
		errs = append(errs, field.NotSupported(at.Child("day"), s.Day, days()))
	}
	if _, ok := parseClock(s.Time); !ok {
		errs = append(errs, field.Invalid(at.Child("time"), s.Time, "must be a time of day from 00:00 to 23:59, for example 09:30"))
	}
	if _, ok := parseOffset(s.Offset); !ok {
		errs = append(errs, field.Invalid(at.Child("offset"), s.Offset, "must be a distance from UTC from -12:00 to +14:00, for example +05:30, or empty"))
	}
	return errs
}

// days are the names of the days, from Sunday.
func days() []string {
	days := make([]string, 7)
	for i := range days {
		days[i] = time.Weekday(i).String()
	}
	return days
}

// parseClock reads a time of day, as the time since midnight.
func parseClock(s string) (time.Duration, bool) {
	hour, minute, ok := strings.Cut(s, ":")
	h, okHour := parseTwoDigits(hour, 23)
	m, okMinute := parseTwoDigits(minute, 59)
	return time.Duration(h)*time.Hour + time.Duration(m)*time.Minute, ok && okHour && okMinute
}

// parseOffset reads a distance from UTC; none is UTC.
func parseOffset(s string) (time.Duration, bool) {
	if s == "" {
		return 0, true
	}
	d, ok := parseClock(s[1:])
	switch s[0] {
	case '+':
		return d, ok && d <= 14*time.Hour
	case '-':
		return -d, ok && d <= 12*time.Hour
	default:
		return 0, false
	}
}

func parseTwoDigits(s string, most int) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 8)
	return int(n), err == nil && len(s) == 2 && int(n) <= most
}
