package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// line is what the command line says.
type line struct {
	// How the fleet is reached.
	data, kubeconfig, members, records string
	install, installOnly               bool
	wait                               time.Duration

	output  string
	verbose bool

	// words are the command and what it is about.
	words                          []string
	namespace, file, cluster, step string
}

// serves reports whether the program goes on until it is ended.
func (l *line) serves() bool { return l.kubeconfig != "" && len(l.words) == 0 && !l.installOnly }

// flags are those of the command line, with what the long names and the short ones of kubectl set.
func (l *line) flags(out io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("canary", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {}
	f.StringVar(&l.data, "data", "", "keep everything in this `DIR`, which is made if it is missing (default: in memory)")
	f.DurationVar(&l.wait, "wait", 10*time.Second, "how long a command with -data lets workflows go on")
	l.output = "text"
	f.Func("o", "the `FORMAT`: text, wide with more columns, or json (default text)", l.setOutput)
	f.StringVar(&l.kubeconfig, "kubeconfig", "", "`FILE` that reaches the hub cluster")
	f.StringVar(&l.members, "members", "", "`DIR` with a kubeconfig for each member, NAME.kubeconfig")
	f.BoolVar(&l.install, "install", false, "create or update the CRDs, then serve")
	f.BoolVar(&l.installOnly, "install-only", false, "create or update the CRDs, and exit")
	f.StringVar(&l.records, "records", "slipway-system", "`NAME` of the namespace of the hub's records")
	f.BoolVar(&l.verbose, "v", false, "log what is done, too")
	f.StringVar(&l.namespace, "n", "default", "`NAMESPACE` of what the command is about")
	f.StringVar(&l.namespace, "namespace", "default", "the same")
	f.StringVar(&l.file, "f", "", "`FILE` to apply, - for the input")
	f.StringVar(&l.cluster, "m", "", "`CLUSTER` to show, instead of the hub")
	f.StringVar(&l.step, "step", "", "`STEP` from which on a workflow is restarted, or that is resumed alone")
	return f
}

func (l *line) setOutput(s string) error {
	if s != "text" && s != "json" && s != "wide" {
		return errors.New("must be text, wide or json")
	}
	l.output = s
	return nil
}

// parse reads a command line, with flags before, between and after the words.
func parse(args []string) (line, error) {
	var l line
	f := l.flags(io.Discard)
	for {
		if err := f.Parse(args); err != nil {
			return l, err
		}
		if f.NArg() == 0 {
			break
		}
		l.words, args = append(l.words, f.Arg(0)), f.Args()[1:]
	}
	for _, prefix := range []string{"kubectl", "amc"} {
		if len(l.words) > 0 && l.words[0] == prefix {
			l.words = l.words[1:]
		}
	}
	given := map[string]bool{}
	f.Visit(func(f *flag.Flag) { given[strings.TrimSuffix(f.Name, "amespace")] = true })
	problems := append(l.fleetProblems(given), l.commandProblems(given)...)
	if len(problems) > 0 {
		return l, errors.New(strings.Join(problems, "\n  "))
	}
	return l, nil
}

// fleetProblems says what is wrong with how the fleet is to be reached.
func (l *line) fleetProblems(given map[string]bool) (problems []string) {
	if l.kubeconfig == "" {
		for _, name := range []string{"members", "install", "install-only", "records"} {
			if given[name] {
				problems = append(problems, "-"+name+" belongs to -kubeconfig, which is missing")
			}
		}
		if len(l.words) > 0 && l.data == "" {
			problems = append(problems, "-data is missing: the directory in which everything is kept; or -kubeconfig, for a hub of real clusters")
		}
	} else if l.data != "" {
		problems = append(problems, "-data and -kubeconfig exclude each other: clusters are simulated or real")
	}
	if l.serves() && l.members == "" {
		problems = append(problems, "-members is missing: the directory that has NAME.kubeconfig for each member")
	}
	if l.wait < 0 {
		problems = append(problems, fmt.Sprintf("-wait %v must not be negative", l.wait))
	}
	return problems
}

// command is what the program can be told.
type command struct {
	verb string
	// words are how many follow the verb, at least and at most.
	least, most int
	usage       string
	// flags are those of this command.
	flags []string
	// embedded reports whether on a hub of real clusters kubectl does it.
	embedded bool
}

var commands = []command{
	{verb: "create", least: 2, most: 2, usage: "create namespace NAME", embedded: true},
	{verb: "apply", usage: "apply -f FILE", flags: []string{"f", "n"}, embedded: true},
	{verb: "get", least: 1, most: 2, usage: "get KIND [NAME]", flags: []string{"n", "m"}},
	{verb: "delete", least: 2, most: 2, usage: "delete KIND NAME", flags: []string{"n"}, embedded: true},
	{verb: "workflow", least: 2, most: 2, usage: "workflow suspend|resume|terminate|restart APP", flags: []string{"n", "step"}},
}

// workflowVerbs are what can be done to a workflow.
var workflowVerbs = []string{"suspend", "resume", "terminate", "restart"}

// commandProblems says what is wrong with the command.
func (l *line) commandProblems(given map[string]bool) (problems []string) {
	var c command
	if len(l.words) > 0 {
		i := slices.IndexFunc(commands, func(c command) bool { return c.verb == l.words[0] })
		if i < 0 {
			return []string{fmt.Sprintf("%q is no command", l.words[0])}
		}
		c = commands[i]
		if n := len(l.words) - 1; n < c.least || n > c.most {
			problems = append(problems, fmt.Sprintf("%s: how it is used: %s", c.verb, c.usage))
		}
		if c.embedded && l.kubeconfig != "" {
			problems = append(problems, fmt.Sprintf("%s is for simulated clusters: on real ones use kubectl %s", c.verb, c.verb))
		}
	}
	for _, name := range []string{"f", "m", "n", "step"} {
		if given[name] && !slices.Contains(c.flags, name) {
			problems = append(problems, fmt.Sprintf("-%s is no flag of %s", name, nameOf(c)))
		}
	}
	return append(problems, l.detailProblems(c.verb)...)
}

func nameOf(c command) string {
	if c.verb == "" {
		return "the walk through the tutorial, or of a hub that is served"
	}
	return c.verb
}

// detailProblems says what is wrong with the words of a command that is there.
func (l *line) detailProblems(verb string) (problems []string) {
	second := ""
	if len(l.words) > 1 {
		second = l.words[1]
	}
	switch {
	case verb == "create" && second != "namespace" && second != "ns":
		problems = append(problems, "create: only a namespace can be created: apply everything else")
	case verb == "apply" && l.file == "":
		problems = append(problems, "apply: -f is missing: the file to apply")
	case verb == "workflow" && !slices.Contains(workflowVerbs, second):
		problems = append(problems, fmt.Sprintf("workflow %s: must be one of %s", second, strings.Join(workflowVerbs, ", ")))
	case verb == "workflow" && l.step != "" && second != "restart" && second != "resume":
		problems = append(problems, "-step is for workflow restart and resume")
	case verb == "get" && l.cluster != "" && l.kubeconfig != "" && l.members == "":
		problems = append(problems, "get -m: -members is missing: the directory that has NAME.kubeconfig for each member")
	}
	if verb == "get" && l.cluster != "" && len(l.words) < 3 {
		problems = append(problems, "get -m: a name is missing: members are asked for single objects")
	}
	if verb == "get" || verb == "delete" {
		if _, ok := kindOf(second); !ok {
			problems = append(problems, fmt.Sprintf("%s: there is no kind %q: take one of %s", verb, second, strings.Join(kindWords(), ", ")))
		}
	}
	return problems
}

func usage(out io.Writer) {
	fmt.Fprintln(out, "usage: canary [flags]: walks through the tutorial; with -kubeconfig, serves a hub")
	fmt.Fprintln(out, "       canary -data DIR|-kubeconfig FILE COMMAND [flags]. Commands:")
	for _, c := range commands {
		fmt.Fprintln(out, "  "+c.usage)
	}
	fmt.Fprintln(out, "Flags:")
	new(line).flags(out).PrintDefaults()
}
