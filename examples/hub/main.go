// Command hub makes a cluster the hub of a fleet: it serves the Fleet API there, so that placements,
// snapshots, staged update runs and approvals are objects that kubectl reads and writes.
//
//	hub -kubeconfig hub.kubeconfig -members DIR -install
//
// DIR holds one kubeconfig for each member, member1.kubeconfig and so on. A MemberCluster is registered
// for each that has none; label them as the stages of your strategies need it. The files are trusted:
// they may run programs to get credentials. A file that changes is used for the next connection, and one
// that comes while the hub runs is registered too.
//
// # Flags
//
//	-kubeconfig FILE   reaches the hub cluster
//	-members DIR       reach the members
//	-install           create or update the CRDs, the admission policies, the roles of people, and the
//	                   account slipway-hub with the least that a hub needs, then serve
//	-install-only      the same, and exit
//	-aggregate         make the roles slipway-viewer and slipway-editor part of the built-in view, edit and
//	                   admin: edit in a namespace includes the right to place what is in it; with -install
//	-secrets           place Secrets, too, and with -install let the account slipway-hub read all of them.
//	                   Without it they are left out of snapshots, so that the next rollout removes those
//	                   which an earlier one brought
//	-fence             have members refuse what a hub that was replaced still creates: install or update
//	                   the policies of member.FenceManifests on each; the kubeconfigs must allow it
//	-namespace NAME    where the hub keeps its records; default slipway-system
//	-listen ADDRESS    serve /healthz, /readyz and /metrics there; default 127.0.0.1:8080, "" for not
//	-lease DURATION    how long a hub that is not heard of leads on; default 15s
//	-deadline DURATION how long a member that cannot be reached holds up the deletion of a placement;
//	                   default 5m
//	-v                 log what is done, too
//
// Several hubs may serve one cluster; one leads and the others wait. Ctrl-C ends the hub, and what was
// under way goes on when it, or another one, runs again.
//
// What authors of a namespace bring to members, by a ResourcePlacement, a ResourceEnvelope or a
// ResourceOverride, is what the built-in role edit may create there, as snapshot.NamespaceRules says.
//
// The exit code is 0 after Ctrl-C, 1 where the hub cannot serve, and 2 for wrong flags.
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
	"syscall"
	"time"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// line is what the command line says.
type line struct {
	kubeconfig, members  string
	install, installOnly bool
	aggregate, secrets   bool
	fence                bool
	namespace, listen    string
	lease, deadline      time.Duration
	verbose              bool
}

// run is the program.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	l, err := parse(args, errOut)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone
	case err != nil:
		fmt.Fprintln(errOut, "hub:", err)
		return exitUsage
	}
	level := slog.LevelWarn
	if l.verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(errOut, &slog.HandlerOptions{Level: level}))
	if err := serve(ctx, l, out, log); err != nil && ctx.Err() == nil {
		fmt.Fprintln(errOut, "hub:", err)
		return exitFailed
	}
	return exitDone
}

func parse(args []string, errOut io.Writer) (line, error) {
	var l line
	flags := flag.NewFlagSet("hub", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.StringVar(&l.kubeconfig, "kubeconfig", "", "`FILE` that reaches the hub cluster")
	flags.StringVar(&l.members, "members", "", "`DIR` with a kubeconfig for each member, NAME.kubeconfig")
	flags.BoolVar(&l.install, "install", false, "create or update the CRDs, the admission policies and the roles, then serve")
	flags.BoolVar(&l.installOnly, "install-only", false, "create or update the CRDs, the admission policies and the roles, and exit")
	flags.BoolVar(&l.aggregate, "aggregate", false, "make slipway-viewer and slipway-editor part of the built-in roles view, edit and admin; with -install")
	flags.BoolVar(&l.secrets, "secrets", false, "place Secrets, too, and with -install let the account slipway-hub read all of them")
	flags.BoolVar(&l.fence, "fence", false, "install or update on each member the policies by which it refuses what a hub that was replaced still creates")
	flags.StringVar(&l.namespace, "namespace", "slipway-system", "`NAME` of the namespace of the hub's records")
	flags.StringVar(&l.listen, "listen", "127.0.0.1:8080", "`ADDRESS` for /healthz, /readyz and /metrics; empty for none")
	flags.DurationVar(&l.lease, "lease", 15*time.Second, "how long a hub that is not heard of leads on")
	flags.DurationVar(&l.deadline, "deadline", 5*time.Minute, "how long a member that cannot be reached holds up the deletion of a placement")
	flags.BoolVar(&l.verbose, "v", false, "log what is done, too")
	if err := flags.Parse(args); err != nil {
		return l, err
	}
	var errs []error
	if flags.NArg() > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q: everything is said by flags", flags.Arg(0)))
	}
	if l.kubeconfig == "" {
		errs = append(errs, errors.New("-kubeconfig is missing: the file that reaches the hub cluster"))
	}
	if l.members == "" && !l.installOnly {
		errs = append(errs, errors.New("-members is missing: the directory that has NAME.kubeconfig for each member"))
	}
	if l.aggregate && !l.install && !l.installOnly {
		errs = append(errs, errors.New("-aggregate says what is installed: add -install or -install-only, or leave it out"))
	}
	if l.fence && l.installOnly {
		errs = append(errs, errors.New("-fence is for a hub that serves, which reaches the members: leave it or -install-only out"))
	}
	return l, errors.Join(errs...)
}
