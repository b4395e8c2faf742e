// Command slipway reads and directs what an engine of package fleet keeps in a
// store. Installed under the name kubectl-slipway it is a plugin of kubectl.
//
//	slipway --store FILE get placements|runs|snapshots|approvals|caps|leases [NAME...]
//	slipway --store FILE history PLACEMENT|run/NAME
//	slipway --store FILE preview|diff PLACEMENT --strategy FILE
//	slipway --store FILE preview-selection PLACEMENT [--policy FILE]
//	slipway --store FILE drift PLACEMENT
//	slipway --store FILE explain RUN [CLUSTER]
//	slipway --store FILE create run NAME --placement PLACEMENT --strategy FILE --as NAME
//	slipway --store FILE catch-up RUN --name NAME --as NAME
//	slipway --store FILE approve|reject RUN REQUEST --as NAME
//	slipway --store FILE start|stop|abort|retry|skip RUN
//	slipway --store FILE rollback RUN [--preview]
//	slipway --store FILE set cap NAME LIMIT
//	slipway --store FILE delete cap|run|deletion NAME
//	slipway version
//
// The store is a file of package backend/bolt, which one process has open at a time: while an engine
// runs on it, the command says that the file is in use and ends with 1. What is asked of a run is
// stored, and the engine that runs on the file next carries it out. get, history, explain and previews only
// read, and so do diff and drift.
//
// The clusters are the contexts of a kubeconfig, which --clusters names; a cluster has the name of its
// context, and --source is the context that snapshots are taken from. Only preview, preview-selection,
// diff, drift, rollback, create and catch-up need them.
//
// # Output
//
// With -o table, the default, and -o wide a list is a table; with -o json and -o yaml it is one object
// whose items are the values of the library, and with -o name a line KIND/NAME for each. Nothing is
// colored, and no line is folded. Times are in UTC.
//
// # Exit codes
//
//	0  done, or nothing differs
//	1  it failed
//	2  the command line is wrong
//	3  diff or drift found differences
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, kubeconfigs)
	stop()
	os.Exit(code)
}

// run is the program.
func run(ctx context.Context, args []string, streams genericiooptions.IOStreams, connect connector) int {
	name := commandName(os.Args[0])
	root := newRoot(streams, connect, name)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	o := cli.Options{IOStreams: streams, Name: name}
	return o.ExitCode(err)
}
