package drift

import (
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/drift/schema"
)

// results is what was found: a report for each object of the hub's file.
type results struct {
	reports []drift.Report
	// unmatched counts the objects that only the member's file has.
	unmatched int
	warnings  []string
}

// compare reads the files and compares what is in them. The error is all that is wrong with any of them.
func (f *files) compare(in io.Reader) (results, error) {
	var found results
	hub, hubErr := readSome(f.hub, in)
	member, memberErr := readFile(f.member, in)
	if memberErr == nil && len(member) == 0 {
		found.warnings = append(found.warnings, fileName(f.member)+" holds no object")
	}
	var crds []object
	var crdErr error
	if f.crd != "" {
		crds, crdErr = readSome(f.crd, in)
	}
	if err := errors.Join(hubErr, memberErr, crdErr); err != nil {
		return found, err
	}
	if err := f.learn(crds, hub, member); err != nil {
		return found, err
	}
	return f.match(found, hub, member)
}

// readSome is readFile for a file that must hold an object. Nothing on a member is an answer; nothing to compare
// it with is a mistake.
func readSome(file string, in io.Reader) ([]object, error) {
	objects, err := readFile(file, in)
	if err == nil && len(objects) == 0 {
		err = fmt.Errorf("%s holds no object", fileName(file))
	}
	return objects, err
}

// learn takes the schemas of custom resources from definitions. Those beside the objects are taken where they
// can be read, those of a file of definitions must be.
func (f *files) learn(crds []object, files ...[]object) error {
	var sources []schema.Source
	var errs []error
	for _, o := range slices.Concat(append([][]object{crds}, files...)...) {
		s, err := schema.FromCRD(o.Unstructured)
		switch {
		case err == nil:
			sources = append(sources, s)
		case slices.Contains(crds, o):
			errs = append(errs, o.at.errorf("%w", err))
		}
	}
	f.options.Schemas = schema.Join(append(sources, schema.Builtin())...)
	return first20(errs)
}

// identity is what objects are matched by.
type identity struct {
	kind            k8sschema.GroupKind
	namespace, name string
}

func (o object) identity() identity {
	return identity{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

// match finds the member's object for each of the hub's and compares the two. The hub may have one of each, the
// member one of each version.
func (f *files) match(found results, hub, member []object) (results, error) {
	var errs []error
	asked, there := map[identity]object{}, map[identity][]object{}
	for _, o := range hub {
		if other, twice := asked[o.identity()]; twice {
			errs = append(errs, twiceIn(o, other))
			continue
		}
		asked[o.identity()] = o
	}
	for _, o := range member {
		for _, other := range there[o.identity()] {
			if other.GetAPIVersion() == o.GetAPIVersion() {
				errs = append(errs, twiceIn(o, other))
			}
		}
		there[o.identity()] = append(there[o.identity()], o)
	}
	if len(errs) > 0 {
		return found, first20(errs)
	}
	for _, h := range hub {
		id := onMember(h, asked, there)
		r, err := f.report(h, there[id])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found.reports = append(found.reports, r)
		delete(there, id)
	}
	for _, rest := range there {
		found.unmatched += len(rest)
	}
	return found, first20(errs)
}

func twiceIn(o, other object) error {
	name := o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return o.at.errorf("%s is there already, in document %d on line %d", o.GetKind()+" "+name, other.at.document, other.at.line)
}

// onMember returns what the member's object for one of the hub is matched by. A namespace that one file leaves
// out and the other calls default is the same, unless there is an object that says it as the hub's does.
func onMember(h object, asked map[identity]object, there map[identity][]object) identity {
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
	if _, too := asked[other]; too || len(there[id]) > 0 || len(there[other]) == 0 {
		return id
	}
	return other
}

// report compares an object with the member's of the same version, or of another one, or with none.
func (f *files) report(h object, versions []object) (drift.Report, error) {
	o := f.options
	if len(versions) == 0 {
		r, err := drift.Compare(h.Unstructured, nil, o)
		if err != nil {
			err = h.at.errorf("%w", err)
		}
		return r, err
	}
	m := versions[0]
	if i := slices.IndexFunc(versions, func(v object) bool { return v.GetAPIVersion() == h.GetAPIVersion() }); i >= 0 {
		m = versions[i]
	}
	if o.Manager == "" {
		o.Manager = drift.Applier(h.Unstructured, m.Unstructured)
	}
	manifest, err := drift.Compile(h.Unstructured, o)
	if err != nil {
		return drift.Report{}, h.at.errorf("%w", err)
	}
	r, err := manifest.Compare(m.Unstructured, nil)
	if err != nil {
		return r, m.at.errorf("%w", err)
	}
	return r, nil
}
