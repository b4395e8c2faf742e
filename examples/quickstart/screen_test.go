package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// glass is a terminal as far as screen needs one.
type glass struct {
	columns, rows int
	lines         [][]rune
	row, col      int
	saved         [2]int
	hidden        bool
	tooWide       []string
}

var sequence = regexp.MustCompile(`^\x1b(7|8|\[(\??[0-9]*)([A-Za-z]))`)

func (g *glass) Write(p []byte) (int, error) {
	for rest := string(p); rest != ""; {
		if m := sequence.FindStringSubmatch(rest); m != nil {
			g.act(m)
			rest = rest[len(m[0]):]
			continue
		}
		r := []rune(rest)[0]
		g.put(r)
		rest = rest[len(string(r)):]
	}
	return len(p), nil
}

func (g *glass) act(m []string) {
	switch m[3] + m[1] {
	case "7":
		g.saved = [2]int{g.row, g.col}
	case "8":
		g.row, g.col = g.saved[0], g.saved[1]
	}
	switch m[3] {
	case "A":
		n, _ := strconv.Atoi(m[2])
		g.row = max(g.row-n, len(g.lines)-g.rows, 0)
	case "K":
		g.line()
		g.lines[g.row] = g.lines[g.row][:min(g.col, len(g.lines[g.row]))]
	case "J":
		g.line()
		g.lines = append(g.lines[:g.row], g.lines[g.row][:min(g.col, len(g.lines[g.row]))])
	case "h", "l":
		g.hidden = m[2] == "?25" && m[3] == "l" || m[2] != "?25" && g.hidden
	}
}

// line makes the line that the cursor is on exist.
func (g *glass) line() {
	for len(g.lines) <= g.row {
		g.lines = append(g.lines, nil)
	}
}

func (g *glass) put(r rune) {
	g.line()
	switch r {
	case '\r':
		g.col = 0
		return
	case '\n':
		g.row, g.col = g.row+1, 0
		g.line()
		return
	}
	for len(g.lines[g.row]) <= g.col {
		g.lines[g.row] = append(g.lines[g.row], ' ')
	}
	g.lines[g.row][g.col] = r
	if g.col++; g.col >= g.columns {
		g.tooWide = append(g.tooWide, string(g.lines[g.row]))
	}
}

var measured = regexp.MustCompile(`\d+\.\ds`)

func (g *glass) String() string {
	var out strings.Builder
	for _, l := range g.lines {
		out.WriteString(strings.TrimRight(string(l), " ") + "\n")
	}
	return measured.ReplaceAllString(out.String(), "N.Ns")
}

// plainTerminal is the environment of a terminal without colours.
func plainTerminal(name string) string { return map[string]string{"NO_COLOR": "1"}[name] }

// playOn plays the tutorial on a terminal of a size.
func playOn(t *testing.T, g *glass, answer func(*screen) answerer) {
	t.Helper()
	docs := tutorialDocuments(t)
	notes := shortenWaits(docs.Strategies, 250*time.Millisecond)
	synctest.Test(t, func(t *testing.T) {
		kept, err := openData(t.Context(), "", docs.files)
		if err != nil {
			t.Fatal(err)
		}
		s := newScreen(g, func() (int, int) { return g.columns, g.rows }, false, newPalette(plainTerminal))
		for _, n := range notes {
			_ = s.note(n)
		}
		playTo(t, docs, kept, s, answer(s))
	})
	if len(g.tooWide) > 0 {
		t.Errorf("wider than %d columns: %q", g.columns-1, g.tooWide[0])
	}
	if g.hidden {
		t.Error("the cursor is still hidden")
	}
}

// playTo plays the tutorial on a screen to its end.
func playTo(t *testing.T, docs documents, kept *data, s *screen, answer answerer) {
	t.Helper()
	tut, err := newTutorial(t.Context(), docs, kept, s, answer)
	if err != nil {
		t.Fatal(err)
	}
	if err := tut.run(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

func TestScreenKeepsTheWholeStory(t *testing.T) {
	t.Parallel()
	g := &glass{columns: 80, rows: 24}
	playOn(t, g, func(*screen) answerer { return approveAfter(0) })
	golden(t, "screen.txt", g.String())
}

func TestScreenThatIsTooSmallIsNotGarbled(t *testing.T) {
	t.Parallel()
	g := &glass{columns: 26, rows: 5}
	playOn(t, g, func(*screen) answerer { return approveAfter(0) })
	golden(t, "screen-small.txt", g.String())
}

// typist is a user that answers on the same terminal, while drawing goes on.
type typist struct {
	*screen
	t     *testing.T
	glass *glass
}

func (p typist) ask(question string) {
	p.screen.ask(question)
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.glass.Write([]byte("ye"))
	row, col := p.glass.row, p.glass.col
	p.draw()
	if p.glass.row != row || p.glass.col != col {
		p.t.Errorf("drawing moved the cursor from %d, %d to %d, %d", row, col, p.glass.row, p.glass.col)
	}
	if p.echoes {
		_, _ = p.glass.Write([]byte("s\n"))
	}
}

func (p typist) answered(replied bool) {
	p.screen.answered(replied)
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(p.glass.String(), "Approve") {
		p.t.Errorf("the question is still there:\n%s", p.glass)
	}
}

func TestScreenDrawsOverTheQuestion(t *testing.T) {
	t.Parallel()
	want := strings.ReplaceAll(readGolden(t, "screen.txt"), "by quickstart", "by you")
	for _, echoes := range []bool{true, false} {
		g := &glass{columns: 80, rows: 24}
		playOn(t, g, func(s *screen) answerer {
			s.echoes = echoes
			return newAnswerer(options{approve: "ask"}, strings.NewReader("n\ny\ny\n"), typist{s, t, g})
		})
		if got := g.String(); got != want {
			t.Errorf("echoes %v, got:\n%s\nwant:\n%s", echoes, got, want)
		}
	}
}

func readGolden(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// tutorialPlan is the plan of example-run, of snapshot 0.
func tutorialPlan(t *testing.T) *stages.Plan {
	t.Helper()
	docs := tutorialDocuments(t)
	kept, err := openData(t.Context(), "", docs.files)
	if err != nil {
		t.Fatal(err)
	}
	tut, err := newTutorial(t.Context(), docs, kept, textLines{io.Discard}, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := docs.RunSpec("example-run")
	if err == nil {
		err = tut.engine.PutPlacement(t.Context(), docs.Placements[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	spec.Index = nil
	plan, err := tut.engine.Preview(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestBoardShowsWhatIsWaitedFor(t *testing.T) {
	t.Parallel()
	const run = "example-run"
	at := func(s int64) time.Time { return time.Unix(1000+s, 0) }
	b := newBoard(run, tutorialPlan(t))
	var out strings.Builder
	apply := func(now int64, events ...stages.Event) {
		for _, e := range events {
			b.apply(e)
		}
		for _, l := range b.lines(at(now), 60) {
			out.WriteString(newPalette(plainTerminal).render(l, 60) + "\n")
		}
	}
	apply(3,
		stages.Event{Time: at(0), Type: stages.RunStarted, Run: run},
		stages.Event{Time: at(0), Type: stages.ClusterStarted, Run: run, Stage: "staging", Cluster: "member2"},
		stages.Event{Time: at(2), Type: stages.ClusterRetrying, Run: run, Stage: "staging", Cluster: "member2", Message: "connection \x1b[2J refused", Until: at(4)})
	apply(10,
		stages.Event{Time: at(5), Type: stages.ClusterCompleted, Run: run, Stage: "staging", Cluster: "member2"},
		stages.Event{Time: at(5), Type: stages.WaitStarted, Run: run, Stage: "staging", Until: at(65)},
		stages.Event{Time: at(6), Type: stages.ClusterSkipped, Run: run, Stage: "canary", Cluster: "member3", Message: "skipped by you"},
		stages.Event{Time: at(6), Type: stages.WaitStarted, Run: run, Stage: "canary", Until: at(99)}, // it has none
		stages.Event{Time: at(6), Type: stages.RunFailed, Run: "another", Message: "is not shown"})
	apply(75,
		stages.Event{Time: at(65), Type: stages.WaitEnded, Run: run, Stage: "staging"},
		stages.Event{Time: at(70), Type: stages.ApprovalRequested, Run: run, Stage: "canary", Request: "example-run-canary"})
	apply(99,
		stages.Event{Time: at(80), Type: stages.ApprovalRejected, Run: run, Stage: "canary", By: "you"},
		stages.Event{Time: at(80), Type: stages.RunFailed, Run: run, Message: "example-run-canary was rejected by you"})
	golden(t, "board.txt", out.String())
}

func TestPaletteFollowsTheEnvironment(t *testing.T) {
	t.Parallel()
	l := line{done.span(), {bold, " ok"}}
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"NO_COLOR": "1"}, "+ ok"},
		{map[string]string{"NO_COLOR": "1", "LANG": "de_DE.UTF-8"}, "✓ ok"},
		{map[string]string{"NO_COLOR": "1", "LANG": "de_DE.UTF-8", "LC_ALL": "C"}, "+ ok"},
		{nil, "\x1b[32m+\x1b[0m\x1b[1m ok\x1b[0m"},
	} {
		p := newPalette(func(name string) string { return c.env[name] })
		if got := p.render(l, 10); got != c.want {
			t.Errorf("%v: %q, want %q", c.env, got, c.want)
		}
	}
}

func TestRenderNeverGetsWiderThanItMay(t *testing.T) {
	t.Parallel()
	p := palette{signs: []rune(".>?+-x"), more: '>'}
	l := line{done.span(), {plain, " ab"}, {plain, "cd"}}
	for width, want := range []string{"", ">", "+>", "+ >", "+ a>", "+ ab>", "+ abcd"} {
		if got := p.render(l, width); got != want {
			t.Errorf("width %d: %q, want %q", width, got, want)
		}
	}
}
