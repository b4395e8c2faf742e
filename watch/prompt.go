package watch

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/term"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Errors of [Prompt.Ask].
var (
	// ErrNoInput reports that the input ended before a request was answered.
	ErrNoInput = errors.New("the input ended before the request was answered: it stays open")
	// ErrLeftOpen reports that the person left the request open.
	ErrLeftOpen = errors.New("the request was left open")
)

// Prompt asks for approvals in lines, for programs that draw no run. Its zero value with In and
// Out is ready. It asks for one request at a time, and Answer asks for each request once.
type Prompt struct {
	// In is read from the first question to its end, even after the last question, because a read
	// cannot be interrupted.
	In  io.Reader
	Out io.Writer
	// Elsewhere is a command that answers a request elsewhere, without the run and the request. If
	// it is set, Prompt waits for a request that is left open, without asking again; otherwise
	// leaving it open is [ErrLeftOpen].
	Elsewhere string

	start sync.Once
	lines chan string
	end   error
	asked map[approval.Binding]bool
}

// askAgain is the interval of checks whether a request was answered elsewhere.
const askAgain = 500 * time.Millisecond

// Answer asks for the open requests of a run for which it has not asked before, and passes each
// answer to decide, like [Run] to Options.Decide; status reads the run, like
// [fleet.RunHandle.Status].
// Call it whenever the run may have a new request. An answer from elsewhere is no error; errors
// come from status, Ask and decide.
func (a *Prompt) Answer(ctx context.Context, status func(context.Context) (fleet.Status, error),
	decide func(context.Context, approval.Request, approval.Verdict) error,
) error {
	s, err := status(ctx)
	if err != nil {
		return err
	}
	for _, r := range step.Requests(s.Plan, &s.Run) {
		if a.asked[r.Binding] {
			continue
		}
		if a.asked == nil {
			a.asked = map[approval.Binding]bool{}
		}
		a.asked[r.Binding] = true
		verdict, err := a.Ask(ctx, s.Plan, &r, func() (bool, error) {
			s, err := status(ctx)
			if err != nil {
				return true, err
			}
			return slices.ContainsFunc(step.Requests(s.Plan, &s.Run), func(q approval.Request) bool { return q.Binding == r.Binding }), nil
		})
		if err == nil && verdict != "" {
			err = decide(ctx, r, verdict)
		}
		if errors.Is(err, backend.ErrNotFound) || err == nil && verdict == "" {
			_, _ = fmt.Fprintf(a.Out, "request %s was answered elsewhere\n", r.Name)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Ask shows a request in the form of [Question], and returns the answer of a person: y approves,
// r rejects, and n leaves it open. If isOpen reports that the request is no longer open, Ask
// returns no verdict and no error. Errors come from ctx, isOpen and the input.
func (a *Prompt) Ask(ctx context.Context, p *stages.Plan, r *approval.Request, isOpen func() (bool, error)) (approval.Verdict, error) {
	a.start.Do(func() {
		a.lines = make(chan string)
		go a.read()
	})
	no := "n leaves it open, and ends this program"
	if a.Elsewhere != "" {
		no = "n leaves it open"
	}
	_, _ = fmt.Fprintf(a.Out, "%s\n  y approves, r rejects, %s: ", strings.Map(keepLines, strings.Join(Question(p, r), "\n")), no)
	poll := time.NewTicker(askAgain)
	defer poll.Stop()
	for {
		select {
		case <-ctx.Done():
			_, _ = fmt.Fprintln(a.Out)
			return "", ctx.Err()
		case line, more := <-a.lines:
			if !more {
				_, _ = fmt.Fprintln(a.Out)
				return "", fmt.Errorf("approval %s: %w", r.Name, a.end)
			}
			if !isTerminalInput(a.In) { // nothing has shown the end of the line
				_, _ = fmt.Fprintln(a.Out)
			}
			switch strings.ToLower(strings.TrimSpace(line)) {
			case "y", "yes":
				return approval.Approve, nil
			case "r", "reject":
				return approval.Reject, nil
			case "n", "no":
				if a.Elsewhere == "" {
					return "", fmt.Errorf("approval %s: %w", r.Name, ErrLeftOpen)
				}
				_, _ = fmt.Fprintf(a.Out, "  To answer later, from another terminal: %s %s %s\n  To answer here: y or r: ", a.Elsewhere, r.Run, r.Name)
			default:
				_, _ = fmt.Fprint(a.Out, "  y, r or n: ")
			}
		case <-poll.C:
			if open, err := isOpen(); err != nil || !open {
				_, _ = fmt.Fprintln(a.Out)
				return "", err
			}
		}
	}
}

// isTerminalInput reports whether an input shows what a person types.
func isTerminalInput(in io.Reader) bool {
	f, is := in.(term.File)
	return is && term.IsTerminal(f.Fd())
}

func keepLines(r rune) rune {
	if r == '\n' {
		return r
	}
	return printable(r)
}

// read sends the lines of the input, and closes the channel when it has ended.
func (a *Prompt) read() {
	s := bufio.NewScanner(a.In)
	for s.Scan() {
		a.lines <- s.Text()
	}
	if a.end = s.Err(); a.end == nil {
		a.end = ErrNoInput
	}
	close(a.lines)
}
