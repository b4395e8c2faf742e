// Package drift compares the desired object of the hub with the live object on a
// member cluster. It reports which fields differ, who wrote them, and whether the
// difference matters.
//
// [Compare] takes the hub's object and the member's object. To compare one
// object with many members, [Compile] it once; a [Manifest] may be used by any
// number of goroutines, and a comparison without differences allocates nothing.
// The same edit on a thousand clusters has the same Fingerprint in its [Report].
// An engine puts the reports of the objects of one cluster together in a [ClusterReport].
//
// Package snapshot defines the hub's object, and package placement selects its
// clusters; drift imports neither. It does no I/O, reads no clock and asks no server:
// its knowledge of kinds comes from a schema.Source, and its knowledge of
// the past from the member's managedFields and a [Baseline].
//
// # Two comparisons, five classes
//
// [Partial] reports the differences that an apply of the hub's object would correct. Fields are
// [Changed] or [Missing]. They are [Stale] if they were applied once and the hub has dropped them,
// unless a server would fill in the same value. Partial ignores fields that only the member has,
// except inside of an atomic list or map, because an apply replaces it. [Full] also reports those
// fields, as [Unmanaged], and items that are only in another [Order]. Full includes all differences
// of Partial.
//
// # Which values are equal
//
// Two values are equal if a server would treat them as equal.
//
//   - Items of a keyed list are matched by their keys, at any index, with the
//     defaults of the keys: port 53 is 53/TCP and not 53/UDP. Sets have no
//     order. All other lists are atomic: their items must be equal in the same order.
//   - The order of some atomic lists of built-in kinds means nothing to any reader: the
//     subjects of a RoleBinding, the rules of a Role, the sources of a NetworkPolicy.
//     SetsOf in internal/kinds names each with the document that says so. They are
//     compared as sets.
//   - Quantities, durations, times and base64 are compared by meaning:
//     1000m is 1, and 60m is an hour. A number never equals text, and 50% never equals 50.
//   - null is absent, unless the schema says that null is a value. {} and [] are absent
//     too, unless their presence has a meaning, such as an empty selector or a key in a
//     map. 0, false and "" are absent in fields of built-in kinds that do not store them.
//   - A field that only the member has is no difference if it has its default, which may
//     depend on other fields; if a server or controller owns the field; or if the
//     baseline recorded it right after the apply, for example because a webhook added it.
//   - Labels, annotations and finalizers are the only metadata that is compared. Keys that
//     Kubernetes, kubectl and this module write are skipped by a list of exact names
//     without patterns, so nothing hides behind a prefix. The status is compared only
//     if [Options].Status is set.
//   - Numbers are compared exactly, also beyond 2^53 and beyond 64 bits.
//
// If no schema knows a kind, or a schema does not know a field, the structure is
// compared: maps by key, lists as a whole, plain values exactly. This applies only to
// the unknown field and the values below it.
//
// # Paths
//
// [Difference].Path is a JSON pointer (RFC 6901) to the value in the member's object,
// or in the hub's object if only the hub has the value; the whole object is "".
// KeyPath names items by their keys and stays the same when a list is reordered.
// Entries are unique and sorted.
//
// # Atomic lists and maps
//
// Atomic lists, and some maps, have one owner: an apply replaces the whole list
// even if only a field of one item differs. A difference reports both. Path leads to
// the field that differs, such as /spec/ingress/0/ports/0/endPort. AtomicPath leads to
// the atomic list or map, /spec/ingress. It is empty if Path is not inside of one or
// leads to it. If atomic lists or maps are nested, AtomicPath leads to the outermost.
//
// The items of an atomic list are matched by comparing them. Equal items are aligned
// first, so that an item inserted in front of the others is one entry. Then
//
//   - items between the same neighbors are compared field by field, in order, if both
//     sides have equally many items there;
//   - any other item is [Missing], by its index on the hub, or [Unmanaged];
//   - the list is one entry, [Changed], if only its order differs (with the
//     note "reordered"), if one side is empty, if no item has a counterpart, or
//     if it would have more than ten entries.
//
// # Secrets
//
// Reports, warnings, errors and baselines never show the values of a Secret, its
// annotations, or kubectl's last-applied copy. Values that a schema or [Options].Secrets names are
// hidden in the same way. With [Options].SecretKey, a keyed tag shows whether two secret values are
// equal. This package does not search for values that look secret: list all other secret values in
// the options.
//
// # Limits
//
// A member is not trusted. A comparison returns an error that names the object, the
// place and the limit if a difference has more than [MaxDepth] levels or [MaxNodes]
// values. Time and memory of all other comparisons grow as the object does,
// for any content. By default a report has at most 100 differences and 256 bytes of
// each value. It states the total number of differences and marks values that were cut.
//
// # How it is built
//
// A comparison is these steps, in this order and each in a file:
//
//  1. options.go checks the options and prepares ignore rules.
//  2. compile.go makes a [Manifest] of the hub's object, on internal/compare.
//  3. baseline.go finds the differences in a member's object, on internal/compare, and
//     drops those in the [Baseline].
//  4. stale.go adds applied fields that the hub has dropped.
//  5. ignore.go drops differences that match a rule, and owner.go looks up the owner of
//     a value in managedFields, on internal/ownership.
//  6. redact.go hides secrets.
//  7. report.go makes a [Report] of the rest, sorted and each difference once.
//
// compare.go and dryrun.go call these steps in order; drift.go declares the types, and
// cluster.go the reports of an engine. Files do not depend on each other in cycles.
// Outside of these steps, strip.go applies ignore rules to the object before an apply,
// and fight.go counts differences that return.
//
// # Unsupported
//
// This package does not know which fields a webhook added before the first baseline was
// taken, or how one version of a kind is converted to another. Read the member's object
// in the version of the hub's object; another version is compared with a warning.
package drift
