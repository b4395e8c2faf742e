// Package cli has the common parts of the command's verbs: the streams, the formats of output,
// the identity, errors of the command line, and the exit codes. Each package of the command
// beside it makes its verbs from an [Options], and package main adds them to the root.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/durations"
	"github.com/slipway-dev/slipway/stages"
)

// The exit codes. The documentation of the command has a table of them.
const (
	ExitDone         = 0
	ExitFailed       = 1
	ExitUsage        = 2
	ExitDiffers      = 3
	ExitUnsuccessful = 4
	ExitTimeout      = 5
	ExitInterrupted  = 130
)

// Errors that end the command after it has shown the details.
var (
	// ErrDiffers reports that differences were found.
	ErrDiffers = errors.New("differences were found")
	// ErrUnsuccessful reports that a run which was followed to its end did not complete.
	ErrUnsuccessful = errors.New("the run did not complete")
	// ErrShown reports that the error was already shown.
	ErrShown = errors.New("something went wrong, which was shown")
	// ErrTimeout reports that --timeout has passed.
	ErrTimeout = errors.New("--timeout has passed")
)

// Unsuccessful returns the error of a run that did not complete: it names the run, its state, the
// reason, and the rollback, which may be empty. It matches [ErrUnsuccessful].
func Unsuccessful(run string, state stages.State, reason, rollback string) error {
	text := fmt.Sprintf("run %s is %s", run, state)
	if verb := map[stages.State]string{stages.Failed: "failed", stages.Completed: "completed", stages.Aborted: "was aborted", stages.Superseded: "was superseded"}[state]; verb != "" {
		text = "run " + run + " " + verb
	}
	if reason != "" {
		text += ": " + reason
	}
	if rollback != "" {
		text += "; it is " + rollback
	}
	return unsuccessful(text)
}

type unsuccessful string

func (e unsuccessful) Error() string { return string(e) }

func (unsuccessful) Is(target error) bool { return target == ErrUnsuccessful }

// UsageError is an error of the command line.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

func (e UsageError) Unwrap() error { return e.Err }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Options are the common flags and streams of all verbs.
type Options struct {
	genericiooptions.IOStreams
	// Name is the name of the command in its call, slipway or kubectl slipway.
	Name string
	// Output is the value of -o, and Formats are the formats of the verb; nil means the formats of
	// lists.
	Output  string
	Formats []string
	// As and Groups are the identity of the requester.
	As     string
	Groups []string
	// Timeout limits waiting; 0 means no limit.
	Timeout time.Duration
}

// Within calls do for at most --timeout. If the time has passed, or the command was interrupted,
// the error is [ErrTimeout] or context.Canceled, instead of its consequences.
func (o *Options) Within(ctx context.Context, do func(context.Context) error) error {
	if o.Timeout < 0 {
		return Usagef("--timeout %s: want a time that is not negative", o.Timeout)
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, ErrTimeout)
		defer cancel()
	}
	err := do(ctx)
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), ErrTimeout):
		return ErrTimeout
	}
	return context.Canceled
}

// Recorded reports on the output a recorded request about an object, KIND/NAME; with -o name it
// prints only the object.
func (o *Options) Recorded(object, format string, args ...any) error {
	if o.Output == Name {
		return o.Said("%s", object)
	}
	return o.Said("%s: %s", object, fmt.Sprintf(format, args...))
}

// Said prints a line on the output, see [Printable].
func (o *Options) Said(format string, args ...any) error {
	_, err := fmt.Fprintln(o.Out, Printable(fmt.Sprintf(format, args...)))
	return err
}

// Open opens a file for a verb, or the standard input for -, and returns its name for errors.
func (o *Options) Open(file string) (io.ReadCloser, string, error) {
	if file == "-" {
		return io.NopCloser(o.In), "standard input", nil
	}
	f, err := os.Open(file)
	return f, file, err
}

// ReadFile decodes a YAML or JSON document. An unknown field is an error.
func ReadFile(path string, into any) error {
	text, err := os.ReadFile(path)
	if err == nil {
		err = decode(text, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func decode(text []byte, into any) error {
	err := yaml.UnmarshalStrict(text, into)
	if err == nil {
		return nil
	}
	if document, convErr := yaml.YAMLToJSON(text); convErr == nil {
		return durations.Explain(err, document, into)
	}
	return err
}

// Warn prints a warning on standard error, see [Printable].
func (o *Options) Warn(format string, args ...any) {
	_, _ = fmt.Fprintf(o.ErrOut, "warning: %s\n", Printable(fmt.Sprintf(format, args...)))
}

// Logger returns a log on standard error for errors of a long-running command.
func (o *Options) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(o.ErrOut, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// Arguments turns a wrong number of arguments into a UsageError with the line of usage.
func Arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		switch {
		case err != nil && len(args) > 0 && cmd.HasAvailableSubCommands():
			return UnknownCommand(cmd, args[0])
		case err != nil:
			return Usagef("%w: want %s; see %s --help", err, cmd.UseLine(), cmd.CommandPath())
		}
		return nil
	}
}

// Without makes commands and their subcommands refuse inherited flags that they do not use,
// because an ignored flag would name a different target from the one that the command uses.
func Without(flags []string, cmds ...*cobra.Command) []*cobra.Command {
	for _, cmd := range cmds {
		Without(flags, cmd.Commands()...)
		run := cmd.RunE
		if run == nil {
			continue
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			for _, name := range flags {
				if f := cmd.InheritedFlags().Lookup(name); f != nil && f.Changed {
					return Usagef("--%s: leave it out: %s does not use it", name, cmd.CommandPath())
				}
			}
			return run(cmd, args)
		}
	}
	return cmds
}

// Group returns a command with subcommands.
func Group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return UnknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(verbs...)
	return cmd
}

// ExitCode returns the exit code for err, and prints err unless it was shown already.
func (o *Options) ExitCode(err error) int {
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, ErrDiffers):
		return ExitDiffers
	case errors.Is(err, ErrShown):
		return ExitFailed
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	}
	kind := backend.ErrPermanent.Error() // for programs
	text := strings.TrimPrefix(strings.TrimSuffix(err.Error(), ": "+kind), kind+": ")
	fmt.Fprintln(o.ErrOut, wrapped("error: "+Printable(text), widthOf(o.ErrOut)))
	_, wrong := errors.AsType[UsageError](err)
	switch {
	case wrong:
		return ExitUsage
	case errors.Is(err, ErrUnsuccessful):
		return ExitUnsuccessful
	case errors.Is(err, ErrTimeout):
		return ExitTimeout
	}
	return ExitFailed
}
