package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
)

// tutorial has the files of the tutorial, and the commands in walk.txt.
//
//go:embed tutorial
var tutorial embed.FS

// step is a command of the tutorial.
type step struct {
	// title is what is said before the command; empty where it goes with the one before.
	title   string
	command string
	// fails reports whether the command is to fail.
	fails bool
}

// readSteps reads a script: lines with # say something, $ gives a command, $! one that is to fail.
func readSteps(script string) (steps []step) {
	title := ""
	for l := range strings.Lines(script) {
		l = strings.TrimSpace(l)
		mark, rest, _ := strings.Cut(l, " ")
		switch mark {
		case "#":
			title = rest
		case "$", "$!":
			steps = append(steps, step{title: title, command: rest, fails: mark == "$!"})
			title = ""
		}
	}
	return steps
}

// readTutorial reads a file of the tutorial, with the members of the fleet in the places of the clusters.
func readTutorial(name string) ([]byte, error) {
	text, err := tutorial.ReadFile("tutorial/" + name)
	r := strings.NewReplacer("<clusterid1>", testCluster, "<clusterid2>", prodCluster)
	return []byte(r.Replace(string(text))), err
}

// walk gives the commands of the tutorial, one after the other. With -data it goes on where it was.
func walk(ctx context.Context, l line, std stdio) (err error) {
	d, err := openDirectory(ctx, l.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	script, err := readTutorial("walk.txt")
	if err != nil {
		return err
	}
	w := walker{directory: d, line: l, std: std, bold: isTerminal(std.out)}
	return w.walk(ctx, readSteps(string(script)))
}

// walker gives commands and shows them.
type walker struct {
	*directory
	line line
	std  stdio
	// bold reports whether commands stand out, on a terminal.
	bold bool
}

// walkedKey is where the number of the commands is that were given.
const walkedKey = "canary/walked"

func (w *walker) walk(ctx context.Context, steps []step) error {
	done, revision, err := w.walked(ctx)
	if err != nil {
		return err
	}
	if done >= len(steps) {
		fmt.Fprintln(w.std.err, "canary: everything was done already; a new directory begins again")
		return nil
	}
	for i, s := range steps[done:] {
		// A process that was killed may have given the first one already: then it may fail now.
		if err := w.give(ctx, s, done > 0 && i == 0); err != nil {
			return err
		}
		if revision, err = w.records.Put(ctx, walkedKey, []byte(strconv.Itoa(done+i+1)), revision); err != nil {
			return err
		}
	}
	return nil
}

// walked returns how many commands were given already.
func (w *walker) walked(ctx context.Context) (int, backend.Revision, error) {
	rec, err := w.records.Get(ctx, walkedKey)
	if errors.Is(err, backend.ErrNotFound) {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	n, err := strconv.Atoi(string(rec.Value))
	return n, rec.Revision, err
}

// Walked is a command of the tutorial and what it printed, as -o json prints it.
type Walked struct {
	Title   string `json:"title,omitempty"`
	Command string `json:"command"`
	Output  string `json:"output,omitempty"`
	Error   string `json:"error,omitempty"`
}

// give gives a command and shows what it prints. One that fails where it should not, or does not where it
// should, ends the walk.
func (w *walker) give(ctx context.Context, s step, again bool) error {
	l, err := parse(append(strings.Fields(s.command), "-data", "walk"))
	if err != nil {
		return fmt.Errorf("%s: %w", s.command, err)
	}
	l.wait = w.line.wait
	var out, errOut bytes.Buffer
	err = w.carryOut(ctx, l, stdio{w.std.in, &out, &errOut}, readTutorial)
	var said *saidError
	switch {
	case errors.As(err, &said) && (s.fails || again):
		err = nil
	case err == nil && s.fails:
		err = errors.New("it did not fail")
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", s.command, err)
	}
	return errors.Join(w.show(Walked{Title: s.title, Command: s.command, Output: out.String(), Error: errOut.String()}), err)
}

// show prints a command that was given.
func (w *walker) show(c Walked) error {
	if w.line.output == "json" {
		e := json.NewEncoder(w.std.out)
		e.SetEscapeHTML(false)
		return e.Encode(c)
	}
	var b strings.Builder
	if c.Title != "" {
		b.WriteString("\n# " + c.Title + "\n")
	}
	command := "$ " + c.Command
	if w.bold {
		command = "\x1b[1m" + command + "\x1b[0m"
	}
	b.WriteString(command + "\n" + c.Output + c.Error)
	_, err := io.WriteString(w.std.out, b.String())
	return err
}

// isTerminal reports whether a stream is a terminal that shows more than plain text.
func isTerminal(stream io.Writer) bool {
	f, ok := stream.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != "" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
