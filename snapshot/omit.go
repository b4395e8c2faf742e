package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Expected reports whether users expect the omission: of objects that every cluster makes itself
// and in which users set nothing, of objects that are being deleted, and of the addresses of
// Services. A list may only count such omissions, and an event need not name them.
func (o Omission) Expected() bool {
	return o.Reason == EveryCluster && o.Field == "" || o.Reason == BeingDeleted || o.Reason == NotSet && o.GroupKind == GroupKind{Kind: "Service"}
}

// String describes the omission and its reason for people.
func (o Omission) String() string {
	if o.Reason == More {
		return fmt.Sprintf("%d more of other kinds are left out", o.Count)
	}
	some := strings.Join(o.Names, ", ")
	if n := o.Count - len(o.Names); n > 0 && len(o.Names) > 0 {
		some += fmt.Sprintf(" and %d more", n)
	}
	switch {
	case o.Count == 0 && o.Kind == everyKind:
		return "all kinds but those that the rules of the engine name are left out"
	case o.Count == 0:
		return fmt.Sprintf("every %s is left out, if there is one: %s", o.GroupKind, o.Reason.text())
	case o.Field != "":
		return fmt.Sprintf("%s of %s %s is not carried: %s", o.Field, o.GroupKind, some, o.Reason.text())
	}
	return fmt.Sprintf("%d %s left out, %s: %s", o.Count, o.GroupKind, some, o.Reason.text())
}

// text returns the reason for people, with the remedy if there is one.
func (r OmissionReason) text() string {
	switch r {
	case EveryCluster:
		return "every cluster makes its own"
	case BeingDeleted:
		return "being deleted"
	case Reserved:
		return "nothing in a reserved namespace is placed"
	case Excluded:
		return "the rules of the engine exclude the kind"
	case OwnedOnHub:
		return "a controller of the hub made it for another object, and the cluster's makes its own; carry Owned to place it"
	case BoundOnHub:
		return "a controller of the hub wrote it for the hub"
	case NoWorkload:
		return "a Pod belongs to the node that it runs on; place a Deployment or another workload that makes it"
	case NotSet:
		return "nobody set it and the hub's API server filled it in; set it, or carry Defaulted"
	case Missing:
		return "a selector names it, and it does not exist or is being deleted; what clusters have of it is removed"
	case More:
	}
	return string(r)
}

// OmissionsTold returns the unexpected omissions as texts, and the total count of the expected
// ones.
func OmissionsTold(all []Omission) (told []string, expected int) {
	for _, o := range all {
		if o.Expected() {
			expected += o.Count
		} else {
			told = append(told, o.String())
		}
	}
	return told, expected
}

// omissions collects the omissions of a capture.
type omissions map[omissionKey]*Omission

type omissionKey struct {
	kind   GroupKind
	reason OmissionReason
	field  string
}

// everyKind is the kind of an omission that stands for all kinds that the rules do not name.
const everyKind = "*"

// exclude adds the kinds that rules exclude from the content of a Namespace. The source need not
// read them, so that there may be no object to count.
func (all omissions) exclude(rules Rules) {
	kinds := slices.DeleteFunc(slices.Clone(rules.Never), func(k GroupKind) bool {
		return k.Kind == "" || scopeOf(k.Group, k.Kind) == clusterWide || neverPlaced(k.Group, k.Kind)
	})
	if len(rules.Only) > 0 {
		kinds = []GroupKind{{Kind: everyKind}}
	}
	for _, kind := range kinds {
		if key := (omissionKey{kind, Excluded, ""}); all[key] == nil {
			all[key] = &Omission{GroupKind: kind, Reason: Excluded}
		}
	}
}

// add counts an object, or its field.
func (all omissions) add(id ID, reason OmissionReason, field string) {
	key := omissionKey{GroupKind{Group: id.Group, Kind: id.Kind}, reason, field}
	o := all[key]
	if o == nil {
		o = &Omission{GroupKind: key.kind, Reason: reason, Field: field}
		all[key] = o
	}
	o.Count++
	if o.Expected() {
		return
	}
	name := id.Name
	if id.Namespace != "" {
		name = id.Namespace + "/" + name
	}
	at, _ := slices.BinarySearch(o.Names, name)
	o.Names = slices.Insert(o.Names, at, name)
	o.Names = o.Names[:min(len(o.Names), MaxOmitted)]
}

// list returns the omissions in order, unexpected ones first, and merges those beyond the limit
// into one.
func (all omissions) list() []Omission {
	list := slices.Collect(maps.Values(all))
	slices.SortFunc(list, func(a, b *Omission) int {
		order := 0
		switch {
		case a.Expected() && !b.Expected():
			order = 1
		case b.Expected() && !a.Expected():
			order = -1
		}
		return cmp.Or(order, a.GroupKind.compare(b.GroupKind), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Field, b.Field))
	})
	var out []Omission
	for i, o := range list {
		if i == MaxOmissions-1 && len(list) > MaxOmissions {
			out = append(out, Omission{Reason: More})
		}
		if i >= MaxOmissions-1 && len(list) > MaxOmissions {
			out[MaxOmissions-1].Count += o.Count
			continue
		}
		out = append(out, *o)
	}
	return out
}
