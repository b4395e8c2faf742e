package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// frame is the time between two drawings.
const frame = 100 * time.Millisecond

// The sequences that a terminal acts upon.
const (
	// A line that is wider than it seems is cut off, not broken, while the
	// cursor is hidden.
	hideCursor, showCursor    = "\x1b[?25l\x1b[?7l", "\x1b[?7h\x1b[?25h"
	saveCursor, restoreCursor = "\x1b7", "\x1b8"
	clearRight, clearBelow    = "\x1b[K", "\x1b[J"
)

// screen draws on a terminal. What is over is printed once and scrolls away;
// below it the run that goes on is drawn again and again. Both happen only ten
// times a second, so that methods just note what is new.
type screen struct {
	out     io.Writer
	size    func() (columns, rows int)
	echoes  bool // whether what is typed shows here
	palette palette
	stop    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex
	over    []func(width int) []line // to be printed
	board   *board
	early   []stages.Event // of runs that have no board yet
	members []Member
	drawn   []int // the widths of the lines that were drawn last
	columns int   // and those of the terminal then
	asking  bool
	below   int // lines by which a reply moved the cursor down
	err     error
}

func newScreen(out io.Writer, size func() (columns, rows int), echoes bool, p palette) *screen {
	s := &screen{
		out: out, size: size, echoes: echoes, palette: p,
		stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	s.write(hideCursor)
	go s.animate()
	return s
}

func (s *screen) animate() {
	defer close(s.stopped)
	t := time.NewTicker(frame)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.mu.Lock()
			s.draw()
			s.mu.Unlock()
		}
	}
}

func (s *screen) note(text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(func(width int) []line { return wrap(text, width) })
	return s.err
}

func (s *screen) plan(run string, p *stages.Plan) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishBoard()
	s.board = newBoard(run, p)
	for _, e := range s.early {
		s.board.apply(e)
	}
	for _, w := range p.Warnings {
		s.finish(func(width int) []line { return wrap("warning: "+w, width) })
	}
	return s.err
}

// again draws the run as if it had been shown from the beginning.
func (s *screen) again(st fleet.Status) error {
	if err := s.plan(st.Run.Name, st.Plan); err != nil || isOver(st) {
		return err
	}
	return s.note(standing(st))
}

func (s *screen) whole() {}

var _ picture = (*screen)(nil)

func (s *screen) event(e stages.Event) error {
	if e.Type == stages.SnapshotTaken {
		return s.note(fmt.Sprintf("snapshot %d of %d objects: %s", *e.Index, e.Count, e.Message))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.board != nil && s.board.run == e.Run {
		s.board.apply(e)
	} else {
		s.early = append(s.early, e)
	}
	return s.err
}

func (s *screen) member(m Member) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = append(s.members, m)
	if s.board != nil && s.board.run == m.Run {
		s.board.hold(m)
	}
	return s.err
}

// finish has something printed that does not change any more.
func (s *screen) finish(lines func(width int) []line) { s.over = append(s.over, lines) }

func (s *screen) finishBoard() {
	if b := s.board; b != nil {
		now := time.Now()
		s.finish(func(width int) []line { return b.lines(now, width) })
	}
	s.board = nil
}

// close leaves the last state and a table of the members on the screen.
func (s *screen) close() error {
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishBoard()
	if len(s.members) > 0 {
		s.finish(func(int) []line { return append([]line{nil}, memberTable(s.members)...) })
	}
	s.draw()
	s.write(showCursor)
	return s.err
}

// draw prints what is over and draws what goes on, in one write. The lock is
// held.
func (s *screen) draw() {
	columns, rows := s.size()
	width := max(1, columns-1) // the last column is left free: some terminals break the line there
	var live []line
	if s.board != nil {
		live = s.board.lines(time.Now(), width)
		live = live[max(0, len(live)-max(1, rows-1)):]
	}
	if s.asking {
		if len(live) == len(s.drawn) && len(s.over) == 0 && columns == s.columns {
			s.write(saveCursor + s.back(columns, rows) + s.text(live, width) + restoreCursor)
		}
		return
	}
	var over []line
	for _, lines := range s.over {
		over = append(over, lines(width)...)
	}
	s.write(s.back(columns, rows) + s.text(over, width) + s.text(live, width) + clearBelow)
	s.over, s.drawn, s.columns = nil, s.drawn[:0], columns
	for _, l := range live {
		s.drawn = append(s.drawn, min(width, l.width()))
	}
}

// back returns to the first line that was drawn last. A terminal that became
// narrower has broken the lines that were wider.
func (s *screen) back(columns, rows int) string {
	up := s.below
	for _, width := range s.drawn {
		up += max(1, (width+columns-1)/columns)
	}
	if !s.asking {
		s.below = 0
	}
	out := "\r"
	if up = min(up, rows-1); up > 0 {
		out += fmt.Sprintf("\x1b[%dA", up)
	}
	if columns != s.columns {
		out += clearBelow // also makes the terminal forget that it broke lines
	}
	return out
}

func (s *screen) text(lines []line, width int) string {
	var out strings.Builder
	for _, l := range lines {
		out.WriteString(s.palette.render(l, width) + clearRight + "\n")
	}
	return out.String()
}

func (s *screen) write(text string) {
	if _, err := io.WriteString(s.out, text); s.err == nil {
		s.err = err
	}
}

// ask puts a question below what is drawn.
func (s *screen) ask(question string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw()
	s.asking = true
	s.write(question + showCursor)
}

// answered goes on drawing where the question was.
func (s *screen) answered(replied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asking = false
	if replied && s.echoes {
		s.below = 1
	}
	s.write(hideCursor)
	s.draw()
}
