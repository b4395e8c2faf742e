// Package azure has the verbs of az fleet for cluster update runs: they upgrade the members of a
// fleet by stages and groups, with the commands and the flags of Azure's tutorial. With -o json
// they have the output of az. The word fleet may come first, so that az fleet becomes slipway
// fleet.
//
// The differences to Azure: all state is kept in the file of --store, FLEET.db by default, and in
// a file beside it. The identity is the user of the machine unless --as names another one. A
// member is a simulated cluster: each of the two steps of its upgrade takes as long as --takes
// says, and the next --fail steps fail.
//
// updaterun create starts nothing, and --speed N makes the waits after stages N times shorter.
// updaterun start drives all started runs of the fleet until they end or only wait for people. It
// draws the named run, or prints its events and its reasons for waiting. After an interruption,
// the next start continues. If another process drives the runs, start sends its command to that
// process, like the other verbs for a run.
package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
)

// Commands returns the verbs, and fleet, which has all of them again.
func Commands(o *cli.Options) []*cobra.Command {
	noun := func(name, short string, verbs []verb) *cobra.Command {
		cmd := cli.Group(name, short)
		for _, v := range verbs {
			cmd.AddCommand(v.command(o))
		}
		return cmd
	}
	nouns := func() []*cobra.Command {
		return []*cobra.Command{
			noun("member", "Add, change, list and remove the members of a fleet of simulated clusters", memberVerbs()),
			noun("updatestrategy", "Store, list and delete the stages that update runs are made from", strategyVerbs()),
			noun("updaterun", "Plan, start, watch and control update runs", runVerbs()),
			noun("gate", "List and complete the gates of an update run", gateVerbs()),
		}
	}
	return append(nouns(), cli.Group("fleet", "The verbs of az fleet: member, updatestrategy, updaterun and gate", nouns()...))
}

// verb is an operation on a noun. Besides the flags of the fleet it requires and accepts flags
// with these names.
type verb struct {
	use, short   string
	needs, takes string
	// writes reports whether the verb changes the record of the fleet, so that it must have the
	// store.
	writes bool
	do     func(context.Context, *session) error
}

// flag is a flag with text, unless it is yes or no, or may have many values. Each value must
// match the pattern, which want describes.
type flag struct{ short, usage, value, pattern, want string }

const (
	many = "many"
	no   = "no"
)

// flags returns the flags of all verbs: a name has the same meaning everywhere, as in az.
func flags() map[string]flag {
	const (
		name, wantName       = `^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$`, "1 to 50 lower-case letters, digits and hyphens, and begin and end with a letter or a digit"
		version, wantVersion = `^v?\d{1,3}\.\d{1,3}\.\d{1,3}$`, "a version with its patch, for example 1.26.0"
		skip, wantSkip       = `^(Member|Group|Stage|AfterStageWait):.`, "Member:NAME, Group:NAME, Stage:NAME or AfterStageWait:STAGE"
	)
	return map[string]flag{
		"resource-group":       {"g", "resource group of the fleet", "", "", ""},
		"fleet-name":           {"f", "name of the fleet", "", name, wantName},
		"name":                 {"n", "name of the member, the strategy or the run", "", name, wantName},
		"member-cluster-id":    {"", "resource id of the cluster", "", `^[!-~]{1,253}$`, "1 to 253 printable characters without spaces"},
		"update-group":         {"", "update group of the member", "", name, wantName},
		"labels":               {"", "labels for memberSelectors: KEY=VALUE ...", many, `^[-\w./]+=[-\w.]*$`, "KEY=VALUE, as labels of Kubernetes are"},
		"region":               {"", "region of the simulated cluster", "eastus", name, wantName},
		"from-version":         {"", "Kubernetes version that the simulated cluster has", "1.25.6", version, wantVersion},
		"takes":                {"", "duration of a step of an upgrade", "2s", `^[1-9]\d{0,5}(ms|s|m)$`, "a number of ms, s or m, for example 2s"},
		"fail":                 {"", "number of steps of an upgrade that fail before one succeeds", "0", `^\d{1,6}$`, "a number"},
		"stages":               {"", "JSON file with the stages", "", "", ""},
		"upgrade-type":         {"", "Full, ControlPlaneOnly or NodeImageOnly", "", "", ""},
		"kubernetes-version":   {"", "Kubernetes version after the upgrade; not with NodeImageOnly", "", version, wantVersion},
		"node-image-selection": {"", "Latest, Consistent or Custom; default Latest", "", "", ""},
		"node-images":          {"", "images of Custom: IMAGE ...", many, "", ""},
		"update-strategy-name": {"", "strategy whose stages are copied", "", name, wantName},
		"speed":                {"", "factor by which the waits after stages are shortened", "1", `^[1-9]\d{0,5}$`, "a number from 1 on"},
		"no-wait":              {"", "request the start and return; another command drives the run", no, "", ""},
		"targets":              {"", "targets to skip: " + wantSkip + " ...", many, skip, wantSkip},
		"gate-name":            {"", "name of the gate, as gate list shows it", "", "", ""},
		"state":                {"", "new state of the gate: Completed", "", "^Completed$", "Completed"},
	}
}

// fleetFlags are required by all verbs.
const fleetFlags = "resource-group fleet-name "

// command returns the verb as a command.
func (v verb) command(o *cli.Options) *cobra.Command {
	cmd := &cobra.Command{Use: v.use, Short: v.short}
	s := &session{Options: o, verb: v, flags: cmd.Flags()}
	s.flags.String("namespace", "", "")
	_ = s.flags.MarkHidden("namespace") // -n means the name here, as in az
	for name := range strings.FieldsSeq(fleetFlags + v.needs + " " + v.takes) {
		switch f := flags()[name]; f.value {
		case many:
			s.flags.StringArray(name, nil, f.usage)
		case no:
			s.flags.Bool(name, false, f.usage)
		default:
			s.flags.StringP(name, f.short, f.value, f.usage)
		}
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(o.CheckOutput(), s.check(args)); err != nil {
			return err
		}
		s.group, s.fleet, s.name = s.text("resource-group"), s.text("fleet-name"), s.text("name")
		s.path = cmp.Or(s.text("store"), s.fleet+".db")
		return o.Within(cmd.Context(), func(ctx context.Context) (err error) {
			if err := s.open(ctx); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			return v.do(ctx, s)
		})
	}
	return cmd
}

// session is a call of a verb.
type session struct {
	*cli.Options
	verb  verb
	flags *pflag.FlagSet
	// group, fleet and name are values of flags, and path is the file of the store.
	group, fleet, name, path string
	// The target is the engine of the process that has the store. If it is not live, it is this
	// process.
	*target.Target
	record *record
}

// check returns all problems of the flags. An argument without a flag is a further value of the
// flag that accepts several, as in az: --targets Group:a Stage:b.
func (s *session) check(args []string) error {
	var problems []error
	for name := range strings.FieldsSeq(fleetFlags + s.verb.needs) {
		if !s.flags.Changed(name) {
			problems = append(problems, fmt.Errorf("--%s is not set: %s", name, s.flags.Lookup(name).Usage))
		}
	}
	known := flags()
	s.flags.Visit(func(f *pflag.Flag) {
		k, values := known[f.Name], []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is && k.value == many {
			values, args = append(list.GetSlice(), args...), nil
			_ = list.Replace(values) // a list of text accepts everything
		}
		for _, value := range values {
			if !regexp.MustCompile(k.pattern).MatchString(value) {
				problems = append(problems, fmt.Errorf("--%s %q must be %s", f.Name, value, k.want))
			}
		}
	})
	for _, a := range args {
		problems = append(problems, fmt.Errorf("%q belongs to no flag", a))
	}
	if err := errors.Join(problems...); err != nil {
		return cli.UsageError{Err: err}
	}
	return nil
}

// text returns the value of a flag; it is empty if the verb does not have the flag.
func (s *session) text(flag string) string {
	if f := s.flags.Lookup(flag); f != nil {
		return f.Value.String()
	}
	return ""
}

func (s *session) list(flag string) []string {
	v, _ := s.flags.GetStringArray(flag)
	return v
}

// id returns the resource id of an object of the fleet. There is no subscription.
func (s *session) id(kind, name string) string {
	return fmt.Sprintf("/resourceGroups/%s/providers/Microsoft.ContainerService/fleets/%s/%s/%s", s.group, s.fleet, kind, name)
}

// note prints the result of a request on standard error.
func (s *session) note(format string, args ...any) { fmt.Fprintf(s.ErrOut, format+"\n", args...) }

// show shows a table, or with -o json and yaml the value, like az: a list is not inside an
// object.
func (s *session) show(table *cli.List, value any) error {
	if s.IsValue() {
		return s.PrintValue(value)
	}
	return s.Print(table)
}

func missing(what, name string) error {
	return fmt.Errorf("%s %s does not exist: the verb list shows all", what, name)
}

// recordVerbs list, show and delete the entries of a kind in the record of the fleet.
func recordVerbs[T any](what string, of func(*record) map[string]T, table func(*session, ...T) *cli.List) []verb {
	return []verb{
		{use: "list", short: "List every " + what, do: func(_ context.Context, s *session) error {
			all := table(s, slices.Collect(maps.Values(of(s.record)))...)
			all.Sort()
			return s.show(all, all.Values())
		}},
		{use: "show", short: "Show one " + what, needs: "name", do: func(_ context.Context, s *session) error {
			one, there := of(s.record)[s.name]
			if !there {
				return missing(what, s.name)
			}
			t := table(s, one)
			return s.show(t, t.Values()[0])
		}},
		{use: "delete", short: "Delete one " + what, needs: "name", writes: true, do: func(_ context.Context, s *session) error {
			if _, there := of(s.record)[s.name]; !there {
				return missing(what, s.name)
			}
			delete(of(s.record), s.name)
			return s.record.save()
		}},
	}
}
