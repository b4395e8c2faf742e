package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// command is something that can be done with a file.
type command struct {
	word string
	// arg names the word that has to follow, "" for none.
	arg string
	// flags are those that mean something here, beside -o.
	flags []string
	help  string
	do    func(context.Context, *view) error
}

func commands() []command {
	both := []string{"run", "placement"}
	return []command{
		{word: "overview", help: "the file, placements with snapshots, runs (default)", do: overview},
		{word: "runs", flags: both, help: "runs with state, stage, progress, engine", do: listRuns},
		{word: "run", arg: "NAME", help: "one run: stages, what it waits for, approvals", do: showRun},
		{word: "plans", flags: both, help: "plans and the runs that carry them out", do: listPlans},
		{word: "plan", arg: "DIGEST|RUN", help: "one plan with its clusters", do: showPlan},
		{word: "journals", flags: both, help: "journals, whose they are and how long", do: listJournals},
		{word: "events", flags: both, help: "what happened, in the order of time", do: listEvents},
		{word: "leases", flags: both, help: "which engine holds which run", do: listLeases},
		{word: "records", flags: both, help: "keys and sizes of what is stored", do: listRecords},
		{word: "record", arg: "KEY", flags: []string{"reveal"}, help: "one record as it is stored", do: showRecord},
		{word: "backup", arg: "TO", help: "copy the file to a new file", do: backup},
	}
}

// line is what the command line says.
type line struct {
	file    string
	command command
	arg     string

	run, placement string
	json, reveal   bool
}

var errHelp = errors.New("help is asked for")

// parse reads the command line.
func parse(args []string) (line, error) {
	var l line
	flags := l.flags(io.Discard)
	words, err := l.words(flags, args)
	if err != nil {
		return l, err
	}
	if len(words) == 0 {
		return l, errors.New("FILE is missing: inspect FILE [command]")
	}
	l.file = words[0]
	if len(words) == 1 {
		words = append(words, "overview")
	}
	if l.command, err = commandOf(l.file, words[1]); err != nil {
		return l, err
	}
	if err := l.takeArg(words[2:]); err != nil {
		return l, err
	}
	return l, l.checkFlags(flags)
}

func (l *line) flags(out io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("inspect", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {}
	flags.Func("o", "the `format`: text, or json for an object on each line (default text)", func(s string) error {
		if s != "text" && s != "json" {
			return errors.New("must be text or json")
		}
		l.json = s == "json"
		return nil
	})
	flags.StringVar(&l.run, "run", "", "only what belongs to the run of this `name`")
	flags.StringVar(&l.placement, "placement", "", "only what belongs to the placement of this `name`")
	flags.BoolVar(&l.reveal, "reveal", false, "show records that may hold Secrets: those under content/ and placement/")
	return flags
}

// words reads the flags and returns what stands between them. After -- there
// are no flags.
func (l *line) words(flags *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, errHelp
		} else if err != nil {
			return nil, err
		}
		rest := flags.Args()
		if n := len(args) - len(rest); n > 0 && args[n-1] == "--" {
			return append(words, rest...), nil
		}
		if len(rest) == 0 {
			return words, nil
		}
		words, args = append(words, rest[0]), rest[1:]
	}
}

// commandOf returns the command of a word.
func commandOf(file, word string) (command, error) {
	all := commands()
	if i := slices.IndexFunc(all, func(c command) bool { return c.word == word }); i >= 0 {
		return all[i], nil
	}
	var known []string
	for _, c := range all {
		known = append(known, c.word)
	}
	if _, err := os.Stat(file); err != nil && slices.Contains(known, file) {
		return command{}, fmt.Errorf("the file comes first: inspect %s %s", word, file)
	}
	return command{}, fmt.Errorf("%q is no command: it must be one of %s", word, strings.Join(known, ", "))
}

// takeArg takes what follows the command.
func (l *line) takeArg(rest []string) error {
	c := l.command
	if c.arg != "" && len(rest) == 0 {
		return fmt.Errorf("%s is missing: inspect FILE %s %s", c.arg, c.word, c.arg)
	}
	if c.arg != "" {
		l.arg, rest = rest[0], rest[1:]
	}
	if len(rest) == 0 {
		return nil
	}
	for _, other := range commands() {
		if c.arg == "" && c.word == other.word+"s" {
			return fmt.Errorf("unexpected argument %q: one of the %s is shown by inspect FILE %s %s", rest[0], c.word, other.word, other.arg)
		}
	}
	return fmt.Errorf("unexpected argument %q after %s", rest[0], c.word)
}

// checkFlags refuses flags that would do nothing.
func (l *line) checkFlags(flags *flag.FlagSet) (err error) {
	flags.Visit(func(f *flag.Flag) {
		if f.Name != "o" && !slices.Contains(l.command.flags, f.Name) && err == nil {
			err = fmt.Errorf("-%s means nothing to %s: it is for %s", f.Name, l.command.word, strings.Join(takers(f.Name), ", "))
		}
		if f.Name != "reveal" && f.Name != "o" && f.Value.String() == "" && err == nil {
			err = fmt.Errorf("-%s is empty: it must be the name of a %s", f.Name, f.Name)
		}
	})
	return err
}

// takers are the commands that a flag is for.
func takers(name string) (words []string) {
	for _, c := range commands() {
		if slices.Contains(c.flags, name) {
			words = append(words, c.word)
		}
	}
	return words
}

func usage(out io.Writer) {
	fmt.Fprint(out, "usage: inspect FILE [command] [flags]\n\n"+
		"Shows what is in a file of the bolt store while no engine has it open. It never\n"+
		"writes to FILE. Flags may stand anywhere, times are in UTC.\n\n")
	for _, c := range commands() {
		fmt.Fprintf(out, "  %-17s %s\n", strings.TrimSpace(c.word+" "+c.arg), c.help)
	}
	fmt.Fprint(out, "\nflags:\n")
	new(line).flags(out).PrintDefaults()
	fmt.Fprint(out, "\nThe exit code is 0 when everything could be read, 1 when the file or something\n"+
		"in it could not, 2 for a wrong command line.\n")
}
