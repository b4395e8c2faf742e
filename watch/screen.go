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
	"github.com/slipway-dev/slipway/stages"
)

// draw shows the run on a terminal, and leaves the last frame.
func draw(ctx context.Context, src Source, status fleet.Status, h fleet.History, in io.Reader, out io.Writer, o *Options) (fleet.Status, error) {
	s := &screen{ctx: ctx, src: src, o: o, style: o.style(), stop: make(chan os.Signal, 1)}
	s.model = Model{Status: status, Now: time.Now(), Hint: o.Hint}.Observe(h.Events)
	s.next, s.over = h.Next, o.over(&status)
	notifyStop(s.stop)
	defer signal.Stop(s.stop)
	for !s.over && s.err == nil && ctx.Err() == nil {
		if err := s.show(in, out); err != nil {
			return s.model.Status, err
		}
		if s.suspended {
			s.suspended = false
			suspend()
		}
	}
	s.model.Now, s.model.Footer = time.Now(), nil
	width, height := 80, 24
	if f, is := out.(term.File); is {
		if w, h, err := term.GetSize(f.Fd()); err == nil && w > 0 && h > 1 {
			width, height = w, h
		}
	}
	_, err := fmt.Fprintln(out, Frame(s.model, width, height-1, s.style))
	return s.model.Status, errors.Join(s.err, ctx.Err(), err)
}

// show has the terminal until the watch ends or is to be suspended. After a suspension another program begins on it,
// so that nothing is left of what was drawn before.
func (s *screen) show(in io.Reader, out io.Writer) error {
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

// screen is the program on the terminal. Its methods are called by one goroutine.
type screen struct {
	ctx   context.Context
	src   Source
	o     *Options
	style Style
	stop  chan os.Signal
	keys  bool

	model         Model
	next          int64 // number of the next event
	width, height int
	over          bool
	suspended     bool
	// err is why the watch ends before the run does.
	err error
	// asked is the request that is shown, passed how many were left open, said what came of the last answer or
	// why the source cannot be read.
	asked  *approval.Request
	passed int
	said   string
}

type (
	// wasRead is what the source says.
	wasRead struct {
		status  fleet.Status
		history fleet.History
		err     error
	}
	// toSuspend asks to suspend the program.
	toSuspend struct{}
	// due says that the source is to be read.
	due struct{}
	// foreseen is a forecast.
	foreseen struct{ end time.Time }
	// forecastDue says that the forecast is to be made.
	forecastDue struct{}
	// answered is what came of an answer.
	answered struct {
		text string
		err  error
	}
)

// Init begins to read.
func (s *screen) Init() tea.Cmd { return tea.Batch(s.read(), s.forecast()) }

// read returns the command that reads the source. A command runs beside Update, so it has what it needs of the screen
// when it is made.
func (s *screen) read() tea.Cmd {
	run, next := s.model.Status.Run.Name, s.next
	return func() tea.Msg {
		status, history, err := read(s.ctx, s.src, run, next)
		return wasRead{status, history, err}
	}
}

// forecast returns the command that asks when the run ends, nil where that cannot be asked.
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

// Update takes in what has happened.
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

// take takes in what was read.
func (s *screen) take(r wasRead) tea.Cmd {
	switch {
	case r.err != nil && isFinal(r.err):
		s.err = r.err
		return tea.Quit
	case r.err != nil:
		s.said = "not read: " + r.err.Error()
	default:
		s.model.Status, s.next = r.status, r.history.Next
		s.model = s.model.Observe(r.history.Events)
	}
	if s.asked != nil && !slices.ContainsFunc(s.requests(), func(q approval.Request) bool {
		return q.Name == s.asked.Name && q.Binding == s.asked.Binding
	}) {
		s.said, s.asked = s.asked.Name+" was answered meanwhile", nil
	}
	if s.over = s.o.over(&s.model.Status); s.over {
		return tea.Quit
	}
	return tea.Batch(tea.RequestWindowSize, tea.Tick(s.o.interval(), func(time.Time) tea.Msg { return due{} }))
}

func (s *screen) requests() []approval.Request {
	return stages.Requests(s.model.Status.Plan, &s.model.Status.Run)
}

// key does what a key is for.
func (s *screen) key(key string) tea.Cmd {
	switch {
	case key == "ctrl+c":
		s.err = ErrInterrupted
		return tea.Quit
	case key == "ctrl+z":
		s.suspended = true
		return tea.Quit
	case s.asked != nil:
		return s.reply(key)
	case key == "q":
		s.err = ErrLeft
		return tea.Quit
	case key == "a" && s.o.Decide != nil:
		if open := s.requests(); len(open) > 0 {
			s.asked, s.said = &open[s.passed%len(open)], ""
		} else {
			s.said = "nothing waits for an approval"
		}
	}
	return nil
}

// reply takes the answer to the request that is shown. Leaving it open shows the next one next time.
func (s *screen) reply(key string) tea.Cmd {
	verdict, text := approval.Approve, s.asked.Name+" is approved"
	switch key {
	case "y":
	case "r":
		verdict, text = approval.Reject, s.asked.Name+" is rejected"
	case "n", "esc", "q":
		s.asked, s.passed = nil, s.passed+1
		return nil
	default:
		return nil
	}
	request := *s.asked
	s.asked = nil
	return func() tea.Msg { return answered{text, s.o.Decide(s.ctx, request, verdict)} }
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
	case s.asked != nil:
		return append(append(out, Question(s.model.Status.Plan, s.asked)...), "  y approves   r rejects   n leaves it open")
	case !s.keys:
		return out
	case s.o.Decide != nil && len(s.requests()) > 0:
		return append(out, "a shows what waits for approval   q leaves, the run goes on")
	default:
		return append(out, "q leaves, the run goes on")
	}
}
