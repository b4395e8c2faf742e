package snapshot

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxEnveloped is the maximum number of objects in an envelope.
const MaxEnveloped = 50

// unpack cleans objects and replaces the envelopes among them by their contents. Objects from
// ResourceEnvelopes must also be allowed by authors.
func (r Rules) unpack(objs []*unstructured.Unstructured, authors Rules, cleaning cleaning) (*unpacking, error) {
	u := &unpacking{rules: r, authors: authors, from: map[ID]*ID{}}
	var envelopes []*unstructured.Unstructured
	for _, obj := range objs {
		if isEnvelope(IDOf(obj)) {
			envelopes = append(envelopes, obj)
			continue
		}
		cleaned, id := cleaning.clean(obj)
		u.from[id.object()] = nil
		u.objects = append(u.objects, cleaned)
	}
	u.opened = len(envelopes)
	slices.SortFunc(envelopes, func(a, b *unstructured.Unstructured) int { return IDOf(a).Compare(IDOf(b)) })
	var errs []error
	for _, obj := range envelopes {
		if problems := u.open(IDOf(obj), obj.Object); len(problems) > 0 {
			errs = append(errs, fmt.Errorf("snapshot: %s: %w", IDOf(obj), problems.ToAggregate()))
		}
	}
	if n := len(u.unplaced); n > MaxUnplaced {
		errs = append(errs, fmt.Errorf("snapshot: %d objects of envelopes are not placed, and a snapshot has room for %d: the first is %s: %s",
			n, MaxUnplaced, u.unplaced[0], u.unplaced[0].Problem()))
	}
	slices.SortFunc(u.unplaced, Unplaced.compare)
	return u, errors.Join(errs...)
}

// unpacking collects the objects from envelopes.
type unpacking struct {
	rules Rules
	// authors are the rules for objects from ResourceEnvelopes.
	authors Rules
	objects []*unstructured.Unstructured
	// unplaced are the objects of envelopes that are not placed, while the others are.
	unplaced []Unplaced
	// from maps each object, by its ID without version, to its envelope; nil means that a selector
	// picked it. opened counts the envelopes.
	from   map[ID]*ID
	opened int
}

// open takes the objects out of one envelope, and returns the problems.
func (u *unpacking) open(envelope ID, obj map[string]any) field.ErrorList {
	path := field.NewPath("data")
	data, ok := obj["data"].(map[string]any)
	switch {
	case !ok || len(data) == 0:
		return field.ErrorList{field.Required(path, "must be a map of names to objects, at least one")}
	case len(data) > MaxEnveloped:
		return field.ErrorList{field.TooMany(path, len(data), MaxEnveloped)}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(data)) {
		errs = append(errs, u.take(&envelope, data[name], path.Key(clip(name)))...)
	}
	return errs
}

// take takes out one object.
func (u *unpacking) take(envelope *ID, entry any, path *field.Path) field.ErrorList {
	manifest, ok := entry.(map[string]any)
	if !ok {
		return field.ErrorList{field.TypeInvalid(path, field.OmitValueType{}, "must be an object with apiVersion, kind and metadata.name")}
	}
	obj := cleanManifest(manifest)
	id := IDOf(obj)
	generates := obj.GetGenerateName()
	check := id.check
	if id.Name == "" && generates != "" {
		check = id.checkKind
	}
	if err := check(); err != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, err.Error())}
	}
	if misplaced(*envelope, id) != "" {
		return u.leave(Unplaced{ID: id, GenerateName: generates, Reason: WrongScope, Envelope: *envelope}, path)
	}
	var errs field.ErrorList
	switch {
	case isEnvelope(id):
		errs = append(errs, field.Forbidden(path, clip(id.String())+" cannot be in an envelope; take what is in it"))
	case !u.rules.propagates(id, obj.Object):
		errs = append(errs, field.Forbidden(path, clip(id.String())+" is of a kind or in a namespace of which nothing is placed"))
	case envelope.Kind == "ResourceEnvelope" && !u.authors.Allows(id):
		errs = append(errs, field.Forbidden(path, clip(id.String())+" is of a kind that authors of a namespace may not bring to other clusters: "+
			"have a ClusterResourcePlacement bring it, or the host allow the kind by NamespaceRules"))
	}
	if len(errs) > 0 {
		return errs
	}
	if id.Name == "" {
		return u.leave(Unplaced{ID: id, GenerateName: generates, Envelope: *envelope}, path)
	}
	if first, twice := u.from[id.object()]; twice {
		return u.leave(Unplaced{ID: id, Reason: Duplicated, Envelope: *envelope, First: first}, path)
	}
	u.from[id.object()] = envelope
	u.objects = append(u.objects, obj)
	return nil
}

// leave records an object, at path, that is not placed. It returns errors if a record has no room
// for its fields.
func (u *unpacking) leave(what Unplaced, path *field.Path) field.ErrorList {
	if errs := tooLong(what.ID, what.GenerateName, path); len(errs) > 0 {
		return errs
	}
	u.unplaced = append(u.unplaced, what)
	return nil
}
