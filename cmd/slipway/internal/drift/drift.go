// Package drift is the side of the verb drift that compares two files: what was asked for, and what is on a
// member.
//
// The files hold YAML or JSON documents, several of each, and lists. Objects are matched by group, kind,
// namespace and name, where no namespace is default too; those that only the member's file has are not
// compared, and where it has none at all, all of the hub's are missing. A member's object of another version
// than the hub's is compared all the same, with a warning: what differs may be the version alone.
//
// # Output
//
// A table has a row for each difference; -o wide adds who wrote it, and shows all of long values. JSON is an array
// with an element for each object of the hub's file, in its order, and YAML is the same:
//
//	group, version, kind, namespace, name   the object; the keys are always
//	                 there, group and namespace may be ""
//	state            Present, Missing, Terminating
//	observedDiffs    the differences, [] where there are none
//	  path           an RFC 6901 pointer in the member's object, or, for what only
//	                 the hub's has, in that one
//	  keyPath        the same with items of lists by their keys
//	  atomicPath     the pointer to the list or map around it that has one owner and
//	                 is applied as a whole; absent where there is none
//	  class          Changed, Missing, Stale, Order or Unmanaged
//	  valueInHub, valueInMember
//	                 the values; the key is absent where there is none
//	  owner          the manager that wrote it on the member, and when
//	total            how many differences there are, shown or not
//
// With -o name there is a line object/KIND/NAME for each object that differs. Values of Secrets, and of what --secret names, are
// never shown.
package drift

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/drift"
)

// files are the flags of a comparison of two files.
type files struct {
	hub, member, crd string
	comparison       string
	ignore           []string
	options          drift.Options
}

// AddFiles gives a verb that compares what a placement has brought the side that compares files: where a flag names
// one, that is what runs, without an argument.
func AddFiles(cmd *cobra.Command, o *cli.Options) {
	f, args, run := &files{}, cmd.Args, cmd.RunE
	cmd.Args = func(cmd *cobra.Command, a []string) error {
		if f.hub+f.member+f.crd != "" {
			args = cli.Arguments(cobra.NoArgs)
		}
		return args(cmd, a)
	}
	cmd.RunE = func(cmd *cobra.Command, a []string) error {
		if f.hub+f.member+f.crd != "" {
			return f.run(o)
		}
		return run(cmd, a)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.hub, "hub", "", "file with what was asked for; - is the standard input")
	flags.StringVar(&f.member, "member", "", "file with what is on the member; - is the standard input")
	flags.StringVar(&f.crd, "crd", "", "file with definitions of custom resources; those that the other two files hold are known anyway")
	flags.StringVar(&f.comparison, "comparison", string(drift.Partial), "PartialComparison counts what the hub's object says, FullComparison what only the member has too")
	flags.StringVar(&f.options.Manager, "manager", "", "field manager that applied the hub's objects; without it the one that applied most of what they say")
	flags.StringArrayVar(&f.ignore, "ignore", nil, "pointer to a field that is left out, with all below it; * is any key or index, [name=app] the item with that key")
	flags.StringArrayVar(&f.options.Secrets, "secret", nil, "pointer to a value that is not shown")
	for _, name := range []string{"hub", "member", "crd"} {
		_ = cobra.MarkFlagFilename(flags, name, "yaml", "yml", "json")
	}
}

// run compares the files and shows what differs; the error is cli.ErrDiffers where something does.
func (f *files) run(o *cli.Options) error {
	if err := errors.Join(o.CheckOutput(), f.check()); err != nil {
		return err
	}
	found, err := f.compare(o)
	if err != nil {
		return err
	}
	if err := show(o, found); err != nil {
		return err
	}
	if slices.ContainsFunc(found.reports, func(r drift.Report) bool { return r.Drifted() }) {
		return cli.ErrDiffers
	}
	return nil
}

// check reports what is missing on the command line or does not go together.
func (f *files) check() error {
	input := slices.DeleteFunc([]string{f.hub, f.member, f.crd}, func(file string) bool { return file != "-" })
	switch {
	case f.hub == "":
		return cli.Usagef("--hub is not set: it names a file with what was asked for")
	case f.member == "":
		return cli.Usagef("--member is not set: it names a file with what is on the member")
	case len(input) > 1:
		return cli.Usagef("the standard input can be one file only")
	case !slices.Contains([]drift.Comparison{drift.Partial, drift.Full}, drift.Comparison(f.comparison)):
		return cli.Usagef("--comparison %q: want %s or %s", f.comparison, drift.Partial, drift.Full)
	}
	f.options.Comparison = drift.Comparison(f.comparison)
	if len(f.ignore) > 0 {
		f.options.Ignore = []drift.IgnoreRule{{Pointers: f.ignore}}
	}
	if err := f.options.Validate(); err != nil {
		return cli.Usagef("--ignore or --secret: %w", err)
	}
	return nil
}

// element is a report as JSON and YAML have it: with the keys of the object first, and always.
type element struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	drift.Report
}

// show prints what was found as -o says.
func show(o *cli.Options, found results) error {
	l := &cli.List{Kind: "object"}
	all := []element{}
	for _, r := range found.reports {
		if r.Drifted() {
			l.Add(cli.Printable(r.Kind+"/"+r.Name), nil)
		}
		all = append(all, element{r.Group, r.Version, r.Kind, r.Namespace, r.Name, r})
	}
	switch {
	case o.IsValue():
		return o.PrintValue(all)
	case o.Output == cli.Name:
		return o.Print(l)
	}
	return showTable(o, found)
}
