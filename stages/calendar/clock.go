package calendar

import (
	"strings"
	"time"
	_ "time/tzdata" // the zones for systems without them

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// zone returns the time zone with a name.
func zone(at *field.Path, name string) (*time.Location, *field.Error) {
	const right = "is not the name of a time zone in the IANA database"
	if name == "" {
		return time.UTC, nil
	}
	if name == "Local" {
		return time.UTC, field.Invalid(at, name, "means another zone on every host; name it, for example Europe/Berlin")
	}
	loc, err := time.LoadLocation(name)
	if err == nil {
		return loc, nil
	}
	if meant := spelled(name); meant != "" {
		return time.UTC, field.Invalid(at, name, right+": it is "+meant)
	}
	return time.UTC, field.Invalid(at, name, right+", which are for example Europe/Berlin and UTC")
}

// spelled returns the zone whose name differs only in case and blanks, or "".
func spelled(name string) string {
	parts := strings.Split(strings.ReplaceAll(strings.TrimSpace(name), " ", "_"), "/")
	for i, part := range parts {
		words := strings.Split(strings.ToLower(part), "_")
		for j, w := range words {
			if w != "" {
				words[j] = strings.ToUpper(w[:1]) + w[1:]
			}
		}
		parts[i] = strings.Join(words, "_")
	}
	for _, meant := range []string{strings.Join(parts, "/"), strings.ToUpper(name)} {
		if _, err := time.LoadLocation(meant); err == nil && meant != "" {
			return meant
		}
	}
	return ""
}

// wallClock returns the wall time of loc at t. Wall times are represented in UTC, so that they
// have no gaps and can be used in calculations.
func wallClock(t time.Time, loc *time.Location) time.Time {
	_, offset := t.In(loc).Zone()
	return t.UTC().Add(time.Duration(offset) * time.Second)
}

// instant returns the first instant when the clocks of loc show a wall time or a later one. It
// does not decrease when wall increases.
func instant(wall time.Time, loc *time.Location) time.Time {
	// No zone is 36 hours from UTC, so the clocks have not reached wall at t.
	t := wall.Add(-36 * time.Hour)
	for {
		local := t.In(loc)
		_, offset := local.Zone()
		at := wall.Add(-time.Duration(offset) * time.Second)
		if at.Before(t) {
			at = t // the clocks have just skipped it
		}
		_, end := local.ZoneBounds()
		if !end.IsZero() && !end.After(t) {
			// ZoneBounds ends a year of a zone's rules after 365 days: on the last day of a leap year,
			// which is in the past. No zone changes its clocks then.
			end = t.Add(day)
		}
		if end.IsZero() || at.Before(end) {
			return at
		}
		t = end.UTC()
	}
}

// parseLocal reads a local time as a wall time.
func parseLocal(text string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// parseTime reads a time with an offset, or a local one.
func parseTime(text string, loc *time.Location) (time.Time, bool) {
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), true
	}
	wall, ok := parseLocal(text)
	return instant(wall, loc), ok
}
