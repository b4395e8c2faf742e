// Package hubverbs has the verbs hub, which makes a cluster the hub of a fleet by serving the Fleet API there, and
// hub install, which sets the cluster up for that.
package hubverbs

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/snapshot"
)

// options are the flags of a hub that serves.
type options struct {
	*cli.Options
	kube *hubtarget.Flags

	members, listen string
	lease, deadline time.Duration
	fence, secrets  bool
	verbose         bool
}

const long = `Serve the Fleet API on a hub cluster, so that placements, snapshots, staged update runs and approvals are objects
that kubectl reads and writes. "hub install" sets the cluster up first.

The directory of --members has one kubeconfig for each member, member1.kubeconfig and so on. A MemberCluster is
registered for each that has none; label them as the stages of your strategies need it. The files are trusted: they
may run programs to get credentials. A file that changes is used for the next connection, and one that comes while
the hub runs is registered too.

Several hubs may serve one cluster; one leads and the others wait. Ctrl-C ends the hub with exit code 0, and what was
under way goes on when it, or another one, runs again.

What authors of a namespace bring to members, by a ResourcePlacement, a ResourceEnvelope or a ResourceOverride, is
what the built-in role edit may create there.`

// New returns the verb hub.
func New(o *cli.Options, kube *hubtarget.Flags) *cobra.Command {
	h := &options{Options: o, kube: kube}
	cmd := cli.Group("hub", "Serve the Fleet API on a hub cluster", newInstall(o, kube))
	cmd.Long, cmd.Example = long, "  "+o.Name+" hub install --kubeconfig hub.kubeconfig\n  "+o.Name+" hub --kubeconfig hub.kubeconfig --members DIR"
	unknown := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknown(cmd, args)
		}
		if h.members == "" {
			return cli.Usagef("--members is not set: it names the directory that has NAME.kubeconfig for each member")
		}
		if err := h.serve(cmd.Context()); err != nil && cmd.Context().Err() == nil {
			return err
		}
		return nil
	}
	flags := cmd.Flags()
	flags.StringVar(&h.members, "members", "", "directory with a kubeconfig for each member, NAME.kubeconfig")
	flags.StringVar(&h.listen, "listen", "127.0.0.1:8080", "address for /healthz, /readyz and /metrics; empty for none")
	flags.DurationVar(&h.lease, "lease", 15*time.Second, "how long a hub that is not heard of leads on")
	flags.DurationVar(&h.deadline, "deadline", 5*time.Minute, "how long a member that cannot be reached holds up the deletion of a placement")
	flags.BoolVar(&h.fence, "fence", false, "have members refuse what a hub that was replaced still creates: install or update the policies for it on each, which the kubeconfigs must allow")
	flags.BoolVar(&h.secrets, "secrets", false, "place Secrets, too; without it the next rollout removes those which an earlier one brought")
	flags.BoolVarP(&h.verbose, "verbose", "v", false, "log what is done, too")
	_ = cmd.MarkFlagDirname("members")
	return cmd
}

// rules are what is never placed.
func (h *options) rules() (r snapshot.Rules) {
	if !h.secrets {
		r.Never = []snapshot.GroupKind{{Kind: "Secret"}}
	}
	return r
}

func (h *options) logger() *slog.Logger {
	level := slog.LevelWarn
	if h.verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(h.ErrOut, &slog.HandlerOptions{Level: level}))
}

// newInstall returns the verb that sets a cluster up.
func newInstall(o *cli.Options, kube *hubtarget.Flags) *cobra.Command {
	var what manifests.Options
	var account manifests.HubOptions
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Set a cluster up as a hub, or bring what is installed there up to date",
		Long: `Create or update on a cluster what a hub needs: the CRDs, the admission policies, the roles of people, and the account
slipway-hub with the least that a hub needs. Each object is shown with what became of it. It may be repeated at any time,
and takes the rights of cluster-admin.`,
		Args: cli.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := kube.Config()
			if err != nil {
				return err
			}
			account.Namespace, what.Hub = kube.HubNamespace, &account
			var unsaid error
			what.Done = func(c manifests.Change) { unsaid = errors.Join(unsaid, o.Said("%s", c)) }
			if err := manifests.Install(cmd.Context(), config, what); err != nil {
				return fmt.Errorf("%s: %w", config.Host, err)
			}
			return unsaid
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&what.Aggregate, "aggregate", false,
		"make slipway-viewer and slipway-editor part of the built-in view, edit and admin: edit in a namespace includes the right to place what is in it")
	flags.BoolVar(&account.Secrets, "secrets", false, "let the account slipway-hub read all Secrets, for a hub with --secrets")
	return cmd
}
