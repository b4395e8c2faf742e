//go:build unix

// Package watchtest has a terminal for tests of programs that draw: a pseudo terminal with a
// screen that is read as text. The tests of package watch use it, and tests of a host may.
package watchtest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// Patience is the maximum wait of [Terminal.Until].
const Patience = time.Minute

// Terminal is a program on a pseudo terminal. Its methods may be called concurrently.
type Terminal struct {
	t    testing.TB
	cmd  *exec.Cmd
	pty  *os.File
	done chan struct{}

	mu      sync.Mutex
	screen  *vt.Emulator
	raw     strings.Builder
	changed chan struct{}
}

// Start starts a program on a terminal of a size. When the test ends, the program is killed.
func Start(t testing.TB, cmd *exec.Cmd, columns, rows int) *Terminal {
	t.Helper()
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
	if err != nil {
		t.Fatal(err)
	}
	term := newTerminal(t, f, columns, rows)
	term.cmd = cmd
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return term
}

// Open returns a terminal of a size, and its other side. A program in the process of the test
// reads from and writes to that side.
func Open(t testing.TB, columns, rows int) (*Terminal, *os.File) {
	t.Helper()
	f, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	term := newTerminal(t, f, columns, rows)
	term.Resize(columns, rows)
	t.Cleanup(func() { _ = tty.Close() })
	return term, tty
}

func newTerminal(t testing.TB, f *os.File, columns, rows int) *Terminal {
	term := &Terminal{t: t, pty: f, done: make(chan struct{}), screen: vt.NewEmulator(columns, rows), changed: make(chan struct{})}
	go term.show()
	go func() { _, _ = io.Copy(io.Discard, term.screen) }() // a plain terminal answers no queries
	t.Cleanup(func() {
		_ = f.Close()
		<-term.done
		if answers, is := term.screen.InputPipe().(io.Closer); is { // Close of the screen races with a read
			_ = answers.Close()
		}
	})
	return term
}

// show displays the output of the program, until it has ended.
func (t *Terminal) show() {
	defer close(t.done)
	buf := make([]byte, 4096)
	for {
		n, err := t.pty.Read(buf)
		t.mu.Lock()
		_, _ = t.screen.Write(buf[:n])
		t.raw.Write(buf[:n])
		close(t.changed)
		t.changed = make(chan struct{})
		t.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Type types text.
func (t *Terminal) Type(text string) {
	t.t.Helper()
	if _, err := io.WriteString(t.pty, text); err != nil {
		t.t.Fatal(err)
	}
}

// Resize changes the size of the window.
func (t *Terminal) Resize(columns, rows int) {
	t.t.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.screen.Resize(columns, rows)
	if err := pty.Setsize(t.pty, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)}); err != nil {
		t.t.Fatal(err)
	}
}

// Screen returns the content of the screen: lines without spaces at their ends, and without empty
// lines at the end.
func (t *Terminal) Screen() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text()
}

func (t *Terminal) text() string {
	var lines []string
	for line := range strings.Lines(t.screen.String()) {
		lines = append(lines, strings.TrimRight(line, " \r\n"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// Raw returns everything that was written to the terminal.
func (t *Terminal) Raw() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.raw.String()
}

// Drawn reports whether a program draws on the screen: it is the alternate screen, or has no
// cursor.
func (t *Terminal) Drawn() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen.IsAltScreen() || t.screen.CursorHidden()
}

// Until waits until is accepts the content of the screen, and returns the content. The test fails
// if that does not happen within [Patience].
func (t *Terminal) Until(what string, is func(screen string) bool) string {
	t.t.Helper()
	late := time.After(Patience)
	for {
		t.mu.Lock()
		text, changed := t.text(), t.changed
		t.mu.Unlock()
		if is(text) {
			return text
		}
		select {
		case <-changed:
		case <-late:
			t.t.Fatalf("%s does not come; the screen is\n%s", what, text)
		}
	}
}

// UntilText waits until the screen contains all texts, and returns its content.
func (t *Terminal) UntilText(texts ...string) string {
	t.t.Helper()
	return t.Until(strings.Join(texts, " and "), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// Wait waits until the started program has ended and all of its output is displayed, and returns
// its exit code.
func (t *Terminal) Wait() int {
	t.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if ctx.Err() == context.DeadlineExceeded {
			_ = t.cmd.Process.Kill()
		}
	})()
	_ = t.cmd.Wait()
	<-t.done
	return t.cmd.ProcessState.ExitCode()
}
