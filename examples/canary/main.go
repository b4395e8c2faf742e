// Command canary delivers an application to a test cluster, waits for a person, and then delivers it to
// the production cluster: the tutorial of ACK One's application workflow, with the files and the commands
// of it. Without arguments it walks through that, with clusters in memory and nothing but Go installed:
//
//	canary
//
// With -data DIR the hub and the members, which are simulated, and the engine's records are kept there,
// and commands are given one by one, as kubectl and kubectl amc take them:
//
//	canary -data demo create namespace demo
//	canary -data demo apply -f app-meta.yaml
//	canary -data demo get app demo -n demo
//	canary -data demo get deployment demo -n demo -m managedcluster-prod
//	canary -data demo workflow resume demo -n demo
//
// With -kubeconfig and -members it serves a hub of real clusters, on which applications, policies and
// workflows are objects that kubectl applies and gets:
//
//	canary -kubeconfig hub.kubeconfig -members DIR -install
//
// DIR has one kubeconfig for each member, NAME.kubeconfig, trusted as in examples/hub; a ManagedCluster is
// made for each, whose labels policies may select by. Meanwhile, with the same two flags, the program does
// what kubectl amc does, in another process: workflow, and get with -m.
//
// # Commands
//
//	create namespace NAME                         where applications are declared
//	apply -f FILE                                 declares what the YAML file says; - is the input
//	get KIND [NAME] [-n NAMESPACE] [-m CLUSTER]   shows objects of the hub, or of a member
//	delete KIND NAME [-n NAMESPACE]               an application goes with what it delivered
//	workflow suspend|resume|terminate|restart APP [-n NAMESPACE]
//
// workflow restart takes --step STEP: from that step on, which has failed; workflow resume: that one alone. The first words may be kubectl and amc, as the
// tutorial has them. With -kubeconfig there is no create, apply and delete: that is what kubectl is for.
//
// # What happens when
//
// A workflow begins when the annotation app.oam.dev/publishVersion of its application gets another value
// than that of the last one, and ends the one before it. Without the annotation it begins when the
// application changes. What was delivered is what the referenced objects were at that moment.
//
// With -data the clusters go on only while a command runs: it returns when nothing moves any more by
// itself, or after -wait. One process at a time has a directory; killed or interrupted, the next command
// goes on. In a simulated cluster a Deployment is ready at once, unless its image has the tag "broken".
//
// # Flags
//
//	-data DIR          keep everything in this directory
//	-wait DURATION     how long a command with -data lets workflows go on; default 10s
//	-o text|wide|json  how it is printed; default text, wide has more columns
//	-kubeconfig FILE   reaches the hub cluster
//	-members DIR       reach the members
//	-install           create or update the CRDs first, and then serve
//	-install-only      the same, and exit
//	-records NAME      where the hub's records are; default slipway-system
//	-v                 log what is done, too
//
// The exit code is 0, 1 where something is refused, was not found or failed, 2 for a command line that is
// wrong, and 130 after an interrupt; a program that serves ends with 0 then.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
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
	l, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(std.out)
		return exitDone
	case err != nil:
		fmt.Fprintf(std.err, "canary: %v\n\n", err)
		usage(std.err)
		return exitUsage
	}
	err = execute(ctx, l, std)
	var said *saidError
	switch {
	case ctx.Err() != nil && l.serves():
		return exitDone
	case ctx.Err() != nil:
		fmt.Fprintln(std.err, "canary: interrupted"+fate(l))
		return exitInterrupted
	case errors.As(err, &said):
		return exitFailed
	case err != nil:
		fmt.Fprintln(std.err, "canary:", strings.ReplaceAll(err.Error(), "\n", "\n  "))
		return exitFailed
	}
	return exitDone
}

// fate says what becomes of what was left.
func fate(l line) string {
	switch {
	case l.kubeconfig != "":
		return ""
	case l.data != "":
		return "; everything is kept, and the next command goes on"
	}
	return "; everything was kept in memory and is gone"
}

// execute does what the line says.
func execute(ctx context.Context, l line, std stdio) error {
	if l.kubeconfig != "" {
		level := slog.LevelWarn
		if l.verbose {
			level = slog.LevelInfo
		}
		return onHub(ctx, l, std, slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: level})))
	}
	if len(l.words) == 0 {
		return walk(ctx, l, std)
	}
	return inDirectory(ctx, l, std)
}

// saidError is a failure of which the user was told in full.
type saidError struct{ error }
