package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// errHelp reports whether help was asked for.
var errHelp = errors.New("help")

// line is a command line that is right.
type line struct {
	command command
	values  map[string][]string
}

// one returns the value of a flag, and "" where it was not given.
func (l *line) one(name string) string {
	if v := l.values[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// given reports whether a flag was given.
func (l *line) given(name string) bool {
	_, ok := l.values[name]
	return ok
}

// duration returns the value of a flag that was checked.
func (l *line) duration(name string) time.Duration {
	d, _ := time.ParseDuration(l.one(name))
	return d
}

func (l *line) number(name string) int {
	n, _ := strconv.Atoi(l.one(name))
	return n
}

func (l *line) fleet() string { return l.one("fleet-name") }
func (l *line) name() string  { return l.one("name") }

// option is a flag.
type option struct {
	name, short string
	// what stands for the value in the usage; empty for a flag that has none.
	what, help string
	// many reports whether several values may follow.
	many bool
	// check returns what a value must be, or "".
	check func(string) string
}

// command is what the program can do.
type command struct {
	noun, verb, help string
	// needs and takes are the flags that have to be there and those that may.
	needs, takes []option
	// makes reports whether the command makes the file if there is none.
	makes bool
	// check returns what is wrong with the flags together.
	check func(*line) []string
	do    func(context.Context, *session) error
}

// parse reads a command line. The error tells everything that is wrong with it. The
// line has the command if that is known.
func parse(args []string) (line, error) {
	l := line{values: map[string][]string{}}
	if len(args) > 0 && args[0] == "fleet" {
		args = args[1:]
	}
	if asksHelp(args) {
		l.command, _ = find(args)
		return l, errHelp
	}
	c, err := find(args)
	if err != nil {
		return l, err
	}
	l.command = c
	problems := l.read(args[2:])
	problems = append(problems, l.missing()...)
	if c.check != nil {
		problems = append(problems, c.check(&l)...)
	}
	if len(problems) > 0 {
		return l, errors.New(strings.Join(problems, "\n  "))
	}
	return l, nil
}

func asksHelp(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == "-h" || a == "--help" })
}

func find(args []string) (command, error) {
	if len(args) >= 2 {
		for _, c := range commands() {
			if c.noun == args[0] && c.verb == args[1] {
				return c, nil
			}
		}
	}
	if len(args) == 0 {
		return command{}, errors.New("a command is missing")
	}
	return command{}, fmt.Errorf("%q is no command", strings.Join(args[:min(2, len(args))], " "))
}

// read takes the flags in and returns what is wrong with them.
func (l *line) read(args []string) (problems []string) {
	for len(args) > 0 {
		name, value, joined := strings.Cut(args[0], "=")
		o, ok := l.command.option(name)
		switch {
		case !ok && strings.HasPrefix(name, "-"):
			problems = append(problems, fmt.Sprintf("%s is no flag of %s %s", name, l.command.noun, l.command.verb))
			args = args[1+len(valuesOf(args[1:], false)):]
			continue
		case !ok:
			problems = append(problems, fmt.Sprintf("%q belongs to no flag", args[0]))
			args = args[1:]
			continue
		}
		values := []string{value}
		args = args[1:]
		if !joined {
			values = valuesOf(args, o.many)
			if o.what == "" {
				values = nil
			}
			args = args[len(values):]
		}
		problems = append(problems, l.set(o, values)...)
	}
	return problems
}

// valuesOf returns the values that follow a flag: one, or as many as there are.
func valuesOf(args []string, many bool) []string {
	n := 0
	for n < len(args) && !strings.HasPrefix(args[n], "-") && (many || n == 0) {
		n++
	}
	return args[:n]
}

func (l *line) set(o option, values []string) (problems []string) {
	flag := "--" + o.name
	if l.given(o.name) {
		return []string{flag + " is there twice"}
	}
	l.values[o.name] = values
	if o.what == "" && len(values) > 0 {
		return []string{flag + " takes no value"}
	}
	if o.what != "" && len(values) == 0 {
		return []string{flag + " needs a value: " + o.what}
	}
	for _, v := range values {
		if o.check == nil {
			continue
		}
		if want := o.check(v); want != "" {
			problems = append(problems, fmt.Sprintf("%s %q must be %s", flag, v, want))
		}
	}
	return problems
}

// missing names the flags that have to be there.
func (l *line) missing() (problems []string) {
	for _, o := range l.command.needs {
		if !l.given(o.name) {
			problems = append(problems, "--"+o.name+" is missing: "+o.help)
		}
	}
	return problems
}

func (c *command) option(flag string) (option, bool) {
	for _, o := range c.options() {
		if flag == "--"+o.name || o.short != "" && flag == "-"+o.short || flag == "-data" && o.name == "data" {
			return o, true
		}
	}
	return option{}, false
}

func (c *command) options() []option { return slices.Concat(c.needs, c.takes, everywhere()) }

// everywhere are the flags of all commands.
func everywhere() []option {
	return []option{
		{name: "data", what: "FILE", help: "where everything is kept (default FLEET.db)"},
		{name: "output", short: "o", what: "json|table", help: "how it is printed (default json)", check: oneOf("json", "table")},
	}
}

// usage prints how a command is called, or which commands there are.
func usage(out io.Writer, l line) {
	if l.command.noun == "" {
		fmt.Fprintln(out, "usage: upgrade [fleet] COMMAND FLAGS; COMMAND -h tells its flags. Commands:")
		for _, c := range commands() {
			fmt.Fprintf(out, "  %-22s %s\n", c.noun+" "+c.verb, c.help)
		}
		return
	}
	fmt.Fprintf(out, "usage: upgrade %s %s FLAGS: %s. Flags:\n", l.command.noun, l.command.verb, l.command.help)
	for i, o := range l.command.options() {
		name := "--" + o.name
		if o.short != "" {
			name += ", -" + o.short
		}
		need := ""
		if i < len(l.command.needs) {
			need = " (required)"
		}
		fmt.Fprintf(out, "  %s %s\n      %s%s\n", name, o.what, o.help, need)
	}
}

// oneOf returns a check for one of a few words.
func oneOf(words ...string) func(string) string {
	return func(s string) string {
		if slices.Contains(words, s) {
			return ""
		}
		return strings.Join(words, " or ")
	}
}

// name checks the name of a member, a strategy or a run, which Azure wants so.
func isName(most int) func(string) string {
	form := regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	return func(s string) string {
		if form.MatchString(s) && len(s) <= most {
			return ""
		}
		return fmt.Sprintf("1 to %d lower-case letters, digits and hyphens, and begin and end with a letter or a digit", most)
	}
}

func isResourceGroup(s string) string {
	if regexp.MustCompile(`^[-\w.()]{1,90}$`).MatchString(s) && !strings.HasSuffix(s, ".") {
		return ""
	}
	return "1 to 90 letters, digits, and -_.(), and not end with a dot"
}

func isDuration(s string) string {
	if d, err := time.ParseDuration(s); err == nil && d > 0 && d <= 24*time.Hour {
		return ""
	}
	return "a time of more than 0 and at most 24h, for example 2s"
}

func isNumber(least int) func(string) string {
	return func(s string) string {
		if n, err := strconv.Atoi(s); err == nil && n >= least && n <= 1_000_000 {
			return ""
		}
		return fmt.Sprintf("a number from %d to 1000000", least)
	}
}
