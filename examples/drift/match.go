package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/drift/schema"
)

// result is what was found of an object of the hub's file.
type result struct {
	drift.Report
}

// results is what was found of all of them. Unmatched counts the objects that
// only the member's file has.
type results struct {
	all       []result
	unmatched int
}

func drifted(r results) bool {
	for i := range r.all {
		if r.all[i].Drifted() {
			return true
		}
	}
	return false
}

// compare reads the files and compares what is in them. The error is all that is
// wrong with any of them.
func (l *line) compare(in io.Reader) (results, []error, error) {
	hub, warnings, hubErr := readSome(l.hub, in)
	member, more, memberErr := readFile(l.member, in)
	warnings = append(warnings, more...)
	if memberErr == nil && len(member) == 0 {
		warnings = append(warnings, nothing(l.member))
	}
	var crds []object
	var crdErr error
	if l.crd != "" {
		crds, more, crdErr = readSome(l.crd, in)
		warnings = append(warnings, more...)
	}
	if errs := slices.Concat(split(hubErr), split(memberErr), split(crdErr)); len(errs) > 0 {
		return results{}, warnings, errors.Join(errs...)
	}
	if err := l.learn(crds, hub, member); err != nil {
		return results{}, warnings, err
	}
	found, err := l.match(hub, member)
	return found, warnings, err
}

// readSome is readFile for a file that must hold an object. Nothing on a member is
// an answer; nothing to compare it with is a mistake.
func readSome(name string, in io.Reader) ([]object, []error, error) {
	objects, warnings, err := readFile(name, in)
	if err == nil && len(objects) == 0 {
		err = nothing(name)
	}
	return objects, warnings, err
}

func nothing(file string) error {
	if file == "-" {
		file = "standard input"
	}
	return fmt.Errorf("%s: holds no object", file)
}

// learn finds the schemas of custom resources. Definitions that come with the
// objects are taken where they can be read.
func (l *line) learn(crds []object, files ...[]object) error {
	var sources []schema.Source
	var errs []error
	for _, o := range crds {
		s, err := definition(o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		sources = append(sources, s)
	}
	for _, o := range slices.Concat(files...) {
		if s, err := definition(o); err == nil {
			sources = append(sources, s)
		}
	}
	l.options.Schemas = schema.Join(append(sources, schema.Builtin())...)
	return errors.Join(errs...)
}

func definition(o object) (schema.Source, error) {
	if o.GetKind() != "CustomResourceDefinition" {
		return nil, problem{o.at, "must be a CustomResourceDefinition, not a " + shorten(o.GetKind())}
	}
	s, err := schema.FromCRD(o.Unstructured)
	if err != nil {
		return nil, problem{o.at, err.Error()}
	}
	return s, nil
}

// match finds the member's object for each of the hub's and compares the two.
func (l *line) match(hub, member []object) (results, error) {
	found := results{all: make([]result, 0, len(hub))}
	pairs, errs := index(member)
	asked, more := once(hub)
	errs = append(errs, more...)
	for _, h := range hub {
		id := identityOf(h, asked, pairs)
		r, err := l.report(h, pick(h, pairs[id]))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found.all = append(found.all, result{r})
		delete(pairs, id)
	}
	for _, rest := range pairs {
		found.unmatched += len(rest)
	}
	return found, errors.Join(errs...)
}

// index returns the member's objects by what they are matched by. There may be
// several versions of one.
func index(member []object) (map[identity][]object, []error) {
	all := map[identity][]object{}
	var errs []error
	for _, o := range member {
		for _, other := range all[o.identity()] {
			if other.GetAPIVersion() == o.GetAPIVersion() {
				errs = append(errs, twice(o, other))
			}
		}
		all[o.identity()] = append(all[o.identity()], o)
	}
	return all, errs
}

// once returns the hub's objects by what they are matched by. There may be one of
// each only, whatever its version.
func once(hub []object) (map[identity]object, []error) {
	all := map[identity]object{}
	var errs []error
	for _, o := range hub {
		if other, ok := all[o.identity()]; ok {
			errs = append(errs, twice(o, other))
			continue
		}
		all[o.identity()] = o
	}
	return all, errs
}

// identityOf returns what the member's object for one of the hub is matched by. A
// namespace that one file leaves out and the other calls default is the same,
// unless there is an object that says it as the hub's does.
func identityOf(h object, hub map[identity]object, member map[identity][]object) identity {
	id := h.identity()
	other := id
	switch id.namespace {
	case "":
		other.namespace = metav1.NamespaceDefault
	case metav1.NamespaceDefault:
		other.namespace = ""
	default:
		return id
	}
	if _, asked := hub[other]; asked || len(member[id]) > 0 || len(member[other]) == 0 {
		return id
	}
	return other
}

func twice(o, other object) error {
	return problem{o.at, fmt.Sprintf("%s is there already, in document %d on line %d", name(o), other.at.document, other.at.line)}
}

func name(o object) string {
	if ns := o.GetNamespace(); ns != "" {
		return shorten(o.GetKind()) + " " + shorten(ns) + "/" + shorten(o.GetName())
	}
	return shorten(o.GetKind()) + " " + shorten(o.GetName())
}

// pick returns the member's object of the hub's version, one of another version
// where there is none, or nil.
func pick(h object, all []object) *object {
	for i := range all {
		if all[i].GetAPIVersion() == h.GetAPIVersion() {
			return &all[i]
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// report compares an object with the member's, which is nil where there is none.
func (l *line) report(h object, m *object) (drift.Report, error) {
	o := l.options
	if m != nil && o.Manager == "" {
		o.Manager = applier(h.Object, m.Unstructured)
	}
	manifest, err := drift.Compile(h.Unstructured, o)
	if err != nil {
		return drift.Report{}, problem{h.at, err.Error()}
	}
	if m == nil {
		return manifest.Compare(nil, nil)
	}
	r, err := manifest.Compare(m.Unstructured, nil)
	if err != nil {
		return r, problem{m.at, err.Error()}
	}
	return r, nil
}
