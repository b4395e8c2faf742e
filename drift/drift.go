package drift

import (
	"encoding/json"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/value"
	"github.com/slipway-dev/slipway/drift/schema"
)

// The limits of an object of either side. Compile returns an error that names the
// place if the hub's object exceeds them. Compare returns one if a member's object
// exceeds them and differs at that place.
const (
	// MaxDepth is the maximum nesting of maps and lists, 128.
	MaxDepth = value.MaxDepth
	// MaxNodes is the maximum number of values in an object, 1,000,000.
	MaxNodes = value.MaxNodes
)

// Comparison says which differences are reported.
type Comparison string

// The comparisons.
const (
	// Partial compares the fields of the hub's object and ignores fields that only
	// the member has.
	Partial Comparison = "PartialComparison"
	// Full also reports fields that only the member has, unless a server, a default or the baseline
	// explains them.
	Full Comparison = "FullComparison"
)

// Class says in which way a field differs.
type Class string

// The classes of differences. The classes that Partial reports come first.
const (
	// Changed fields have another value on the member.
	Changed Class = "Changed"
	// Missing fields are in the hub's object only.
	Missing Class = "Missing"
	// Stale fields were applied from an earlier version of the hub's object. The hub
	// has dropped them, and the member still has them.
	Stale Class = "Stale"
	// Order is a list with the same items in another order. Partial reports it
	// only if the order has a meaning or the list is atomic, so that an apply
	// would restore the order.
	Order Class = "Order"
	// Unmanaged fields are in the member's object only. Partial reports them only inside of atomic
	// lists, atomic maps and unions.
	Unmanaged Class = "Unmanaged"
)

// State is the state of the whole object on a member.
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
	// Comparison is the comparison; empty means Partial.
	Comparison Comparison
	// Schemas knows the kinds; nil is schema.Builtin().
	Schemas schema.Source
	// Manager is the field manager that applied the hub's object. If it owns a field on the member
	// that the hub's object no longer has, the field is Stale, unless a manager that is no applier
	// owns the field too: see [TakeOver]. If Manager is empty, only kubectl's last-applied annotation
	// finds stale fields.
	Manager string
	// Ignore are the rules that drop differences from the report.
	Ignore []IgnoreRule
	// Secrets are pointers, with * for any key or index, to more values that must not
	// be shown. Values of Secrets and of fields that a schema marks are never shown.
	Secrets []string
	// SecretKey, if not empty, adds a keyed tag to redacted values: equal
	// values have equal tags under the same key. It is never shown.
	SecretKey []byte
	// Status compares the top-level status too.
	Status bool
	// MaxDifferences is the maximum number of entries in a report, and MaxValueBytes the
	// maximum number of bytes shown of a value; 0 means 100 and 256.
	MaxDifferences, MaxValueBytes int
}

// IgnoreRule drops differences from reports; [Strip] uses it to drop fields from the
// object before an apply. A rule matches if all fields that are set match; a list
// matches if one of its values matches. At least one of Pointers, Managers and Classes
// must be set.
type IgnoreRule struct {
	// Group, Kind, Namespace and Name narrow the rule to objects; empty is any.
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Pointers are JSON pointers (RFC 6901) to fields, which are ignored with
	// everything below them. The level * is any name or index. An item of a list
	// is named by its keys, [name=app] or [containerPort=80,protocol="UDP"], and an
	// item of a set by its value, [="a"]. Its index on the member works too. The
	// empty pointer is the whole object.
	Pointers []string `json:"pointers,omitempty"`
	// Managers are field managers: a field is ignored if one of them wrote it last on
	// the member.
	Managers []string `json:"managers,omitempty"`
	// Classes are the classes of differences that are ignored.
	Classes []Class `json:"classes,omitempty"`
}

// Difference is one entry of a report.
type Difference struct {
	// Path is an RFC 6901 pointer to the value in the member's object, or in the hub's
	// object if only the hub has the value. In both, stringData counts as data.
	Path string `json:"path"`
	// HubPath is the pointer in the hub's object if it differs from Path: the item has
	// another index, or the hub has stringData and the member data.
	HubPath string `json:"hubPath,omitempty"`
	// KeyPath names items of lists by their keys, so that it stays the same when
	// lists are reordered: .spec.containers[name="app"].image.
	KeyPath string `json:"keyPath,omitempty"`
	// AtomicPath is the pointer to the outermost atomic list or map around Path, in the
	// same object as Path. It is empty if there is none or if Path leads to it. An apply
	// that restores any part of it replaces all of it.
	AtomicPath string `json:"atomicPath,omitempty"`
	Class      Class  `json:"class"`
	// Hub and Member are the values as JSON, empty if there is no value. A value
	// that is too long becomes a string with its length, its sha256 and the first
	// line that differs. A secret value becomes "(redacted)", with
	// a keyed tag if Options.SecretKey is set.
	Hub    json.RawMessage `json:"valueInHub,omitempty"`
	Member json.RawMessage `json:"valueInMember,omitempty"`
	// Note is a remark, for example "immutable", "pruned" or "whitespace only".
	Note string `json:"note,omitempty"`
	// Owner is the manager that wrote the member's value, or nil if the managedFields do
	// not name one. For a Missing value in an atomic list or map, Owner is the manager of
	// that list or map.
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

// Report is the result of the comparison of one object.
type Report struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Generation is metadata.generation of the member's object.
	Generation int64 `json:"targetClusterObservedGeneration,omitempty"`
	// Differences are sorted by path, numbers by their value. It is not nil.
	Differences []Difference `json:"observedDiffs"`
	// Total is the number of differences. Truncated is set if Differences omits some of the
	// differences, because there are more than Options.MaxDifferences, or because their paths and
	// values have more than 1 MiB.
	Total     int  `json:"total"`
	Truncated bool `json:"truncated,omitempty"`
	// Warnings are reasons why the report may be wrong, for example duplicate keys.
	Warnings []string `json:"warnings,omitempty"`
	// Fingerprint is equal for equal differences on different members. It is empty if
	// there are no differences.
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
