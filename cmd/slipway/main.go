// Command slipway reads and directs what an engine of package fleet keeps in a
// store. Installed under the name kubectl-slipway it is a plugin of kubectl.
//
//	slipway create run web-v2 --placement web --strategy strategy.yaml
//	slipway watch web-v2
//	slipway approve web-v2
//
// slipway --help has the verbs in groups, and slipway VERB --help the flags of one, with examples.
//
// # What it works on
//
// --store names a file of package backend/bolt, which one process has open at a time. Where a program holds it that
// serves it, slipway serve or a host by httpapi.Serve, the command finds that through FILE.serve and asks it. Otherwise
// it works on the file itself: it reads, and what is asked of runs is recorded for the engine that runs on the file
// next. --server names a server by its URL instead.
//
// Where neither is set, it works on a hub, the cluster that --kubeconfig, --context, $KUBECONFIG or ~/.kube/config names
// as for kubectl, or the one around the command. --namespace asks for the objects of a namespace, --all-namespaces for
// all, which are called NAMESPACE/NAME then, and without either it is those outside of namespaces. Lists are made of
// objects, and changes are made to objects with the rights that the API server gives the person. Describe, explain and
// history read the records of the hub, which takes the right to read the Secrets of --hub-namespace. --strategy names a
// strategy of the hub, and --clusters may also be a directory with NAME.kubeconfig for each member. A hub has no skip,
// retry, abort, catch-up and caps.
//
// The clusters are the contexts of the kubeconfig that --clusters names, and --source is the context that snapshots are
// taken from. Only preview, preview-selection, diff, drift, rollback, create and catch-up need them, and only on a file
// that no program serves.
//
// On a file and on the socket beside it the identity that asks is --as with --as-group, or the user of the system: only
// the owner of the file can use either, and could write anything into the file. On a hub, --as and --as-group are the
// user that the API server is asked to impersonate, as for kubectl. With --server, and where the file is served over
// TCP, the identity is that of the token in --token-file, and --as is refused. An approval quotes the request that was
// shown, so that it counts for nothing else; on a terminal it is asked for, without --yes.
//
// # Output
//
// With -o table, the default, and -o wide a list is a table; with -o json and -o yaml it is one object whose items are
// the values of the library, and with -o name a line KIND/NAME for each. What is followed, by --watch and --follow, has
// a row, or with -o json a line, for each change. Nothing is folded. Only watch and demo draw, on a terminal, in colours
// unless NO_COLOR is set. Times are in UTC. A run may be named as -o name shows it, run/NAME.
//
// # Exit codes
//
//	0    done, or nothing differs, or the run that was waited for completed
//	1    it failed
//	2    the command line is wrong
//	3    diff or drift found differences
//	4    the run that was waited for did not complete
//	5    --timeout has passed
//	130  interrupted
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	code := run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, nil)
	stop()
	os.Exit(code)
}

// run is the program.
func run(ctx context.Context, args []string, streams genericiooptions.IOStreams, connect connector) int {
	name := commandName(os.Args[0])
	root := newRoot(streams, connect, name)
	root.SetArgs(args)
	return (&cli.Options{IOStreams: streams, Name: name}).ExitCode(root.ExecuteContext(ctx))
}
