package drift

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Pair is an object of the hub and the one that a member has of it.
type Pair struct {
	Hub *unstructured.Unstructured
	// Member is nil where the member has none; [Compare] reports that as [Absent].
	Member *unstructured.Unstructured
}

// identity is what objects are matched by. The version is not part of it.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

func identityOf(o *unstructured.Unstructured) identity {
	return identity{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

// Match finds the member's object for each of the hub's, by group, kind, namespace and name. There is a pair for
// each object of the hub, in their order; rest are those of the member that are in no pair and that the hub does
// not have in another version either.
//
// Of an object that the member has in several versions the hub's is taken, or else the first; [Compare] warns of
// another one. An object without a namespace is the same as one in the namespace default, unless one of the sides
// has both: files and clusters name that namespace or leave it out.
func Match(hub, member []*unstructured.Unstructured) (pairs []Pair, rest []*unstructured.Unstructured) {
	asked, there := map[identity]bool{}, map[identity][]*unstructured.Unstructured{}
	for _, h := range hub {
		asked[identityOf(h)] = true
	}
	for _, m := range member {
		there[identityOf(m)] = append(there[identityOf(m)], m)
	}
	matched := map[identity]bool{}
	for _, h := range hub {
		id := identityOf(h)
		if other := id.elsewhere(); len(there[id]) == 0 && !asked[other] {
			id = other
		}
		p := Pair{Hub: h}
		for _, m := range there[id] {
			if p.Member == nil || m.GetAPIVersion() == h.GetAPIVersion() {
				p.Member = m
			}
		}
		matched[id] = true
		pairs = append(pairs, p)
	}
	for _, m := range member {
		if !matched[identityOf(m)] {
			rest = append(rest, m)
		}
	}
	return pairs, rest
}

// elsewhere returns the other way to name an object of the namespace default, or of none; any other one is itself.
func (id identity) elsewhere() identity {
	switch id.namespace {
	case "":
		id.namespace = metav1.NamespaceDefault
	case metav1.NamespaceDefault:
		id.namespace = ""
	}
	return id
}
