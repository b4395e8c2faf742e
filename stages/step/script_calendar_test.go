package step

import (
	"strings"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// scriptCalendar has the windows of clusters, by name, relative to the beginning of the script. A
// cluster without an entry has no windows; an entry without spans is never open.
type scriptCalendar struct {
	plan    *stages.Plan
	spans   map[string][]scriptSpan
	reasons map[string]string
}

type scriptSpan struct{ from, to time.Duration }

// Window returns the window of a cluster.
func (c *scriptCalendar) Window(pos int, at time.Time) stages.Window {
	name := c.plan.Clusters[pos].Name
	spans, limited := c.spans[name]
	if !limited {
		return stages.Window{}
	}
	now := at.Sub(scriptEpoch)
	w := stages.Window{Limited: true, Reason: c.reasons[name]}
	for _, s := range spans {
		switch {
		case now >= s.to:
		case now >= s.from:
			return stages.Window{Limited: true, Open: true, Until: scriptEpoch.Add(s.to)}
		case w.Until.IsZero():
			w.Until = scriptEpoch.Add(s.from)
		}
	}
	return w
}

// setCalendar reads lines with a cluster and its spans, such as "m1 1h-2h 25h-26h".
func (w *scriptEnv) setCalendar(input string) string {
	w.calendar = nil
	for line := range strings.Lines(input) {
		if w.calendar == nil {
			w.calendar = &scriptCalendar{spans: map[string][]scriptSpan{}, reasons: map[string]string{}}
		}
		a := parseArgs(line)
		w.calendar.spans[a.word(0)] = nil
		w.calendar.reasons[a.word(0)] = a.get("reason", "")
		for _, word := range a.words[1:] {
			from, to, _ := strings.Cut(word, "-")
			var s scriptSpan
			var err error
			if s.from, err = time.ParseDuration(from); err == nil {
				s.to, err = time.ParseDuration(to)
			}
			if err != nil {
				return err.Error() + "\n"
			}
			w.calendar.spans[a.word(0)] = append(w.calendar.spans[a.word(0)], s)
		}
	}
	w.newCalendar = true
	return ""
}

// say carries out directives, and returns the output of the last one.
func (w *scriptEnv) say(directives ...string) (out string) {
	for _, d := range directives {
		out = w.do(scriptBlock{directive: d})
	}
	return out
}
