package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
)

// answerer answers an approval request.
type answerer func(ctx context.Context, request string) (fleet.Answer, error)

// thinking is how long the program takes at most to approve, so that a reader
// who looks on sees what it approves.
const thinking = time.Second

// newAnswerer returns what approves: the program itself, or the user at in.
func newAnswerer(opt options, in io.Reader, p prompter) answerer {
	if opt.approve == "auto" {
		return approveAfter(min(thinking, cmp.Or(opt.wait, thinking)))
	}
	lines, ended := make(chan string), make(chan error, 1)
	start := sync.OnceFunc(func() { go readLines(in, lines, ended) })
	return func(ctx context.Context, request string) (fleet.Answer, error) {
		start()
		return ask(ctx, request, p, lines, ended)
	}
}

func approveAfter(d time.Duration) answerer {
	return func(ctx context.Context, request string) (fleet.Answer, error) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return fleet.Answer{}, ctx.Err()
		case <-t.C:
			return answerOf(request, approval.Approve, "quickstart"), nil
		}
	}
}

// prompter puts a question to a person. After each, answered is called once
// there is a reply, or when none will come.
type prompter interface {
	ask(question string)
	answered(replied bool)
}

// plainPrompt asks on a writer.
type plainPrompt struct {
	out    io.Writer
	echoes bool // whether a terminal shows what is typed
}

func (p plainPrompt) ask(question string) { fmt.Fprint(p.out, question) }

func (p plainPrompt) answered(replied bool) {
	if !replied || !p.echoes {
		fmt.Fprintln(p.out)
	}
}

var errNobody = errors.New("the input ended before the request was answered: it stays open, and the program leaves")

// ask asks until there is a clear answer.
func ask(ctx context.Context, request string, p prompter, lines <-chan string, ended <-chan error) (fleet.Answer, error) {
	for {
		p.ask(fmt.Sprintf("Approve %s? [y/N/r(eject)] ", request))
		line, err := reply(ctx, lines, ended)
		p.answered(err == nil)
		if err != nil {
			return fleet.Answer{}, fmt.Errorf("approval %s: %w", request, err)
		}
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return answerOf(request, approval.Approve, "you"), nil
		case "r", "reject":
			return answerOf(request, approval.Reject, "you"), nil
		}
	}
}

func reply(ctx context.Context, lines <-chan string, ended <-chan error) (string, error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case err := <-ended:
		return "", err
	case line := <-lines:
		return line, nil
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
func readLines(in io.Reader, lines chan<- string, ended chan<- error) {
	s := bufio.NewScanner(in)
	for s.Scan() {
		lines <- s.Text()
	}
	if err := s.Err(); err != nil {
		ended <- err
		return
	}
	ended <- errNobody
}
