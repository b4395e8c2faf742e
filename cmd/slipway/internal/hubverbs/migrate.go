package hubverbs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/hub/migrate"
)

// NewMigrate returns the verb migrate, which moves a fleet from KubeFleet to package hub, and back.
func NewMigrate(o *cli.Options, kube *hubtarget.Flags) *cobra.Command {
	var dir string
	var rules namespaceRules
	cfg := migrate.Config{Done: func(change string) { _ = o.Said("%s", change) }}
	verb := func(use, short string, do func(*migrate.Migration, context.Context) error) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Args: cli.Arguments(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if dir == "" {
				return cli.Usagef("--members is not set: it names the directory that has NAME.kubeconfig for each member")
			}
			if cfg.Hub, err = kube.Config(); err != nil {
				return err
			}
			if cfg.NamespaceRules, err = rules.rules(); err != nil {
				return cli.UsageError{Err: err}
			}
			cfg.Namespace, cfg.Members = kube.HubNamespace, member.KubeconfigDirectory(dir, member.Trusted())
			m, err := migrate.New(cfg)
			if err != nil {
				return err
			}
			return o.Within(cmd.Context(), func(ctx context.Context) error { return do(m, ctx) })
		}}
	}
	plan := func(m *migrate.Migration, ctx context.Context) error {
		p, err := m.Plan(ctx)
		switch {
		case err != nil:
			return err
		case o.IsValue():
			return o.PrintValue(p)
		}
		return o.Said("%s", p)
	}
	cmd := verb("migrate", "Move a fleet from KubeFleet to this hub, and back, without a change to a workload", plan)
	confirmed := func(use, short, will string, do func(*migrate.Migration, context.Context) error) *cobra.Command {
		var sure cli.Confirmation
		cmd := verb(use, short, func(m *migrate.Migration, ctx context.Context) error {
			if !sure.Given() {
				fmt.Fprintf(o.ErrOut, "the hub %s and its members will be %s\n", cfg.Hub.Host, will)
			}
			if err := o.Confirm(ctx, sure, use, "nothing was changed"); err != nil {
				return err
			}
			return do(m, ctx)
		})
		sure.AddFlags(cmd.Flags())
		return cmd
	}
	cmd.AddCommand(verb("plan", "Show which objects would be taken over, their differences, and the obstacles", plan),
		confirmed("take-over", "Take a fleet over from KubeFleet; stop its agents first", "taken over from KubeFleet", (*migrate.Migration).TakeOver),
		confirmed("give-back", "Give a fleet back to KubeFleet; stop the hub first", "given back to KubeFleet", (*migrate.Migration).GiveBack))
	flags := cmd.PersistentFlags()
	flags.StringVar(&dir, "members", "", "directory with a kubeconfig for each member, NAME.kubeconfig")
	flags.StringVar(&cfg.Backup, "backup", "", "file that receives the removed objects, which may include Secrets; name the same file if you repeat the command")
	rules.addFlags(flags)
	flags.BoolVar(&cfg.Secrets, "secrets", false, "the hub will run with --secrets")
	flags.BoolVar(&cfg.AcceptDifferences, "accept-differences", false, "take over even if the hub will change objects immediately")
	return cmd
}
