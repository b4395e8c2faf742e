// Command slipway reads and controls the rollouts of an engine of package fleet: in the file of a
// store, behind a server, or on a hub cluster. Installed under the name kubectl-slipway it is a
// plugin of kubectl.
//
//	slipway create run web-v2 --placement web --strategy strategy.yaml
//	slipway watch web-v2
//	slipway approve web-v2
//
// slipway --help lists the verbs in groups, and slipway VERB --help the flags of a verb, with
// examples. docs/command.md describes the targets, the identities, the output, and the exit
// codes.
package main

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	code := run(ctx, os.Args[1:], genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}, nil)
	stop()
	os.Exit(code)
}

// run is the program.
func run(ctx context.Context, args []string, streams genericiooptions.IOStreams, connect func(*fleet.Config) error) int {
	name := commandName(os.Args[0])
	root := newRoot(streams, connect, name)
	root.SetArgs(args)
	return (&cli.Options{IOStreams: streams, Name: name}).ExitCode(root.ExecuteContext(ctx))
}

// release is the version of a release build.
var release string

func newVersion(o *options) *cobra.Command {
	return &cobra.Command{Use: "version", Short: "Show the version of the command and of Go", RunE: func(*cobra.Command, []string) error {
		return o.Said("slipway %s", version())
	}}
}

// version returns the version of the command and of Go.
func version() string {
	info, _ := debug.ReadBuildInfo() // set in a program that is built from modules
	return cmp.Or(release, info.Main.Version) + " " + info.GoVersion
}
