package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// unreadable stands for something that is not shown.
type unreadable struct {
	Error string `json:"error"`
}

// listEvents shows what happened.
func listEvents(ctx context.Context, v *view) error {
	if _, err := v.runs(ctx); err != nil { // whether what is asked for is there
		return err
	}
	some := false
	err := v.past(ctx, func(e stages.Event) {
		if v.run != "" && v.run != e.Run {
			return
		}
		some = true
		if v.json {
			v.object(e)
		} else {
			v.para(4, eventText(e))
		}
	})
	if !some && !v.json {
		v.write("  no events\n")
	}
	return err
}

// past tells each event, and shows what cannot be read.
func (v *view) past(ctx context.Context, tell func(stages.Event)) error {
	f, err := v.engine.Follow(v.placement, "")
	if err != nil {
		return err
	}
	for e, err := range f.Past(ctx) {
		switch {
		case err == nil:
			tell(e)
		case ctx.Err() != nil:
			return err
		default:
			v.showUnreadable(err)
		}
	}
	return nil
}

func (v *view) showUnreadable(err error) {
	problem := v.failed(err)
	if v.json {
		v.object(unreadable{problem})
		return
	}
	v.para(4, remarksOf(problem)[0])
}

// eventText is an event in words: when, what, where, and whatever else it has.
func eventText(e stages.Event) string {
	where := joined("/", e.Run, e.Stage, e.Group, e.Cluster)
	if where == "" {
		where = e.Placement
	}
	return joined(" ", moment(e.Time), string(e.Type), where, eventDetails(e))
}

func eventDetails(e stages.Event) string {
	var out []string
	add := func(is bool, format string, args ...any) {
		if is {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	if e.Index != nil {
		add(true, "index=%d", *e.Index)
	}
	add(e.Digest != "", "digest=%s", shorten(e.Digest))
	add(e.Count != 0, "count=%d", e.Count)
	add(e.Attempt > 1, "attempt=%d", e.Attempt)
	add(e.Epoch != 0, "epoch=%d", e.Epoch)
	add(e.Request != "", "request=%s", e.Request)
	add(e.Command != "", "command=%s", e.Command)
	add(e.By != "", "by=%s", e.By)
	add(e.Unchanged, "unchanged")
	add(!e.Until.IsZero(), "until=%s", e.Until.UTC().Format(time.RFC3339))
	add(e.Message != "", "message=%q", e.Message)
	return strings.Join(out, " ")
}
