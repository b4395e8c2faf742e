package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// Errors that end [Run] before the run has ended.
var (
	// ErrLeft says that q was pressed. The run goes on.
	ErrLeft = errors.New("the watch was left: the run goes on")
	// ErrInterrupted says that Ctrl-C was pressed. The run goes on. It matches context.Canceled.
	ErrInterrupted = fmt.Errorf("interrupted, the run goes on: %w", context.Canceled)
)

// Source is where a run is read: a *fleet.Engine, or a client of one.
type Source interface {
	// Progress returns the run, and its events from number after on, as Engine.Progress does.
	Progress(ctx context.Context, run string, after int64) (fleet.Status, fleet.History, error)
}

// Options are how a run is watched. The zero value is fine.
type Options struct {
	// Getenv reads the environment: NO_COLOR, TERM and the locale; os.Getenv when nil.
	Getenv func(string) string
	// Interval is how often the source is read; 500 ms when 0.
	Interval time.Duration
	// Forecast returns when the run will end, the zero time where that is not known. It is called every ten
	// seconds, one call at a time; an error counts as not known. Nil shows no end.
	Forecast func(ctx context.Context, run string) (time.Time, error)
	// Decide answers a request of the run that was shown, for the person at the terminal. Its error is shown. Nil
	// offers no answers.
	Decide func(ctx context.Context, r approval.Request, v approval.Verdict) error
	// Hint says how a person ends what the run waits for, for example by which command, "" where none does. It is shown
	// with that, and where events are lines, what it is said of has a line of its own, also if it began before. Nil says
	// nothing.
	Hint func(stages.Awaited) string
	// After is the number of the first event that is a line, as [fleet.History] has it in Next; 0 is the first one that
	// is kept.
	After int64
	// Over reports whether nothing more is waited for; nil waits until the run has ended.
	Over func(*fleet.Status) bool
}

const (
	defaultInterval = 500 * time.Millisecond
	forecastEvery   = 10 * time.Second
)

func (o *Options) style() Style { return StyleOf(o.getenv()) }

func (o *Options) getenv() func(string) string {
	if o.Getenv != nil {
		return o.Getenv
	}
	return os.Getenv
}

func (o *Options) interval() time.Duration { return cmp.Or(o.Interval, defaultInterval) }

func (o *Options) over(s *fleet.Status) bool {
	if o.Over != nil {
		return o.Over(s)
	}
	return s.Run.IsEnded()
}

// Run shows a run until it has ended, and returns it as it was read last.
//
// Where out is a terminal it is drawn on: q and Ctrl-C leave, with [ErrLeft] and [ErrInterrupted], Ctrl-Z suspends,
// and a, where Options.Decide is set, shows an open request with what it is about before it is answered. The last
// frame stays. Keys are read from in where that is a terminal. Elsewhere every event is a line, beginning with the
// first one that is kept.
//
// The error is that of ctx where that ends, that of the output, and that of the source where the run does not exist
// or cannot be read at first. Later the source is read again, and the error is shown.
func Run(ctx context.Context, src Source, run string, in io.Reader, out io.Writer, o Options) (fleet.Status, error) {
	terminal, after := IsTerminal(out, o.getenv()), o.After
	if terminal {
		after = 0 // a frame shows since when clusters are in their phase
	}
	status, history, err := read(ctx, src, run, after)
	if err != nil {
		return status, err
	}
	if terminal {
		return draw(ctx, src, status, history, in, out, &o)
	}
	return print(ctx, src, status, history, out, &o)
}

// IsTerminal reports whether [Run] draws on a writer: it is a terminal, and not a dumb one by TERM.
func IsTerminal(out io.Writer, getenv func(string) string) bool {
	f, is := out.(term.File)
	return is && term.IsTerminal(f.Fd()) && getenv("TERM") != "dumb"
}

// read reads the source. That old events are not kept is no error.
func read(ctx context.Context, src Source, run string, after int64) (fleet.Status, fleet.History, error) {
	status, history, err := src.Progress(ctx, run, after)
	if missed, is := errors.AsType[*fleet.MissedError](err); is && missed != nil {
		err = nil
	}
	return status, history, err
}

// isFinal reports whether reading again is of no use.
func isFinal(err error) bool {
	return errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPermanent)
}

// print prints the events as lines, and what the run waits for where there is a hint.
func print(ctx context.Context, src Source, status fleet.Status, h fleet.History, out io.Writer, o *Options) (fleet.Status, error) {
	said, hinted := "", map[string]bool{}
	for {
		var lines []string
		for i := range h.Events {
			lines = append(lines, Line(h.Events[i]))
		}
		for _, a := range waits(&status) {
			key := fmt.Sprint(a.Kind, a.Name, a.Until)
			if o.Hint == nil || hinted[key] || o.Hint(a) == "" {
				continue
			}
			hinted[key] = true
			now := time.Now().UTC()
			lines = append(lines, LineOf(now, "Waiting", []string{status.Run.Name}, waitingFor(&a, now, o.Hint)))
		}
		for _, line := range lines {
			if _, err := fmt.Fprintln(out, line); err != nil {
				return status, err
			}
		}
		if o.over(&status) {
			return status, nil
		}
		if err := wait(ctx, o.interval()); err != nil {
			return status, err
		}
		s, next, err := read(ctx, src, status.Run.Name, h.Next)
		switch {
		case err == nil:
			status, h, said = s, next, ""
			continue
		case ctx.Err() != nil:
			return status, ctx.Err()
		case isFinal(err):
			return status, err
		}
		if h.Events = nil; err.Error() != said {
			said = err.Error()
			if _, err := fmt.Fprintln(out, LineOf(time.Now(), "Unread", []string{status.Run.Name}, said)); err != nil {
				return status, err
			}
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
