// Package hubverbs has the verbs hub, which makes a cluster the hub of a fleet by serving the
// Fleet API there, and hub install, which prepares the cluster for it.
package hubverbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/health"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/hubtarget"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/snapshot"
)

// options are the flags of the verb hub.
type options struct {
	*cli.Options
	kube *hubtarget.Flags

	members, listen              string
	compatibility                compat.Setting
	lease, deadline, collect     time.Duration
	fence, secrets, applications bool
	namespaces                   bool
	rules                        namespaceRules
	measures                     target.Measures
	log                          *slog.Logger
}

const long = `Serve the Fleet API on a hub cluster, so that placements, snapshots, staged update runs and approvals are objects
that kubectl reads and writes. "hub install" sets the cluster up first.

The directory of --members has one kubeconfig for each member, NAME.kubeconfig. The hub registers a MemberCluster
for each, also for files that are added later; label them as the stages of your strategies need it. The files are trusted:
they may run programs to get credentials.

Several hubs may serve one cluster; one leads and the others wait. Ctrl-C ends the hub with exit code 0. Rollouts continue
when a hub runs again.`

// New returns the verb hub.
func New(o *cli.Options, kube *hubtarget.Flags) *cobra.Command {
	h := &options{Options: o, kube: kube}
	cmd := cli.Group("hub", "Serve the Fleet API on a hub cluster", newInstall(o, kube), newUninstall(o, kube))
	cmd.Long, cmd.Example = long, "  "+o.Name+" hub install --kubeconfig hub.kubeconfig\n  "+o.Name+" hub --kubeconfig hub.kubeconfig --members DIR"
	level, unknown := new(slog.LevelVar), cmd.RunE
	level.Set(slog.LevelWarn)
	h.log = slog.New(slog.NewTextHandler(o.ErrOut, &slog.HandlerOptions{Level: level}))
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
	flags.DurationVar(&h.lease, "lease", 15*time.Second, "how long a hub without a heartbeat stays the leader")
	flags.DurationVar(&h.deadline, "deadline", 5*time.Minute, "how long an unreachable member delays the deletion of a placement")
	flags.DurationVar(&h.collect, "collect", 500*time.Millisecond, "how long changes of the selected objects are collected before a snapshot is taken")
	flags.BoolVar(&h.fence, "fence", false, "install policies on each member that refuse the writes of a replaced hub; the kubeconfigs need the right to do so")
	flags.BoolVar(&h.secrets, "secrets", false, "place Secrets, too. A hub without this flag places none, and its next rollout removes those that were placed before")
	flags.BoolVar(&h.applications, "applications", false, "also serve Application, Workflow and Policy objects of core.oam.dev")
	h.rules.addFlags(flags)
	h.measures.AddFlags(flags)
	flags.BoolVar(&h.namespaces, "namespaces", false, "read the namespaces of members; a ResourcePlacement then picks a further member only if the member has its namespace")
	addCompatibility(flags, &h.compatibility, compat.Default, "the installed definitions must have the same version")
	flags.BoolFuncP("verbose", "v", "also log each Event that the hub writes", func(string) error { return level.UnmarshalText([]byte("info")) })
	_ = cmd.MarkFlagDirname("members")
	return cmd
}

// serve serves the hub until ctx ends, and its health on the listen address. Concurrently it
// registers members and, if requested, fences them. The first part that ends also ends the
// others.
func (h *options) serve(ctx context.Context) error {
	config, err := h.kube.Config()
	if err != nil {
		return err
	}
	if err := h.checkInstalled(ctx, config); err != nil {
		return err
	}
	var rules snapshot.Rules
	if !h.secrets {
		rules.Never = []snapshot.GroupKind{{Kind: "Secret"}}
		_ = h.Said("Secrets are not placed: --secrets places them")
	}
	ofNamespaces, err := h.rules.rules()
	if err != nil {
		return cli.UsageError{Err: err}
	}
	_ = h.Said("compatibility: %s", h.compatibility)
	registry := prometheus.NewRegistry()
	kubeconfigs := member.KubeconfigDirectory(h.members, member.Trusted())
	dialer := member.NewDialer(kubeconfigs, member.Options{Fenced: h.fence})
	cfg := hub.Config{
		Rest: config, Namespace: h.kube.HubNamespace, LeaseDuration: h.lease, DeleteDeadline: h.deadline, Collect: h.collect, Registry: registry,
		Log: h.log, Dialer: dialer, Engine: fleet.Config{Rules: rules, NamespaceRules: ofNamespaces}, MemberNamespaces: h.namespaces, Compatibility: h.compatibility,
		Waiting: func(holder string) {
			_ = h.Said("hub %s has the lease: this hub leads once that hub has not renewed it for %s", holder, h.lease)
		},
	}
	if err := h.measures.Configure(&cfg.Engine); err != nil {
		return err
	}
	if h.applications {
		cfg.Applications = &oam.Options{}
	}
	served, err := hub.New(cfg)
	if err != nil {
		return err
	}
	register, err := h.registrar(config)
	if err != nil {
		return err
	}
	works := []func(context.Context) error{served.Run, func(ctx context.Context) error {
		return eachMember(ctx, h.members, h.usable(kubeconfigs, register))
	}}
	if h.fence {
		works = append(works, func(ctx context.Context) error { return h.fenceMembers(ctx, dialer) })
	}
	if h.listen != "" {
		listener, err := net.Listen("tcp", h.listen)
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		_ = h.Said("health and metrics: http://%s/", listener.Addr())
		works = append(works, func(ctx context.Context) error {
			if err := health.Serve(ctx, listener, served.Live(), served.Ready(), registry); err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			return nil
		})
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var group errgroup.Group
	for _, work := range works {
		group.Go(func() error {
			defer stop()
			return work(ctx)
		})
	}
	return group.Wait()
}

// checkInstalled returns an error if the cluster has no definitions of the Fleet API. An API server
// that does not answer is none, because the hub waits for it.
func (h *options) checkInstalled(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	if _, err = client.Resource(memberClusters()).List(ctx, metav1.ListOptions{Limit: 1}); apierrors.IsNotFound(err) {
		return fmt.Errorf("%s is no hub: %s hub install makes it one", config.Host, h.Name)
	}
	return nil
}

// newInstall returns the verb that prepares a cluster.
func newInstall(o *cli.Options, kube *hubtarget.Flags) *cobra.Command {
	var what manifests.Options
	var account manifests.HubOptions
	var export bool
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Set a cluster up as a hub, or update an earlier installation",
		Long: `Create or update the objects that a hub needs on its cluster: the CRDs, the admission policies, the roles of people, and the account
slipway-hub with the least rights that a hub needs. Each object is shown with its outcome. The command may be repeated at any time,
and needs the rights of cluster-admin. "hub uninstall" deletes the same objects.`,
		Args: cli.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			account.Namespace, what.Hub = kube.HubNamespace, &account
			switch {
			case export && what.DryRun:
				return cli.Usagef("--export and --dry-run are both set: want one of them")
			case export:
				return printObjects(o, what)
			}
			config, err := kube.Config()
			if err != nil {
				return err
			}
			what.Done = func(c manifests.Change) { _ = o.Said("%s", c) }
			what.Note = func(sentence string) { _ = o.Said("%s", sentence) }
			what.Timeout = o.Timeout
			return o.Within(cmd.Context(), func(ctx context.Context) error {
				if err := manifests.Install(ctx, config, what); err != nil {
					return fmt.Errorf("%s: %w", config.Host, err)
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&what.Aggregate, "aggregate", false,
		"add slipway-viewer to the role view, and slipway-editor to edit: people who may edit a namespace may then place its objects")
	addCompatibility(cmd.Flags(), &what.Compatibility, "", "default "+string(compat.Default)+"; an installed version is replaced only if the flag names another")
	cmd.Flags().BoolVar(&what.Applications, "applications", false, "also install the CRDs and roles for a hub with --applications")
	cmd.Flags().BoolVar(&what.DryRun, "dry-run", false, "ask the API server what would be done, and change nothing")
	cmd.Flags().BoolVar(&export, "export", false, "print the objects as YAML, and connect to no cluster")
	cmd.Flags().BoolVar(&account.Secrets, "secrets", false, "let the account slipway-hub read all Secrets, for a hub with --secrets")
	return cmd
}

// printObjects prints the objects of an installation as documents of YAML.
func printObjects(o *cli.Options, what manifests.Options) error {
	all, err := manifests.Export(what)
	if err != nil {
		return err
	}
	for _, u := range all {
		text, err := yaml.Marshal(u.Object)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(o.Out, "---\n%s", text); err != nil {
			return err
		}
	}
	return nil
}

// newUninstall returns the verb that deletes the objects of an installation.
func newUninstall(o *cli.Options, kube *hubtarget.Flags) *cobra.Command {
	var what manifests.UninstallOptions
	var sure cli.Confirmation
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Delete what hub install created on a cluster, with all objects of the Fleet API",
		Long: `Delete the admission policies, the CRDs with all of their objects, the roles, the
account of the hub, and the namespace with the records of the hub. Members are
not changed. The command says how many objects there are, and then asks. It
needs the rights of cluster-admin.

It refuses in two cases:

- Placements or applications exist. Delete them while the hub still runs, so
  that it removes their objects from the members. With --force these objects
  stay on the members.
- A hub leads the cluster. Stop it first, or set --while-led. If a hub was
  killed, the command waits until its lease has ended.

It checks both again after the question.`,
		Example: "  " + o.Name + " hub uninstall --kubeconfig hub.kubeconfig --preview",
		Args:    cli.Arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := kube.Config()
			if err != nil {
				return err
			}
			found := false
			what.Done = func(c manifests.Change) {
				found = true
				_ = o.Said("%s", c)
			}
			what.Note = func(sentence string) { fmt.Fprintln(o.ErrOut, cli.Printable(sentence)) }
			what.Found = func(ctx context.Context, c manifests.Contents) error {
				fmt.Fprintln(o.ErrOut, cli.Printable(deleted(config.Host, c)))
				if what.DryRun {
					return nil
				}
				return o.Confirm(ctx, sure, "uninstall", "nothing was deleted")
			}
			what.Timeout = o.Timeout
			err = o.Within(cmd.Context(), func(ctx context.Context) error { return manifests.Uninstall(ctx, config, what) })
			_, inUse := errors.AsType[*manifests.InUseError](err)
			_, led := errors.AsType[*manifests.LedError](err)
			switch {
			case inUse:
				return fmt.Errorf("%s: %w, or set --force, which leaves these objects there", config.Host, err)
			case led:
				return fmt.Errorf("%s: %w, or set --while-led", config.Host, err)
			case errors.Is(err, cli.ErrTimeout) || errors.Is(err, context.Canceled):
				return err
			case err != nil:
				return fmt.Errorf("%s: %w", config.Host, err)
			}
			if !found {
				return o.Said("%s: nothing is installed", config.Host)
			}
			return nil
		},
	}
	sure.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&what.DryRun, "preview", false, "list the objects; nothing is deleted")
	cmd.Flags().BoolVar(&what.WhileLed, "while-led", false, "uninstall although a hub leads the cluster")
	cmd.Flags().BoolVar(&what.Force, "force", false, "uninstall although placements exist; members keep the placed objects")
	return cmd
}

// deleted says what an uninstallation deletes.
func deleted(host string, c manifests.Contents) string {
	text := fmt.Sprintf("%s: %d objects of the installation will be deleted", host, c.Installed)
	if len(c.Namespaces) > 0 {
		text += ", with the records of the hub in the namespace " + strings.Join(c.Namespaces, ", ")
	}
	if len(c.Objects) == 0 {
		return text + "; there are no objects of the Fleet API"
	}
	text += ", and these objects of the Fleet API:"
	for _, k := range c.Objects {
		text += fmt.Sprintf("\n  %d %s", k.Count, k.Kind)
	}
	return text
}

// addCompatibility adds the flag --compatibility.
func addCompatibility(flags *pflag.FlagSet, to *compat.Setting, def compat.Setting, more string) {
	*to = def
	var known []string
	for _, s := range compat.Settings() {
		known = append(known, string(s))
	}
	flags.Var(&compatibility{to}, "compatibility", "version of KubeFleet whose behaviour the hub has, "+strings.Join(known, " or ")+"; "+more)
}

// compatibility is the value of the flag.
type compatibility struct{ to *compat.Setting }

func (c *compatibility) String() string { return string(*c.to) }

func (c *compatibility) Type() string { return "VERSION" }

func (c *compatibility) Set(name string) (err error) {
	*c.to, err = compat.Parse(name)
	return err
}
