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
	"github.com/slipway-dev/slipway/stages/step"
)

// Errors that end [Run] before the run has ended.
var (
	// ErrLeft reports that q was pressed. The run continues.
	ErrLeft = errors.New("the watch has ended: the run continues")
	// ErrInterrupted reports that Ctrl-C was pressed. The run continues. It matches
	// context.Canceled.
	ErrInterrupted = fmt.Errorf("interrupted, the run continues: %w", context.Canceled)
)

// Source provides runs: a *fleet.Engine, or a client of one.
type Source[R Handle] interface {
	// Run returns the handle of the run of that name.
	Run(name string) R
}

// Handle reads one run: a [fleet.RunHandle], or the handle of a client.
type Handle interface {
	// History returns the run, and its events from number after on, like [fleet.RunHandle.History].
	History(ctx context.Context, after int64) (fleet.History, error)
	// RollbackStatus returns the state of the rollback of the run, like
	// [fleet.RunHandle.RollbackStatus]. It is called for a run that has ended.
	RollbackStatus(ctx context.Context) (fleet.Rollback, error)
}

// Options say how a run is watched. The zero value is useful.
type Options struct {
	// Getenv reads the environment: NO_COLOR, TERM and the locale; os.Getenv when nil.
	Getenv func(string) string
	// Interval is the interval of reads of the source; 0 means 500 ms.
	Interval time.Duration
	// Forecast returns when the run will end if people approve at once, like Forecast.Ends of
	// package fleet; the zero time if that is unknown. It is called every ten seconds, one call at
	// a time; an error counts as unknown. Nil shows no end.
	Forecast func(ctx context.Context, run string) (time.Time, error)
	// Decide answers the displayed request of the run, for the person at the terminal. Its error is
	// displayed. Nil offers no answers.
	Decide func(ctx context.Context, r approval.Request, v approval.Verdict) error
	// Hint returns how a person can end a reason for waiting, for example by a command, "" if none
	// can. It is displayed with the reason. If events are printed as lines, a reason with a hint
	// has its own line, even if it began before. Nil gives no hints.
	Hint func(stages.Awaited) string
	// Shown returns the displayed form of names that the plan has: of the placement, and of the run
	// that is rolled back. Nil shows them unchanged. On a hub the
	// names in a plan differ from those of objects, which Hub.Shown of package hubapi returns.
	Shown func(name string) string
	// After is the number of the first event that is printed, which is [fleet.History].Next of an
	// earlier reading; 0 is the first event that is kept.
	After int64
	// Over reports whether watching may end; nil waits until the run and its rollback run, if there
	// is one, have ended.
	Over func(*fleet.Status) bool
	// Left is the message about the run after q ends the watch; empty means "the run goes on".
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

// reading is a run in the state of one reading.
type reading struct {
	status   fleet.Status
	history  fleet.History
	rollback fleet.Rollback
}

// next decides how a watch continues after a reading: over ends it, and a name is the rollback
// run to show from now on.
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

// isOver reports whether the rollback of an ended run is finished.
func isOver(back *fleet.Rollback) bool {
	by := step.Run{State: back.State}
	return !back.Pending && (back.State == "" || by.IsEnded())
}

// Run shows a run until it has ended, and returns its last state. If the run is rolled back, the
// rollback run follows, until it has ended: the title of a frame and each line name the run that
// they show.
//
// If out is a terminal, Run draws on it: q and Ctrl-C leave, with [ErrLeft] and [ErrInterrupted],
// and Ctrl-Z suspends. With Options.Decide, a shows an open request with its subject before it is
// answered. The last frame stays. Keys are read from in if that is a terminal. Elsewhere every
// event is a line, from the first event that is kept.
//
// The error is the error of ctx if it ends, an error of the output, or an error of the source if
// the run does not exist or cannot be read at first. After a later error the source is read
// again, and the error is displayed.
func Run[R Handle](ctx context.Context, src Source[R], run string, in io.Reader, out io.Writer, o Options) (fleet.Status, error) {
	terminal, after := IsTerminal(out, o.getenv()), o.After
	if terminal {
		after = 0 // a frame shows how long clusters are in their phase
	}
	handle := func(name string) Handle { return src.Run(name) }
	r, err := read(ctx, handle(run), after)
	if err != nil {
		return r.status, err
	}
	if terminal {
		return draw(ctx, handle, r, in, out, &o)
	}
	return print(ctx, handle, r, out, &o)
}

// IsTerminal reports whether [Run] draws on a writer: it is a terminal, and TERM is not dumb.
func IsTerminal(out io.Writer, getenv func(string) string) bool {
	f, is := out.(term.File)
	return is && term.IsTerminal(f.Fd()) && getenv("TERM") != "dumb"
}

// read reads a run. It ignores that old events are not kept, and that the placement of an
// ended run no longer exists.
func read(ctx context.Context, run Handle, after int64) (r reading, err error) {
	r.history, err = run.History(ctx, after)
	r.status = r.history.Status
	if missed, is := errors.AsType[*fleet.MissedError](err); is && missed != nil {
		err = nil
	}
	if err == nil && r.status.Run.IsEnded() {
		r.rollback, err = run.RollbackStatus(ctx)
		if errors.Is(err, backend.ErrNotFound) {
			err = nil
		}
	}
	return r, err
}

// isFinal reports whether another reading would fail the same way.
func isFinal(err error) bool {
	return errors.Is(err, backend.ErrNotFound) || errors.Is(err, backend.ErrPermanent)
}

// print prints the events as lines, and the reasons for waiting with a hint.
func print(ctx context.Context, handle func(string) Handle, r reading, out io.Writer, o *Options) (fleet.Status, error) {
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
		next, err := read(ctx, handle(run), r.history.Next)
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

// printer prints readings as lines.
type printer struct {
	out io.Writer
	o   *Options
	// said is the last error of the source, hinted has the reasons for waiting that were printed.
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

// unread prints once that a run could not be read.
func (p *printer) unread(run string, err error) error {
	if unread(err) == p.said {
		return nil
	}
	p.said = unread(err)
	_, err = fmt.Fprintln(p.out, LineOf(time.Now(), "Unread", []string{run}, p.said))
	return err
}

// unread says that a run could not be read, and why.
func unread(err error) string { return err.Error() + "; trying again" }

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
