package drift

import (
	"encoding/json"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// The limits of an object of either side. Beyond them Compile returns an error
// that says where, and Compare does where what is beyond would be a difference.
const (
	// MaxDepth, 128, is how many maps and lists may lie in each other.
	MaxDepth = value.MaxDepth
	// MaxNodes, 1,000,000, is how many values an object may have altogether.
	MaxNodes = value.MaxNodes
)

// Comparison says which differences count.
type Comparison string

// The comparisons.
const (
	// Partial counts what the hub's object says and the member's does not: what
	// only the member has is its own affair.
	Partial Comparison = "PartialComparison"
	// Full counts what only the member has as well, unless a server, a default
	// or the baseline explains it.
	Full Comparison = "FullComparison"
)

// Class says what sort of difference an entry is.
type Class string

// The classes of differences. Those that Partial reports come first.
const (
	// Changed fields have another value on the member.
	Changed Class = "Changed"
	// Missing fields are in the hub's object only.
	Missing Class = "Missing"
	// Stale fields were applied from the hub's object before, which no longer has
	// them, and are still on the member.
	Stale Class = "Stale"
	// Order is a list with the same items in another order. Partial reports it
	// only where the order has a meaning, or the list is owned as a whole, so that
	// an apply would put it back.
	Order Class = "Order"
	// Unmanaged fields are on the member only. Partial reports them only inside
	// of what is owned as a whole: atomic lists and maps, unions.
	Unmanaged Class = "Unmanaged"
)

// State says what became of the object as a whole.
type State string

// The states of an object on a member.
const (
	Present     State = "Present"
	Absent      State = "Missing"
	Terminating State = "Terminating"
)

// Options say how objects are compared. The zero value is a Partial comparison
// with the built-in schemas.
type Options struct {
	// Comparison is Partial where empty.
	Comparison Comparison
	// Schemas knows the kinds; nil is schema.Builtin().
	Schemas schema.Source
	// Manager is the field manager that applied the hub's object; fields that it
	// owns on the member and the hub's object no longer has are Stale, unless a
	// manager owns them too that is no applier: see [TakeOver]. Empty
	// finds stale fields by kubectl's last-applied annotation only.
	Manager string
	// Ignore leaves differences out.
	Ignore []IgnoreRule
	// Secrets are pointers, with * for any key or index, to values that must not
	// be shown, besides those of Secrets and of fields that a schema marks.
	Secrets []string
	// SecretKey, where not empty, makes a redacted value carry a keyed tag: equal
	// values have equal tags under the same key. It is never shown.
	SecretKey []byte
	// Status compares the top-level status too.
	Status bool
	// MaxDifferences is how many entries a report has at most, MaxValueBytes how
	// many bytes of a value it shows; 0 is 100 and 256.
	MaxDifferences, MaxValueBytes int
}

// IgnoreRule leaves differences out of reports, and with [Strip] fields out of
// what is applied. What is set must all hold; of the values of a list, one. At
// least one of Pointers, Managers and Classes is needed.
type IgnoreRule struct {
	// Group, Kind, Namespace and Name narrow the rule to objects; empty is any.
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Pointers are JSON pointers (RFC 6901) to fields, which are ignored with
	// everything below them. The level * is any name or index. An item of a list
	// is named by its keys, [name=app] or [containerPort=80,protocol="UDP"], the
	// item of a set by its value, [="a"]; it may be named by its index on the
	// member too. The empty pointer is the whole object.
	Pointers []string `json:"pointers,omitempty"`
	// Managers are field managers: what one of them wrote last on the member is
	// ignored.
	Managers []string `json:"managers,omitempty"`
	// Classes are the classes of differences that are ignored.
	Classes []Class `json:"classes,omitempty"`
}

// Difference is one entry of a report.
type Difference struct {
	// Path is an RFC 6901 pointer that resolves in the member's object, or, for
	// what only the hub's has, in that one, with stringData as data in both.
	Path string `json:"path"`
	// HubPath is the pointer in the hub's object, where it is another one: the item
	// has another index, or what is data on the member is stringData there.
	HubPath string `json:"hubPath,omitempty"`
	// KeyPath names items of lists by their keys, so that it stays the same when
	// lists are reordered: .spec.containers[name="app"].image.
	KeyPath string `json:"keyPath,omitempty"`
	// AtomicPath is the pointer to the list or map that is owned as a whole and that
	// Path is inside of, in the same object as Path; empty where Path is in none, or is
	// that itself. Whatever of it is put back, an apply replaces all of it.
	AtomicPath string `json:"atomicPath,omitempty"`
	Class      Class  `json:"class"`
	// Hub and Member are the values as JSON, empty where there is none. A value
	// that is too long is a string that says how long, its sha256, and the first
	// line that differs; a secret one is a string that says no more than that.
	Hub    json.RawMessage `json:"valueInHub,omitempty"`
	Member json.RawMessage `json:"valueInMember,omitempty"`
	// Note says more, for example "immutable", "pruned" or "whitespace only".
	Note string `json:"note,omitempty"`
	// Owner is the manager that wrote the member's value, nil if its managedFields do not say. Of what is Missing
	// in something that is owned as a whole, it is the manager of that.
	Owner *Owner `json:"owner,omitempty"`
}

// Owner is an entry of managedFields.
type Owner struct {
	Manager     string `json:"manager"`
	Operation   string `json:"operation,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	// Time is as the member's server wrote it, RFC 3339.
	Time string `json:"time,omitempty"`
}

// Report is what was found of one object.
type Report struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Generation is the member's.
	Generation int64 `json:"targetClusterObservedGeneration,omitempty"`
	// Differences are sorted by path, numbers by their value. It is not nil.
	Differences []Difference `json:"observedDiffs"`
	// Total is how many there are, Truncated whether some are left out.
	Total     int  `json:"total"`
	Truncated bool `json:"truncated,omitempty"`
	// Warnings name what is uncertain, for example duplicate keys.
	Warnings []string `json:"warnings,omitempty"`
	// Fingerprint is the same for the same differences on another member, empty
	// where there are none.
	Fingerprint string `json:"fingerprint,omitempty"`
}

// Drifted reports whether there is a difference.
func (r *Report) Drifted() bool { return r.Total > 0 }

// classOf returns the class of a finding.
func classOf(c compare.Class) Class {
	switch c {
	case compare.Missing:
		return Missing
	case compare.Stale:
		return Stale
	case compare.Order:
		return Order
	case compare.Unmanaged:
		return Unmanaged
	case compare.Changed:
	}
	return Changed
}
