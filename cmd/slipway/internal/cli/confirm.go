package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Confirmation is the flag --yes of a verb that cannot be undone or that lets a rollout continue.
// There is one rule for all of these verbs: on a terminal they ask a person, and elsewhere they
// refuse unless --yes is set.
type Confirmation struct{ yes bool }

// AddFlags adds the flag.
func (c *Confirmation) AddFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&c.yes, "yes", "y", false, "do not ask; without a terminal the command refuses unless this is set")
}

// Given reports whether --yes is set, so that nothing is asked.
func (c *Confirmation) Given() bool { return c.yes }

// Confirm asks for the confirmation of question. undone begins the error if the answer is not yes,
// for example "nothing was deleted". An interrupt, or the end of --timeout, ends the question.
func (o *Options) Confirm(ctx context.Context, c Confirmation, question, undone string) error {
	if c.yes {
		return nil
	}
	if !o.asks() {
		return Usagef("%s: --yes is not set, and there is no terminal to ask for a confirmation", undone)
	}
	fmt.Fprintf(o.ErrOut, "%s? [y/N] ", Printable(question))
	answers := make(chan string, 1)
	go func() { // a read of a terminal cannot be canceled
		in := bufio.NewScanner(o.In)
		in.Scan() // unreadable input is no answer
		answers <- strings.ToLower(strings.TrimSpace(in.Text()))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(o.ErrOut)
		return context.Cause(ctx)
	case answer := <-answers:
		if answer != "y" && answer != "yes" {
			return errors.New(undone + ": the answer was not y")
		}
	}
	return nil
}

// asks reports whether the command can ask a person.
func (o *Options) asks() bool {
	f, is := o.In.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}
