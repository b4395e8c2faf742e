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
	// RollbackOf returns the state of the rollback of a run, as Engine.RollbackOf does. It is asked of a run that has
	// ended.
	RollbackOf(ctx context.Context, run string) (fleet.Rollback, error)
}

// Options are how a run is watched. The zero value is fine.
type Options struct {
	// Getenv reads the environment: NO_COLOR, TERM and the locale; os.Getenv when nil.
	Getenv func(string) string
	// Interval is how often the source is read; 500 ms when 0.
	Interval time.Duration
	// Forecast returns when the run will end if people approve at once, as Forecast.Ends of package fleet has it; the
	// zero time if that is not known. It is called every ten seconds, one call at a time; an error counts as not known.
	// Nil shows no end.
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
	// Over reports whether nothing more is waited for; nil waits until the run has ended and, if it is rolled back, the
	// run that does so.
	Over func(*fleet.Status) bool
	// Left says what becomes of the run when the watch is left by q; "the run goes on" if it is empty.
	Left string
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

func (o *Options) left() string { return cmp.Or(o.Left, "the run goes on") }

// reading is a run as it was read.
type reading struct {
	status   fleet.Status
	history  fleet.History
	rollback fleet.Rollback
}

// next decides how a watch goes on after a reading: over ends it, and a name is that of the run which is shown from now
// on, because it rolls back the one that was read.
func (o *Options) next(r *reading) (run string, over bool) {
	switch back := &r.rollback; {
	case o.Over != nil && o.Over(&r.status):
		return "", true
	case r.status.Run.IsEnded() && back.By != "" && back.State != "":
		return back.By, false
	default:
		return "", o.Over == nil && r.status.Run.IsEnded() && isOver(back)
	}
}

// isOver reports whether nothing more happens by the rollback of a run that has ended.
func isOver(back *fleet.Rollback) bool {
	by := stages.Run{State: back.State}
	return !back.Pending && (back.State == "" || by.IsEnded())
}

// Run shows a run until it has ended, and returns it as it was read last. A run that is rolled back is followed by the
// run that does so, until that has ended: the title of a frame and each line say which of the two they show.
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
	r, err := read(ctx, src, run, after)
	if err != nil {
		return r.status, err
	}
	if terminal {
		return draw(ctx, src, r, in, out, &o)
	}
	return print(ctx, src, r, out, &o)
}

// IsTerminal reports whether [Run] draws on a writer: it is a terminal, and not a dumb one by TERM.
func IsTerminal(out io.Writer, getenv func(string) string) bool {
	f, is := out.(term.File)
	return is && term.IsTerminal(f.Fd()) && getenv("TERM") != "dumb"
}

// read reads the source. That old events are not kept is no error, nor that the placement of a run that has ended is gone.
func read(ctx context.Context, src Source, run string, after int64) (r reading, err error) {
	r.status, r.history, err = src.Progress(ctx, run, after)
	if missed, is := errors.AsType[*fleet.MissedError](err); is && missed != nil {
		err = nil
	}
	if err == nil && r.status.Run.IsEnded() {
		r.rollback, err = src.RollbackOf(ctx, run)
		if errors.Is(err, backend.ErrNotFound) {
			err = nil
		}
	}
	return r, err
}

// isFinal reports whether reading again is of no use.
func isFinal(err error) bool {
	return errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPermanent)
}

// print prints the events as lines, and what the run waits for if there is a hint.
func print(ctx context.Context, src Source, r reading, out io.Writer, o *Options) (fleet.Status, error) {
	p := printer{out: out, o: o, hinted: map[string]bool{}}
	asked := r.status
	for {
		if err := p.print(&r); err != nil {
			return asked, err
		}
		run, over := o.next(&r)
		switch {
		case over:
			return asked, nil
		case run != "":
			r.history.Next = 0
		default:
			run = r.status.Run.Name
			if err := wait(ctx, o.interval()); err != nil {
				return asked, err
			}
		}
		next, err := read(ctx, src, run, r.history.Next)
		switch {
		case err == nil:
			r, p.said = next, ""
			if run == asked.Run.Name {
				asked = r.status
			}
			continue
		case ctx.Err() != nil:
			return asked, ctx.Err()
		case isFinal(err):
			return asked, err
		}
		r.history.Events = nil
		if err := p.unread(run, err); err != nil {
			return asked, err
		}
	}
}

// printer writes what was read as lines.
type printer struct {
	out io.Writer
	o   *Options
	// said is why the source could not be read last, hinted has the waits that have a line.
	said   string
	hinted map[string]bool
}

func (p *printer) print(r *reading) error {
	for i := range r.history.Events {
		if _, err := fmt.Fprintln(p.out, Line(r.history.Events[i])); err != nil {
			return err
		}
	}
	for _, a := range waits(&r.status) {
		key := fmt.Sprint(r.status.Run.Name, a.Kind, a.Name, a.Until)
		if p.o.Hint == nil || p.hinted[key] || p.o.Hint(a) == "" {
			continue
		}
		p.hinted[key] = true
		now := time.Now().UTC()
		if _, err := fmt.Fprintln(p.out, LineOf(now, "Waiting", []string{r.status.Run.Name}, waitingFor(&a, now, p.o.Hint))); err != nil {
			return err
		}
	}
	return nil
}

// unread says once that a run could not be read.
func (p *printer) unread(run string, err error) error {
	if err.Error() == p.said {
		return nil
	}
	p.said = err.Error()
	_, err = fmt.Fprintln(p.out, LineOf(time.Now(), "Unread", []string{run}, p.said))
	return err
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
