//go:build unix

package watch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/watch"
	"github.com/slipway-dev/slipway/watch/watchtest"
)

// asProgram, set in the environment of this test binary, makes it a program that watches a film.
// It names the directory of the film.
const asProgram = "WATCH_IS_THE_PROGRAM"

// rollbackSoak, set in the environment of the program, has it watch a run that is rolled back,
// instead of a film. It is the soak of each cluster.
const rollbackSoak = "WATCH_ROLLBACK_SOAK"

// otherNames, set in the environment of the program, has it show names in upper case.
const otherNames = "WATCH_OTHER_NAMES"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asProgram); dir != "" {
		os.Exit(program(film(dir)))
	}
	os.Exit(m.Run())
}

// film is a directory that contains the current moment of a simulated run for the program that
// watches it. It is the source of the watch.
type film string

const (
	momentFile = "moment"
	pidFile    = "pid"
	answerFile = "answer"
)

// Run returns the film, whatever the name.
func (f film) Run(string) watch.Handle { return f }

func (f film) History(_ context.Context, after int64) (fleet.History, error) {
	text, err := os.ReadFile(filepath.Join(string(f), momentFile))
	if err != nil {
		return fleet.History{}, err
	}
	at, err := time.ParseDuration(string(text))
	if err != nil {
		return fleet.History{}, err
	}
	p, err := simulate.NewPlan(rollout(), fleetOf())
	if err != nil {
		return fleet.History{}, err
	}
	w := simulate.Environment{
		Start: time.Date(2026, time.March, 3, 9, 0, 0, 0, time.UTC), Until: at, Orders: toProd(), Default: simulate.Member{Take: 2 * time.Minute},
	}
	var h fleet.History
	end, err := simulate.Run(p, w, func(e simulate.Event) error {
		if h.Next++; h.Next > after {
			h.Events = append(h.Events, e.Event)
		}
		return nil
	})
	h.Status = fleet.Status{Plan: p, Run: end.Run}
	return h, err
}

func (f film) RollbackStatus(context.Context) (fleet.Rollback, error) {
	return fleet.Rollback{Run: simulate.RunName}, nil
}

func (f film) write(name, text string) error {
	path := filepath.Join(string(f), name)
	if err := os.WriteFile(path+".new", []byte(text), 0o666); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// show goes to a moment of the run.
func (f film) show(t *testing.T, at time.Duration) {
	t.Helper()
	if err := f.write(momentFile, at.String()); err != nil {
		t.Fatal(err)
	}
}

// handles is a source that returns handles by a function.
type handles func(name string) watch.Handle

func (h handles) Run(name string) watch.Handle { return h(name) }

// program watches a film and returns its exit code.
func program(f film) int {
	if err := f.write(pidFile, strconv.Itoa(os.Getpid())); err != nil {
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Println("before")
	src, run := watch.Source[watch.Handle](f), simulate.RunName
	if soak, err := time.ParseDuration(os.Getenv(rollbackSoak)); err == nil {
		engine, _, err := twice(ctx, soak)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		src = handles(func(name string) watch.Handle { return engine.Run(name) })
		run = "bad"
	}
	var shown func(string) string
	if os.Getenv(otherNames) != "" {
		shown = strings.ToUpper
	}
	_, err := watch.Run(ctx, src, run, os.Stdin, os.Stdout, watch.Options{
		Interval: 10 * time.Millisecond, Shown: shown,
		Forecast: func(context.Context, string) (time.Time, error) { return time.Now().Add(90 * time.Minute), nil },
		Decide: func(_ context.Context, r approval.Request, v approval.Verdict) error {
			if v == approval.Reject {
				return errors.New("only approvals are taken")
			}
			return f.write(answerFile, fmt.Sprint(r.Name, " ", v, " ", r.Plan))
		},
	})
	switch {
	case errors.Is(err, watch.ErrInterrupted), errors.Is(err, context.Canceled):
		return 130
	case errors.Is(err, watch.ErrLeft):
		return 3
	case err != nil:
		fmt.Println(err)
		return 1
	}
	return 0
}

// newFilm returns a film at a moment, and the command of the program that watches it.
func newFilm(t *testing.T, at time.Duration, env ...string) (film, *exec.Cmd) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := film(t.TempDir())
	f.show(t, at)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), asProgram+"="+string(f), "TERM=xterm-256color", "LC_ALL=C.UTF-8", "TZ=UTC", "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, env...)
	return f, cmd
}

// moments in the run of the film.
const (
	inProd   = 67 * time.Minute
	inEdge   = 77 * time.Minute
	atTheEnd = 5 * time.Hour
)

const leave = "q leaves, the run goes on"

// onlyFrame fails the test if the screen shows anything but one frame.
func onlyFrame(t *testing.T, screen string) {
	t.Helper()
	if n := strings.Count(screen, "snapshot 0"); n != 1 || !strings.HasPrefix(screen, "run  scenario") {
		t.Errorf("not one frame, from the first line on:\n%s", screen)
	}
	if n := strings.Count(screen, leave); n != 1 || !strings.HasSuffix(screen, leave) {
		t.Errorf("the keys are not at the end, once:\n%s", screen)
	}
}

var sizes = [][2]int{{80, 24}, {200, 60}}

func TestTheLastFrameStaysOnTheTerminal(t *testing.T) {
	t.Parallel()
	for _, size := range sizes {
		f, cmd := newFilm(t, inProd)
		term := watchtest.Start(t, cmd, size[0], size[1])
		onlyFrame(t, term.UntilText("prod-0005 applying", "ends about", leave))
		if !strings.Contains(term.Raw(), "\x1b[36m") {
			t.Error("there is no colour")
		}
		f.show(t, inEdge)
		onlyFrame(t, term.UntilText("edge-0000", leave))
		f.show(t, atTheEnd)
		if code := term.Wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		screen := regexp.MustCompile(`[A-Z][a-z]+ \d+ \d\d:\d\d`).ReplaceAllString(term.Screen(), "TIME")
		golden(t, fmt.Sprintf("screen-%dx%d.txt", size[0], size[1]), screen+"\n")
		if term.Drawn() {
			t.Error("the terminal was not given back")
		}
	}
}

// A run that is rolled back is followed on the terminal by the run that does so, and the last
// frames of both stay.
func TestARollbackIsDrawnToItsEnd(t *testing.T) {
	t.Parallel()
	_, cmd := newFilm(t, 0, rollbackSoak+"=1s")
	term := watchtest.Start(t, cmd, 120, 30)
	term.UntilText("bad  web, snapshot 1", leave)
	term.UntilText("bad-rollback  web, snapshot 0, rolls back bad  Running", leave)
	if code := term.Wait(); code != 0 || term.Drawn() {
		t.Errorf("exit code %d", code)
	}
	screen := term.Screen()
	for _, want := range []string{"bad  web, snapshot 1  Failed in", "rolled back by run bad-rollback: ", "bad-rollback  web, snapshot 0, rolls back bad  Completed in"} {
		if strings.Count(screen, want) != 1 {
			t.Errorf("want %q once in\n%s", want, screen)
		}
	}
}

func TestTheFrameFollowsTheSizeOfTheWindow(t *testing.T) {
	t.Parallel()
	_, cmd := newFilm(t, inProd)
	term := watchtest.Start(t, cmd, 80, 24)
	term.UntilText("prod-0005 applying", leave)
	for _, size := range [][2]int{{200, 60}, {60, 12}, {80, 24}} {
		term.Resize(size[0], size[1])
		bar := strings.Repeat("░", 1) + " 3 of 25"
		screen := term.Until(fmt.Sprint("a frame of ", size), func(screen string) bool {
			for line := range strings.Lines(screen) {
				if strings.Contains(line, bar) {
					head, _, _ := strings.Cut(line, " 3 of 25")
					return len([]rune(head)) == size[0]/4 && strings.HasSuffix(screen, leave)
				}
			}
			return false
		})
		onlyFrame(t, screen)
		if all := strings.Contains(screen, "prod-0005"); all != (size[1] > 12) {
			t.Errorf("in %v:\n%s", size, screen)
		}
	}
	term.Type("q")
	if code := term.Wait(); code != 3 || term.Drawn() {
		t.Errorf("exit code %d", code)
	}
}

func TestNoColorIsRespected(t *testing.T) {
	t.Parallel()
	_, cmd := newFilm(t, inProd, "NO_COLOR=1")
	term := watchtest.Start(t, cmd, 80, 24)
	term.UntilText("prod-0005 applying", leave)
	term.Type("q")
	term.Wait()
	if color := regexp.MustCompile(`\x1b\[[0-9;]*m`).FindAllString(term.Raw(), -1); len(color) > 0 {
		for _, c := range color {
			if c != "\x1b[m" && c != "\x1b[0m" {
				t.Errorf("written: %q", c)
			}
		}
	}
}

// shell starts an interactive shell on a terminal, and in it the program.
func shell(t *testing.T, at time.Duration) (film, *watchtest.Terminal) {
	t.Helper()
	f, cmd := newFilm(t, at)
	program := cmd.Path
	cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "--norc", "--noprofile", "-i"}
	env := cmd.Env
	cmd.Env = nil
	for _, e := range env { // the shell is not the program: its child is
		if !strings.HasPrefix(e, asProgram) {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, "PS1=ready> ", "HISTFILE=", "PROMPT_COMMAND=")
	term := watchtest.Start(t, cmd, 80, 24)
	term.UntilText("ready>")
	term.Type(fmt.Sprintf("%s='%s' '%s'\r", asProgram, f, program))
	term.UntilText("prod-0005 applying", leave)
	return f, term
}

// usable fails the test if the terminal is not in a state that a shell needs.
func usable(t *testing.T, term *watchtest.Terminal) {
	t.Helper()
	term.Type("stty -a | tr ' ' '\\n' | grep -xE 'echo|icanon|isig|opost' | tr -d '\\n'; echo ' us''able'\r")
	term.UntilText("opostisigicanonecho usable")
	if term.Drawn() {
		t.Errorf("the terminal was not given back:\n%s", term.Screen())
	}
}

func TestSuspendingAndResuming(t *testing.T) {
	t.Parallel()
	for name, suspend := range map[string]func(*testing.T, film, *watchtest.Terminal){
		"key": func(_ *testing.T, _ film, term *watchtest.Terminal) { term.Type("\x1a") },
		"signal": func(t *testing.T, f film, _ *watchtest.Terminal) {
			b, err := os.ReadFile(filepath.Join(string(f), pidFile))
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(string(b))
			if err == nil {
				err = syscall.Kill(pid, syscall.SIGTSTP)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, term := shell(t, inProd)
			for range 2 { // the second time is like the first
				suspend(t, f, term)
				term.UntilText("Stopped")
				usable(t, term)
				if screen := term.Screen(); strings.Contains(screen, leave) {
					t.Errorf("a stale frame is left:\n%s", screen)
				}
				f.show(t, inEdge)
				term.Type("clear; fg\r")
				onlyFrame(t, term.UntilText("edge-0000", leave))
			}
			term.Type("q")
			term.UntilText("ready>")
			usable(t, term)
		})
	}
}

func TestCtrlCLeavesTheTerminalUsable(t *testing.T) {
	t.Parallel()
	_, term := shell(t, inProd)
	term.Type("\x03")
	term.UntilText("prod-0005 applying", "ready>")
	term.Type("echo code $?\r")
	term.UntilText("code 130")
	usable(t, term)
}

func TestASignalLeavesTheTerminalUsable(t *testing.T) {
	t.Parallel()
	f, term := shell(t, inProd)
	b, err := os.ReadFile(filepath.Join(string(f), pidFile))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(b))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGTERM)
	}
	if err != nil {
		t.Fatal(err)
	}
	term.UntilText("prod-0005 applying", "ready>")
	usable(t, term)
}

func TestApprovalPromptNamesRunStageAndPlan(t *testing.T) {
	t.Parallel()
	f, cmd := newFilm(t, 65*time.Minute+30*time.Second, otherNames+"=1") // before stage prod
	term := watchtest.Start(t, cmd, 80, 24)
	term.UntilText("run  SCENARIO, snapshot 0", "a shows what waits for approval")
	h, err := f.History(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	question := []string{
		"Approve run-before-prod?", "run run, plan " + h.Status.Plan.Digest[:12] + ", before stage prod, snapshot 0 of SCENARIO",
		"clusters to be updated: prod-0000, prod-0001, prod-0002, prod-0003, prod-0004", "y approves   r rejects   n leaves it open",
	}
	term.Type("a")
	term.UntilText(question...)
	term.Type("n")
	term.Until("the prompt was left", func(s string) bool {
		return !strings.Contains(s, "Approve") && strings.Contains(s, "a shows what waits for approval")
	})
	term.Type("a")
	term.UntilText(question...)
	term.Type("r")
	term.UntilText("Enter rejects   any other key goes back")
	term.Type("\r")
	term.UntilText("only approvals are taken", "a shows what waits for approval")
	if _, err := os.Stat(filepath.Join(string(f), answerFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was answered: %v", err)
	}
	term.Type("a")
	term.UntilText(question...)
	term.Type("ybe\r") // the end of a word
	term.UntilText("y approves   r rejects   n leaves it open")
	if _, err := os.Stat(filepath.Join(string(f), answerFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a word answered it: %v", err)
	}
	term.Type("y")
	term.UntilText("Enter approves   any other key goes back")
	term.Type("\r")
	term.UntilText("your approval of run-before-prod is recorded")
	got, err := os.ReadFile(filepath.Join(string(f), answerFile))
	if want := "run-before-prod Approve " + h.Status.Plan.Digest; err != nil || string(got) != want {
		t.Errorf("the answer is %q, %v; want %q", got, err, want)
	}
	term.Type("a")
	term.UntilText(question...)
	f.show(t, inProd)
	term.UntilText("run-before-prod was answered by someone else", leave)
	term.Type("a")
	term.UntilText("nothing waits for an approval")
	f.show(t, 65*time.Minute+30*time.Second)
	term.Until("the note has gone, because a request is open", func(s string) bool {
		return strings.Contains(s, "a shows what waits for approval") && !strings.Contains(s, "nothing waits")
	})
}
