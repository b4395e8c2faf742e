package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
)

// answerer answers an approval request.
type answerer func(ctx context.Context, request string) (fleet.Answer, error)

// newAnswerer returns who approves: the program itself, or whoever sits at in.
func newAnswerer(who string, in io.Reader, p prompter) answerer {
	if who == "auto" {
		return approveAll
	}
	lines := make(chan string)
	failed := make(chan error, 1)
	var reading bool
	return func(ctx context.Context, request string) (fleet.Answer, error) {
		if !reading {
			reading = true
			go readLines(in, lines, failed)
		}
		return ask(ctx, request, p, lines, failed)
	}
}

func approveAll(_ context.Context, request string) (fleet.Answer, error) {
	return answerOf(request, approval.Approve, "quickstart"), nil
}

// prompter puts a question to a person; answered is called once there is a
// reply, or none will come.
type prompter interface {
	ask(question string)
	answered()
}

// plainPrompt asks on a writer.
type plainPrompt struct{ out io.Writer }

func (p plainPrompt) ask(question string) { fmt.Fprint(p.out, question) }
func (p plainPrompt) answered()           {}

var errNobody = errors.New("the input ended before the request was answered: it stays open, and the program leaves")

// ask asks until there is a clear answer.
func ask(ctx context.Context, request string, p prompter, lines <-chan string, failed <-chan error) (fleet.Answer, error) {
	defer p.answered()
	for {
		p.ask(fmt.Sprintf("Approve %s? [y/N/r(eject)] ", request))
		select {
		case <-ctx.Done():
			return fleet.Answer{}, ctx.Err()
		case err := <-failed:
			return fleet.Answer{}, fmt.Errorf("approval %s: %w", request, err)
		case line := <-lines:
			switch strings.ToLower(strings.TrimSpace(line)) {
			case "y", "yes":
				return answerOf(request, approval.Approve, "you"), nil
			case "r", "reject":
				return answerOf(request, approval.Reject, "you"), nil
			}
		}
	}
}

func answerOf(request string, v approval.Verdict, by string) fleet.Answer {
	comment := "lgtm"
	if v == approval.Reject {
		comment = "not like this"
	}
	return fleet.Answer{Request: request, Verdict: v, By: approval.Identity{Name: by}, Comment: comment}
}

// readLines sends the lines of in, then says how it ended. A read cannot be
// interrupted, so it is left behind when the program ends.
func readLines(in io.Reader, lines chan<- string, failed chan<- error) {
	s := bufio.NewScanner(in)
	for s.Scan() {
		lines <- s.Text()
	}
	if err := s.Err(); err != nil {
		failed <- err
		return
	}
	failed <- errNobody
}
