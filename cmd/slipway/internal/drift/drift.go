// Package drift is the part of the verb drift that compares two files: the desired objects, and
// the objects on a member.
//
// The files contain YAML or JSON documents, several of each, and lists. Objects are matched by
// group, kind, namespace and name; a missing namespace matches default, too. Objects that are
// only in the member's file are not compared; if it has none at all, all of the hub's are
// missing. An object of another version on the member is compared nevertheless, with a warning,
// because the version alone may cause differences.
//
// # Output
//
// A table has a row for each difference; -o wide adds the writer, and shows long values
// completely. JSON is an array with a [drift.Report] for each object of the hub's file, in its
// order, always with its namespace, and YAML is the same.
//
// With -o name there is a line object/KIND/NAME for each object that differs. Values of Secrets,
// and of the fields in --secret, are never shown.
package drift

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/drift/schema"
	"github.com/slipway-dev/slipway/formats/manifest"
)

// files are the flags of a comparison of two files.
type files struct {
	hub, member, crd string
	ignore           []string
	options          drift.Options
}

// AddFiles adds the comparison of files to a verb that compares clusters: if a flag names a file,
// the files are compared, and there is no argument.
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
	flags.StringVar(&f.hub, "hub", "", "file with the objects of the hub; - is the standard input")
	flags.StringVar(&f.member, "member", "", "file with the objects of the member; - is the standard input")
	flags.StringVar(&f.crd, "crd", "", "file with definitions of custom resources; definitions in the other two files are also used")
	flags.StringVar((*string)(&f.options.Comparison), "comparison", string(drift.Partial),
		"PartialComparison compares the fields of the hub's objects, FullComparison also the fields that only the member has")
	flags.StringVar(&f.options.Manager, "manager", "", "field manager that applied the hub's objects; default: the manager that applied most of them")
	flags.StringArrayVar(&f.ignore, "ignore", nil,
		"pointer to a field that is ignored, with all fields below it; * is any key or index, [name=app] the item with that key")
	flags.StringArrayVar(&f.options.Secrets, "secret", nil, "pointer to a value that is not shown")
	for _, name := range []string{"hub", "member", "crd"} {
		_ = cobra.MarkFlagFilename(flags, name, "yaml", "yml", "json")
	}
}

// run compares the files and shows the differences; the error is cli.ErrDiffers if there are any.
func (f *files) run(o *cli.Options) error {
	if err := errors.Join(o.CheckOutput(), f.check()); err != nil {
		return err
	}
	reports, unmatched, err := f.compare(o)
	if err == nil {
		err = show(o, reports, unmatched)
	}
	if err == nil && slices.ContainsFunc(reports, func(r drift.Report) bool { return r.Drifted() }) {
		err = cli.ErrDiffers
	}
	return err
}

// check reports missing or conflicting flags.
func (f *files) check() error {
	input := slices.DeleteFunc([]string{f.hub, f.member, f.crd}, func(file string) bool { return file != "-" })
	switch {
	case f.hub == "":
		return cli.Usagef("--hub is not set: it names a file with the objects of the hub")
	case f.member == "":
		return cli.Usagef("--member is not set: it names a file with the objects of the member")
	case len(input) > 1:
		return cli.Usagef("the standard input can be one file only")
	case len(f.ignore) > 0:
		f.options.Ignore = []drift.IgnoreRule{{Pointers: f.ignore}}
	}
	if err := f.options.Validate(); err != nil {
		return cli.Usagef("--comparison, --ignore or --secret: %w", err)
	}
	return nil
}

// places are the places of the objects in all files.
type places map[*unstructured.Unstructured]manifest.Place

// compare reads the files and returns a report for each object of the hub's file, and the number
// of objects that only the member's file has. The error lists all problems of the files. A
// member's file without objects is valid, with a warning; a hub's file without objects is an
// error.
func (f *files) compare(o *cli.Options) (reports []drift.Report, unmatched int, err error) {
	at := places{}
	hub, hubErr := at.read(o, f.hub)
	member, memberErr := at.read(o, f.member)
	definitions, definitionsErr := at.read(o, f.crd)
	if errors.Is(memberErr, errNoObject) {
		o.Warn("%v", memberErr)
		memberErr = nil
	}
	if err := errors.Join(hubErr, memberErr, definitionsErr); err != nil {
		return nil, 0, err
	}
	if err := f.learn(at, definitions, append(hub, member...)); err != nil {
		return nil, 0, err
	}
	pairs, rest := drift.Match(hub, member)
	var errs []error
	for _, p := range pairs {
		r, err := f.report(p, at)
		reports, errs = append(reports, r), append(errs, err)
	}
	return reports, len(rest), errors.Join(errs...)
}

// errNoObject is the error of a file without objects.
var errNoObject = errors.New("holds no object")

// read reads the objects of a file, and records their places. Without a file there are none.
func (at places) read(o *cli.Options, file string) (out []*unstructured.Unstructured, err error) {
	if file == "" {
		return nil, nil
	}
	in, name, err := o.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	all, err := manifest.Read(in, name)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s %w", name, errNoObject)
	}
	for _, one := range all {
		at[one.Unstructured] = one.Place
		out = append(out, one.Unstructured)
	}
	return out, err
}

// learn reads the schemas of custom resources from definitions. Invalid definitions beside the
// objects are ignored, those in a file of definitions are errors.
func (f *files) learn(at places, definitions, beside []*unstructured.Unstructured) error {
	var sources []schema.Source
	var errs []error
	for i, o := range append(definitions, beside...) {
		if s, err := schema.FromCRD(o); err == nil {
			sources = append(sources, s)
		} else if i < len(definitions) {
			errs = append(errs, fmt.Errorf("%s: %w", at[o], err))
		}
	}
	f.options.Schemas = schema.Join(append(sources, schema.Builtin())...)
	return errors.Join(errs...)
}

// report compares an object with the member's. An error begins with the place of the invalid
// object.
func (f *files) report(p drift.Pair, at places) (r drift.Report, err error) {
	o := f.options
	if o.Manager == "" && p.Member != nil {
		o.Manager = drift.Applier(p.Hub, p.Member)
	}
	compiled, err := drift.Compile(p.Hub, o)
	if err != nil {
		return r, fmt.Errorf("%s: %w", at[p.Hub], err)
	}
	if r, err = compiled.Compare(p.Member, nil); err != nil {
		err = fmt.Errorf("%s: %w", at[p.Member], err)
	}
	return r, err
}
