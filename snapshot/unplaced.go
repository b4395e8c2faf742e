package snapshot

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxUnplaced is the maximum number of [Unplaced] objects in the record of a snapshot.
const MaxUnplaced = 20

// String names the object and its envelope for people.
func (u Unplaced) String() string { return u.ID.String() + " in " + u.Envelope.String() }

// Problem says why the object is not placed, and names the remedy.
func (u Unplaced) Problem() string {
	switch u.Reason {
	case Duplicated:
		return "the placement has this object already, " + origin(u.First) + ", and places that one: remove it from one of the two"
	case WrongScope:
		return misplaced(u.Envelope, u.ID)
	case NoName:
	}
	return fmt.Sprintf("it has the generateName %q and no name, so that each time it is applied there would be one more: give it a name", u.GenerateName)
}

// origin describes the source of an object.
func origin(envelope *ID) string {
	if envelope == nil {
		return "selected"
	}
	return "in " + envelope.String()
}

// misplaced says why the namespace of an object forbids it in an envelope, or "" if it does not.
// The right to write envelopes in a namespace must not reach further than that namespace.
func misplaced(envelope, id ID) string {
	scope := scopeOf(id.Group, id.Kind)
	switch {
	case envelope.Kind == "ClusterResourceEnvelope":
		if id.Namespace != "" || scope == inNamespaces {
			return "a ClusterResourceEnvelope carries objects that are in no namespace; put this one into a ResourceEnvelope in its namespace"
		}
	case scope == clusterWide:
		return "a " + id.Kind + " is in no namespace; put it into a ClusterResourceEnvelope"
	case id.Namespace == "":
		return "metadata.namespace must be " + envelope.Namespace + ", that of the envelope; an object that is in no namespace goes into a ClusterResourceEnvelope"
	case id.Namespace != envelope.Namespace:
		return "metadata.namespace must be " + envelope.Namespace + ", that of the envelope, and is " + clip(id.Namespace)
	}
	return ""
}

// valid reports whether the fields are consistent.
func (u Unplaced) valid() bool {
	switch u.Reason {
	case NoName:
		return u.Name == "" && u.GenerateName != "" && u.First == nil
	case Duplicated:
		return u.Name != "" && (u.First == nil || u.First.check() == nil)
	case WrongScope:
		return (u.Name != "" || u.GenerateName != "") && u.First == nil
	}
	return false
}

func (u Unplaced) compare(other Unplaced) int {
	return cmp.Or(u.Envelope.Compare(other.Envelope), u.Compare(other.ID), cmp.Compare(u.GenerateName, other.GenerateName), cmp.Compare(u.Reason, other.Reason))
}

// tooLong reports the fields of an object that are too long for the record of an [Unplaced].
func tooLong(id ID, generates string, path *field.Path) (errs field.ErrorList) {
	for _, f := range [...]struct{ at, text string }{
		{"apiVersion", id.Group + "/" + id.Version},
		{"kind", id.Kind},
		{"metadata.generateName", generates},
		{"metadata.name", id.Name},
		{"metadata.namespace", id.Namespace},
	} {
		if len(f.text) > maxText {
			errs = append(errs, field.TooLong(path.Child(f.at), "", maxText))
		}
	}
	return errs
}

// maxText limits the text of another author that an error quotes or a record keeps, in bytes.
const maxText = 253

// clip bounds text of another author that an error quotes.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	return s[:maxText] + "..."
}
