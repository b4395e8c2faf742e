package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/drift"
)

// line is what the command line says.
type line struct {
	hub, member, crd string
	format           string
	exitCode         bool
	options          drift.Options
}

var errHelp = errors.New("help is asked for")

// parse reads the command line.
func parse(args []string) (line, error) {
	l := line{format: "text"}
	flags := l.flags(io.Discard)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return l, errHelp
	} else if err != nil {
		return l, err
	}
	if rest := flags.Args(); len(rest) > 0 {
		return l, fmt.Errorf("unexpected argument %q: files are named by -hub, -member and -crd", rest[0])
	}
	return l, l.check()
}

func (l *line) flags(out io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("drift", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {}
	flags.StringVar(&l.hub, "hub", "", "`file` with what was asked for; - is the standard input")
	flags.StringVar(&l.member, "member", "", "`file` with what is on the member; - is the standard input")
	flags.StringVar(&l.crd, "crd", "", "`file` with definitions of custom resources")
	flags.StringVar(&l.options.Manager, "manager", "", "`name` of the field manager that applied the hub's objects (default the one that applied most of what they say)")
	flags.BoolVar(&l.exitCode, "exit-code", false, "exit with 1 where something differs")
	flags.Func("comparison", "`name`: PartialComparison or FullComparison (default PartialComparison)", l.setComparison)
	flags.Func("o", "`format`: text, json or yaml (default text)", l.setFormat)
	flags.Func("ignore", "`pointer` to a field that is left out; repeatable", func(s string) error {
		l.options.Ignore = append(l.options.Ignore, drift.IgnoreRule{Pointers: []string{s}})
		return nil
	})
	flags.Func("secret", "`pointer` to a value that is not shown; repeatable", func(s string) error {
		l.options.Secrets = append(l.options.Secrets, s)
		return nil
	})
	return flags
}

// setComparison takes the names of the API, however the first letter is written.
func (l *line) setComparison(s string) error {
	for _, c := range []drift.Comparison{drift.Partial, drift.Full} {
		if strings.EqualFold(s, string(c)) {
			l.options.Comparison = c
			return nil
		}
	}
	return fmt.Errorf("must be %s or %s", drift.Partial, drift.Full)
}

func (l *line) setFormat(s string) error {
	if !slices.Contains([]string{"text", "json", "yaml"}, s) {
		return errors.New("must be text, json or yaml")
	}
	l.format = s
	return nil
}

// check says what is missing or does not go together.
func (l *line) check() error {
	input := 0
	for _, file := range []string{l.hub, l.member, l.crd} {
		if file == "-" {
			input++
		}
	}
	switch {
	case l.hub == "":
		return errors.New("-hub is missing: a file with what was asked for")
	case l.member == "":
		return errors.New("-member is missing: a file with what is on the member")
	case input > 1:
		return errors.New("the standard input can be one file only")
	}
	if err := l.options.Validate(); err != nil {
		return fmt.Errorf("-ignore or -secret: %w", err)
	}
	return nil
}

func usage(out io.Writer) {
	fmt.Fprint(out, "usage: drift -hub FILE -member FILE [flags]\n\n"+
		"Says how objects on a member differ from those of the hub. Files hold YAML or\n"+
		"JSON, several documents and lists.\n\n")
	new(line).flags(out).PrintDefaults()
	fmt.Fprint(out, "\nThe exit code is 0 whether or not something differs, 1 with -exit-code where\n"+
		"something does, 2 for input that cannot be read and wrong flags.\n")
}
