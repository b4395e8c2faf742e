// Command quickstart plays the staged update run tutorial of Kubernetes fleets
// from its own YAML files, with nothing but Go installed: the hub, the three
// members and the engine's store are all in this process.
//
//	go run ./examples/quickstart
//
// It takes snapshot 0, edits the ConfigMap, takes snapshot 1, rolls that out
// (staging, a timed wait, canary, an approval) and rolls back to snapshot 0
// with a second run. On a terminal it draws the progress; piped it prints one
// line for each event; with -o json one JSON object for each event. Those are
// the engine's own [stages.Event] values, whose types are documented there;
// after each run there is one [Member] for each cluster.
//
// With -data DIR everything is kept in that directory: the engine's store in
// the file slipway.db, and the hub and the members, which are clusters of their
// own elsewhere, in clusters.db. The program may be interrupted, killed, or
// lose power at any moment: the same command again goes on where it was. A
// timed wait goes on meanwhile, and what was approved stays approved. Every
// event is printed at least once over all processes, and the last one before a
// kill perhaps twice; a terminal shows the whole picture again. The YAML files
// have to be the same; other flags may differ, but -wait says nothing about
// runs that were planned already. One process at a time has a directory.
//
// A host that embeds Slipway reads tutorial.go: everything that it has to write
// is there, and data.go opens what is to survive. The other files read the YAML
// and show what happens.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], stdio{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// stdio is what the program talks to.
type stdio struct {
	in       io.Reader
	out, err io.Writer
}

// run is the program. It ends early when ctx does.
func run(ctx context.Context, args []string, std stdio) int {
	opt, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(std.out)
		return exitDone
	case err != nil:
		fmt.Fprintf(std.err, "quickstart: %v\n\n", err)
		usage(std.err)
		return exitUsage
	}
	left, err := play(ctx, opt, std)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(std.err, "quickstart: interrupted:", left+fate(opt, left, args))
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(std.err, "quickstart:", strings.ReplaceAll(err.Error(), "\n", "; "))
		return exitFailed
	}
	return exitDone
}

// fate says what becomes of what was left.
func fate(opt options, left string, args []string) string {
	switch {
	case opt.data != "":
		return "; everything is kept, and the same command goes on: go run ./examples/quickstart " + quoted(args)
	case left == nothingLeft:
		return ""
	default:
		return "; it was kept in memory and is gone"
	}
}

// quoted writes arguments as a shell reads them.
func quoted(args []string) string {
	var out []string
	for _, a := range args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool {
			return !unicode.In(r, unicode.L, unicode.N) && !strings.ContainsRune("-_=./,:@+", r)
		}) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		out = append(out, a)
	}
	return strings.Join(out, " ")
}

// play reads the files and plays the tutorial. It returns what state it left
// the runs in.
func play(ctx context.Context, opt options, std stdio) (left string, err error) {
	docs, err := readDocuments(opt.dir)
	if err != nil {
		return nothingLeft, err
	}
	kept, err := openData(ctx, opt.data, docs.files)
	if err != nil {
		return nothingLeft, err
	}
	defer func() { err = errors.Join(err, kept.close()) }()
	notes := shortenWaits(docs.Strategies, opt.wait)
	show, prompt := newView(opt.output, std)
	defer func() {
		if closed := show.close(); err == nil {
			err = closed
		}
	}()
	for _, n := range notes {
		if err := show.note(n); err != nil {
			return nothingLeft, err
		}
	}
	t, err := newTutorial(ctx, docs, kept, show, newAnswerer(opt, std.in, prompt))
	if err != nil {
		return nothingLeft, err
	}
	t.slowDown(opt.latency)
	err = t.run(ctx)
	return t.left(), err
}

// options are what the flags say.
type options struct {
	dir, data, output, approve string
	wait, latency              time.Duration
}

// parse reads the flags.
func parse(args []string) (options, error) {
	var opt options
	flags := opt.flags(io.Discard)
	if err := flags.Parse(args); err != nil {
		return opt, err
	}
	switch {
	case flags.NArg() > 0:
		return opt, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case opt.wait < 0:
		return opt, fmt.Errorf("-wait %v: must not be negative", opt.wait)
	case opt.latency < 0:
		return opt, fmt.Errorf("-latency %v: must not be negative", opt.latency)
	}
	return opt, nil
}

func (o *options) flags(out io.Writer) *flag.FlagSet {
	flags := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {}
	o.output, o.approve = "auto", "auto"
	flags.Func("o", "the `format`: auto draws on a terminal and prints lines elsewhere, text prints\na line for each event, json an object for each event (default auto)", oneOf(&o.output, "auto", "text", "json"))
	flags.Func("approve", "`who` approves: auto, the program, or ask, you (default auto)", oneOf(&o.approve, "auto", "ask"))
	flags.StringVar(&o.dir, "dir", "", "read the YAML files of this `directory` (default: the tutorial's, which are built in)")
	flags.StringVar(&o.data, "data", "", "keep everything in this `directory`, which is made if it is missing, and go on with what it\nholds (default: in memory, gone with the program)")
	flags.DurationVar(&o.wait, "wait", 3*time.Second, "how long timed waits last, instead of what the file says; 0 keeps the file's")
	flags.DurationVar(&o.latency, "latency", 20*time.Millisecond, "how long every call to a member takes")
	return flags
}

// oneOf returns the setter of a flag that takes one of a few words.
func oneOf(value *string, words ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(words, s) {
			return fmt.Errorf("must be one of %s", strings.Join(words, ", "))
		}
		*value = s
		return nil
	}
}

func usage(out io.Writer) {
	fmt.Fprintln(out, "usage: quickstart [-o auto|text|json] [-approve auto|ask] [-dir directory] [-data directory] [-wait 3s] [-latency 20ms]")
	new(options).flags(out).PrintDefaults()
}
