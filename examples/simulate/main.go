// Command simulate says what a staged run would do and when it would end: it
// plays a scenario in virtual time, without clusters, by the code that carries
// out real runs.
//
//	go run ./examples/simulate scenario.yaml
//	go run ./examples/simulate -o json scenario.yaml
//
// The file, or - for the standard input, says which clusters there are, which
// strategy takes a change to them, what goes wrong and who asks for what. Its
// fields are documented in package formats/scenario; examples/simulate/testdata
// has some files.
//
//	profile: Staged
//	clusters: [{name: c1, labels: {env: canary}}, {name: c2, labels: {env: prod}}]
//	strategy:
//	  stages:
//	  - name: canary
//	    labelSelector: {matchLabels: {env: canary}}
//	    afterStageTasks: [{type: TimedWait, waitTime: 1h}, {type: Approval}]
//	  - name: prod
//	    labelSelector: {matchLabels: {env: prod}}
//	take: 5m
//	faults: [{cluster: c2, fail: 1}]
//	commands: [{at: 2h, do: approve, stage: canary, by: ann}]
//
// # Output
//
// Text is made for 80 columns: a line for each event, then how the run ended, how
// many clusters were in flight at most in each stage and group, and which gates
// held the run. A gate is said to have decided when no other one of its side held
// the run longer.
//
// With -o json every line is one JSON object. Those of events have at, the time
// since the start of the run, type, one of those of [stages.EventType], stage,
// group and cluster, which may be "", and after them what else there is: attempt,
// count, request, command, by, unchanged, until, which is counted from the start
// too, and message. The last one has type End, the state of the run, and the
// states of its stages and clusters by their names; besides
//
//	reason    Ended; Stuck, where nothing can happen any more; Cut, at until
//	message   why the run is in its state
//	waiting   what it waits for, where it has not ended
//	peak      clusters in flight at most: in the run, in each stage, and in each
//	          group, which is named stage/group
//	gates     those that were reached: for how long they held the run, and who
//	          decided
//	rollback  the same of the run that takes this one back, which begins with a line
//	          of type Rollback that has its plan; in its events run is its name
//	refused   why the run is not taken back, where that was asked for
//
// Warnings and errors go to the standard error. The exit code is 0 when the
// simulation came to its end, whatever that is, 1 for a scenario with errors,
// which are told all at once, and 2 for wrong flags.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/slipway-dev/slipway/formats/scenario"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

const usage = `usage: simulate [-o text|json] FILE

Plays the scenario in FILE, or in the standard input where that is -, and says
what happens and when the run ends. The fields of a scenario are documented in
package formats/scenario.

  -o FORMAT   text (the default), or json: one object for each event
`

// run is the program.
func run(args []string, in io.Reader, out, errOut io.Writer) int {
	format, file, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(out, usage)
		return exitDone
	case err != nil:
		fmt.Fprintf(errOut, "simulate: %v\n%s", err, usage)
		return exitUsage
	}
	if err := play(format, file, in, out, errOut); err != nil {
		tell(errOut, err.Error())
		return exitFailed
	}
	return exitDone
}

// tell prints the lines of a message that a terminal cannot be harmed by.
func tell(out io.Writer, message string) {
	for l := range strings.SplitSeq(message, "\n") {
		fmt.Fprintf(out, "simulate: %s\n", clean(l))
	}
}

// parse reads the flags, which may stand on both sides of the file.
func parse(args []string) (format, file string, err error) {
	flags := flag.NewFlagSet("simulate", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&format, "o", "text", "")
	var files []string
	for {
		if err := flags.Parse(args); err != nil {
			return "", "", err
		}
		if flags.NArg() == 0 {
			break
		}
		files = append(files, flags.Arg(0))
		args = flags.Args()[1:]
	}
	switch {
	case format != "text" && format != "json":
		return "", "", fmt.Errorf("-o must be text or json, not %q", format)
	case len(files) != 1:
		return "", "", fmt.Errorf("wants one file, got %d", len(files))
	}
	return format, files[0], nil
}

// view shows a simulation.
type view interface {
	event(e simulate.Event) error
	end(e *simulate.End) error
}

// play reads the scenario and shows what happens in it.
func play(format, file string, in io.Reader, out, errOut io.Writer) error {
	s, err := read(file, in)
	if err != nil {
		return err
	}
	for _, w := range s.Plan.Warnings {
		tell(errOut, "warning: "+w)
	}
	buffer := bufio.NewWriter(out)
	var v view = &text{out: buffer}
	if format == "json" {
		v = newJSONLines(buffer, s.Environment.Start)
	}
	end, err := simulate.Run(s.Plan, s.Environment, v.event)
	if err == nil {
		err = v.end(&end)
	}
	return errors.Join(err, buffer.Flush())
}

func read(file string, in io.Reader) (scenario.Scenario, error) {
	if file == "-" {
		return scenario.Read(in, "standard input")
	}
	f, err := os.Open(file)
	if err != nil {
		return scenario.Scenario{}, err
	}
	defer f.Close()
	return scenario.Read(f, file)
}
