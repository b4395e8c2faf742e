package drift

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/drift/schema"
	"github.com/slipway-dev/slipway/formats/manifest"
)

// results is what was found: a report for each object of the hub's file.
type results struct {
	reports []drift.Report
	// unmatched counts the objects that only the member's file has.
	unmatched int
}

type objects []*unstructured.Unstructured

// places are where the objects of all files are.
type places map[*unstructured.Unstructured]manifest.Place

// compare reads the files and compares what is in them. The error is all that is wrong with any of them. A member
// without objects is an answer, with a warning; nothing to compare it with is a mistake.
func (f *files) compare(o *cli.Options) (results, error) {
	at := places{}
	hub, hubErr := at.read(o, f.hub)
	member, memberErr := at.read(o, f.member)
	var definitions objects
	var definitionsErr error
	if f.crd != "" {
		definitions, definitionsErr = at.read(o, f.crd)
	}
	if errors.Is(memberErr, errNoObject) {
		o.Warn("%v", memberErr)
		memberErr = nil
	}
	if err := errors.Join(hubErr, memberErr, definitionsErr); err != nil {
		return results{}, err
	}
	if err := f.learn(at, definitions, append(hub, member...)); err != nil {
		return results{}, err
	}
	pairs, rest := drift.Match(hub, member)
	found := results{unmatched: len(rest)}
	var errs []error
	for _, p := range pairs {
		r, err := f.report(p, at)
		found.reports, errs = append(found.reports, r), append(errs, err)
	}
	return found, errors.Join(errs...)
}

// errNoObject is that of a file without objects.
var errNoObject = errors.New("holds no object")

// read reads the objects of a file, and notes their places.
func (at places) read(o *cli.Options, file string) (objects, error) {
	in, name, err := o.Open(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	all, err := manifest.Read(in, name)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s %w", name, errNoObject)
	}
	var out objects
	for _, one := range all {
		at[one.Unstructured] = one.Place
		out = append(out, one.Unstructured)
	}
	return out, err
}

// learn takes the schemas of custom resources from definitions. Those beside the objects are taken where they
// can be read, those of a file of definitions must be.
func (f *files) learn(at places, definitions, beside objects) error {
	var sources []schema.Source
	var errs []error
	for i, o := range append(definitions, beside...) {
		s, err := schema.FromCRD(o)
		switch {
		case err == nil:
			sources = append(sources, s)
		case i < len(definitions):
			errs = append(errs, fmt.Errorf("%s: %w", at[o], err))
		}
	}
	f.options.Schemas = schema.Join(append(sources, schema.Builtin())...)
	return errors.Join(errs...)
}

// report compares an object with the member's. An error begins with the place of the one that it is about.
func (f *files) report(p drift.Pair, at places) (drift.Report, error) {
	o := f.options
	if o.Manager == "" && p.Member != nil {
		o.Manager = drift.Applier(p.Hub, p.Member)
	}
	compiled, err := drift.Compile(p.Hub, o)
	if err != nil {
		return drift.Report{}, fmt.Errorf("%s: %w", at[p.Hub], err)
	}
	r, err := compiled.Compare(p.Member, nil)
	if err != nil {
		err = fmt.Errorf("%s: %w", at[p.Member], err)
	}
	return r, err
}
