// Command upgrade plays az fleet for cluster update runs: it upgrades the members
// of a fleet by stages and groups, with the commands and the flags of the Azure
// tutorial, and nothing but Go installed. The members are simulated.
//
//	upgrade member create --resource-group $GROUP --fleet-name $FLEET --name member1 \
//	    --member-cluster-id $AKS_CLUSTER_ID --update-group group-1a
//	upgrade updatestrategy create -g $GROUP -f $FLEET -n strategy-1 --stages example-stages.json
//	upgrade updaterun create -g $GROUP -f $FLEET -n run-5 --update-strategy-name strategy-1 \
//	    --upgrade-type NodeImageOnly --node-image-selection Consistent
//	upgrade updaterun start -g $GROUP -f $FLEET -n run-5
//	upgrade updaterun skip -g $GROUP -f $FLEET -n run-5 --targets Group:group-1b Stage:stage2
//
// The word fleet may stand first, so that az fleet is replaced by upgrade. What there is:
//
//	member           create update list show delete
//	updatestrategy   create list show delete
//	updaterun        create start stop skip retry list show delete
//	gate             list update
//
// What a command prints is JSON as az prints it, and a table of 80 columns with -o
// table. updaterun start says what happens, one line for each event.
//
// # What is not Azure's
//
// Everything is kept in a file, FLEET.db in the working directory unless --data names
// another one. A file is of one fleet, which comes to be with its first member,
// strategy or run.
//
// A member is a simulated cluster. It is in the region and has the version that
// --region and --from-version say, eastus and 1.25.6 unless told, and one node pool;
// --takes is how long each of the two steps of an upgrade lasts, the control plane and
// the nodes, 2s unless told; the next --fail steps fail. The regions eastus, westeurope
// and southeastasia offer different node images, any other one the oldest of those. So
// Consistent is not what Latest is.
//
// updaterun create makes the plan and starts nothing. Members in no group of the stages
// are left out, and that is said. With --preview the plan is shown, and when the run
// would end by how long members took before, and nothing is recorded. --speed N makes
// the waits after stages N times shorter, rounded up to seconds: with 3600 the hour of
// the tutorial is a second.
//
// updaterun start drives the run in the foreground until it ends, or until it waits for
// nothing but people, which it says. Interrupted or killed, start goes on where it was.
// One process at a time drives; the others reach the file through it, by a socket beside
// the file, and so may stop and skip; one that starts a run meanwhile says what becomes
// of it, and goes on if the one that drives is gone. With --no-wait start only asks, and the process that drives
// carries it out, now or later. A start does not only drive its own run: all runs of the
// fleet that were started go on, one after the other.
//
// stop, skip, retry and gate update are carried out by the process that drives. Where none
// does, they are where nothing starts by that, and by the next start otherwise. retry
// lines up what has failed, or with --only Skipped what was skipped, in the stage that
// the run is in, and drives it as start does.
//
// gate update completes a gate: it approves, or ends a scheduled start before its time.
//
// The exit code is 0, 1 when something is refused, was not found or has failed, also a
// run that was followed to its end, 2 for a command line that is wrong, and 130 after
// an interrupt.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It ends early when ctx does.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	l, err := parse(args)
	switch {
	case errors.Is(err, errHelp):
		usage(out, l)
		return exitDone
	case err != nil:
		fmt.Fprintf(errOut, "upgrade: %v\n\n", err)
		usage(errOut, l)
		return exitUsage
	}
	err = execute(ctx, l, printer{out: out, err: errOut, table: l.one("output") == "table"})
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(errOut, "upgrade: interrupted; everything is kept, and updaterun start goes on")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(errOut, "upgrade:", strings.ReplaceAll(printable(err.Error()), "\n", "\n  "))
		return exitFailed
	}
	return exitDone
}

// execute opens the file and does what the line says.
func execute(ctx context.Context, l line, p printer) (err error) {
	s, err := open(ctx, l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return l.command.do(ctx, &session{line: l, printer: p, store: s})
}

// session is what a command works with.
type session struct {
	line
	printer
	store *store
}
