package drift

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Pair is an object of the hub and its counterpart on a member.
type Pair struct {
	Hub *unstructured.Unstructured
	// Member is nil if the member has no such object; [Compare] reports it as [Absent].
	Member *unstructured.Unstructured
}

// identity is the key by which objects are matched.
type identity struct {
	kind            schema.GroupKind
	namespace, name string
}

func identityOf(o *unstructured.Unstructured) identity {
	return identity{o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName()}
}

// Match finds the member's object for each object of the hub, by group, kind, namespace
// and name. It returns a pair for each object of the hub, in their order. The second result has the
// member's objects that the hub has in no version.
//
// If the member has an object in several versions, Match takes the version of the hub,
// or else the first version; [Compare] warns if the version is another than the hub's. An object
// without a namespace matches an object in the namespace default, unless one of the sides has both,
// because files and clusters may name that namespace or omit it.
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

// elsewhere swaps the namespace default and the empty namespace. It returns any other
// identity unchanged.
func (id identity) elsewhere() identity {
	switch id.namespace {
	case "":
		id.namespace = metav1.NamespaceDefault
	case metav1.NamespaceDefault:
		id.namespace = ""
	}
	return id
}
