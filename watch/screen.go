package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/term"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages/step"
)

// draw shows the run on a terminal, and leaves the last frame there.
func draw(ctx context.Context, handle func(string) Handle, r reading, in io.Reader, out io.Writer, o *Options) (fleet.Status, error) {
	s := &screen{ctx: ctx, handle: handle, o: o, style: o.style(), stop: make(chan os.Signal, 1), run: r.status.Run.Name}
	s.show(&r)
	notifyStop(s.stop)
	defer signal.Stop(s.stop)
	for !s.over && s.err == nil && ctx.Err() == nil {
		if err := s.hold(in, out); err != nil {
			return s.asked().Status, err
		}
		if s.suspended {
			s.suspended = false
			suspend()
		}
	}
	width, height := 80, 24
	if f, is := out.(term.File); is {
		if w, h, err := term.GetSize(f.Fd()); err == nil && w > 0 && h > 1 {
			width, height = w, h
		}
	}
	var err error
	for _, m := range s.last() {
		_, written := fmt.Fprintln(out, Frame(m, width, height-1, s.style))
		err = errors.Join(err, written)
	}
	return s.asked().Status, errors.Join(s.err, ctx.Err(), err)
}

// last returns the models of the last frames: the run and, if it is rolled back, the rollback
// run.
func (s *screen) last() []Model {
	s.model.Now, s.model.Footer = time.Now(), nil
	if s.before == nil {
		return []Model{s.model}
	}
	s.before.Now, s.before.Footer, s.before.Rollback.State = s.model.Now, nil, s.model.Status.Run.State
	return []Model{*s.before, s.model}
}

// asked returns the run that the watch was started with.
func (s *screen) asked() *Model {
	if s.before != nil {
		return s.before
	}
	return &s.model
}

// show updates the model with a reading, and decides how the watch continues. A run of another
// name is the rollback run of the displayed one.
func (s *screen) show(r *reading) {
	if m := s.model; m.Status.Plan != nil && m.Status.Run.Name != r.status.Run.Name {
		s.before, s.model = &m, Model{Now: m.Now}
	}
	s.model.Status, s.model.Rollback, s.model.Hint, s.model.Shown = r.status, r.rollback, s.o.Hint, s.o.Shown
	s.model, s.next = s.model.Observe(r.history.Events), r.history.Next
	var other string
	if other, s.over = s.o.next(r); other != "" {
		s.run, s.next = other, 0
	}
}

// hold has the terminal until the watch ends or must be suspended. After a suspension a new
// program draws on it, so that nothing of the earlier drawing is left.
func (s *screen) hold(in io.Reader, out io.Writer) error {
	options := []tea.ProgramOption{tea.WithOutput(out), tea.WithInput(nil), tea.WithoutSignalHandler()}
	if f, is := in.(term.File); is && term.IsTerminal(f.Fd()) {
		options, s.keys = append(options, tea.WithInput(in)), true
	}
	p := tea.NewProgram(s, options...)
	defer context.AfterFunc(s.ctx, p.Quit)()
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-s.stop:
			p.Send(toSuspend{})
		case <-ended:
		}
	})
	_, err := p.Run()
	close(ended)
	watching.Wait()
	return err
}

// screen is the program on the terminal. Only one goroutine calls its methods.
type screen struct {
	ctx    context.Context
	handle func(string) Handle
	o      *Options
	style  Style
	stop   chan os.Signal
	keys   bool

	model Model
	// before is the run that the watch was started with, once its rollback run is shown.
	before *Model
	// run is the run to read next, next the number of its next event.
	run           string
	next          int64
	width, height int
	over          bool
	suspended     bool
	// err is why the watch ends before the run does.
	err error
	// request is the displayed request, passed how many were left open. said is the result of the
	// last answer, or why the source cannot be read.
	request *approval.Request
	passed  int
	// choice is the answer that Enter gives; empty if none is chosen.
	choice approval.Verdict
	said   string
}

type (
	// wasRead is a result of the source.
	wasRead struct {
		reading
		err error
	}
	// toSuspend requests to suspend the program.
	toSuspend struct{}
	// due requests to read the source.
	due struct{}
	// foreseen is a forecast.
	foreseen struct{ end time.Time }
	// forecastDue requests a forecast.
	forecastDue struct{}
	// answered is the result of an answer.
	answered struct {
		text string
		err  error
	}
)

// Init starts reading.
func (s *screen) Init() tea.Cmd { return tea.Batch(s.read(), s.forecast()) }

// read returns the command that reads the source. A command runs concurrently with Update, so it
// captures the required parts of the screen.
func (s *screen) read() tea.Cmd {
	run, next := s.run, s.next
	return func() tea.Msg {
		r, err := read(s.ctx, s.handle(run), next)
		return wasRead{r, err}
	}
}

// forecast returns the command that forecasts the end of the run, nil if there are no forecasts.
func (s *screen) forecast() tea.Cmd {
	if s.o.Forecast == nil {
		return nil
	}
	run := s.model.Status.Run.Name
	return func() tea.Msg {
		end, err := s.o.Forecast(s.ctx, run)
		if err != nil {
			end = time.Time{}
		}
		return foreseen{end}
	}
}

// Update handles a message.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	s.model.Now = time.Now()
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		s.width, s.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return s, s.key(msg.String())
	case toSuspend:
		s.suspended = true
		return s, tea.Quit
	case due:
		return s, s.read()
	case wasRead:
		return s, s.take(msg)
	case forecastDue:
		return s, s.forecast()
	case foreseen:
		s.model.End = msg.end
		return s, tea.Tick(forecastEvery, func(time.Time) tea.Msg { return forecastDue{} })
	case answered:
		if s.said = msg.text; msg.err != nil {
			s.said = msg.err.Error()
		}
	}
	return s, nil
}

// take handles a reading.
func (s *screen) take(r wasRead) tea.Cmd {
	switch {
	case r.err != nil && isFinal(r.err):
		s.err = r.err
		return tea.Quit
	case r.err != nil:
		s.said = unread(r.err)
	default:
		s.show(&r.reading)
	}
	if s.request != nil && !slices.ContainsFunc(s.requests(), func(q approval.Request) bool {
		return q.Name == s.request.Name && q.Binding == s.request.Binding
	}) {
		s.said, s.request = s.request.Name+" was answered by someone else", nil
	}
	if s.said == nothingOpen && len(s.requests()) > 0 {
		s.said = ""
	}
	switch {
	case s.over:
		return tea.Quit
	case s.run != s.model.Status.Run.Name && r.err == nil:
		return s.read()
	}
	return tea.Batch(tea.RequestWindowSize, tea.Tick(s.o.interval(), func(time.Time) tea.Msg { return due{} }))
}

func (s *screen) requests() []approval.Request {
	all := step.Requests(s.model.Status.Plan, &s.model.Status.Run)
	for i := range all {
		all[i].Placement = s.model.shown(all[i].Placement)
	}
	return all
}

// key handles a key.
func (s *screen) key(key string) tea.Cmd {
	switch {
	case key == "ctrl+c":
		s.err = ErrInterrupted
		return tea.Quit
	case key == "ctrl+z":
		s.suspended = true
		return tea.Quit
	case s.request != nil:
		return s.reply(key)
	case key == "q":
		s.err = ErrLeft
		return tea.Quit
	case key == "a" && s.o.Decide != nil:
		if open := s.requests(); len(open) > 0 {
			s.request, s.said = &open[s.passed%len(open)], ""
		} else {
			s.said = nothingOpen
		}
	}
	return nil
}

// nothingOpen is displayed until a request opens.
const nothingOpen = "nothing waits for an approval"

// reply handles a key for the displayed request. An answer counts after Enter, so that neither a
// key nor a pasted word by mistake answers. After leaving the request open, the next key shows the
// next one.
func (s *screen) reply(key string) tea.Cmd {
	chosen := s.choice
	s.choice = ""
	switch {
	case key == "y":
		s.choice = approval.Approve
	case key == "r":
		s.choice = approval.Reject
	case key == "n" || key == "esc" || key == "q":
		s.request, s.passed = nil, s.passed+1
	case key == "enter" && chosen != "":
		text := "your approval of " + s.request.Name + " is recorded"
		if chosen == approval.Reject {
			text = "your rejection of " + s.request.Name + " is recorded"
		}
		request := *s.request
		s.request = nil
		return func() tea.Msg { return answered{text, s.o.Decide(s.ctx, request, chosen)} }
	}
	return nil
}

// answerLine returns the line of keys below a question.
func (s *screen) answerLine() string {
	switch s.choice {
	case approval.Approve:
		return "  Enter approves   any other key goes back"
	case approval.Reject:
		return "  Enter rejects   any other key goes back"
	default:
		return "  y approves   r rejects   n leaves it open"
	}
}

// View draws the frame.
func (s *screen) View() tea.View {
	m := s.model
	m.Footer = s.footer()
	v := tea.NewView(Frame(m, s.width, s.height, s.style))
	v.AltScreen = true
	return v
}

func (s *screen) footer() (out []string) {
	if s.said != "" {
		out = append(out, s.said)
	}
	switch {
	case s.request != nil:
		return append(append(out, Question(s.model.Status.Plan, s.request)...), s.answerLine())
	case !s.keys:
		return out
	case s.o.Decide != nil && len(s.requests()) > 0:
		return append(out, "a shows what waits for approval   q leaves, "+s.o.left())
	default:
		return append(out, "q leaves, "+s.o.left())
	}
}
