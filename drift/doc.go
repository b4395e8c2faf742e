// Package drift compares an object as it was asked for with the one that a member
// cluster has: which fields differ, since whose edit, and whether it matters.
//
// [Compare] takes the object of the hub and that of the member. To compare one
// object with many members, [Compile] it once; a [Manifest] may be used by any
// number of goroutines, and where nothing differs a comparison allocates nothing.
// The same edit on a thousand clusters has the same Fingerprint in its [Report].
// An engine puts the reports of the objects of one cluster together in a [ClusterReport].
//
// Package snapshot says what the hub's object is, package placement which clusters
// get it; drift knows neither. It does no I/O, reads no clock and asks no server:
// all that it knows of kinds comes from a schema.Source, and all that it knows of
// the past from the member's managedFields and a [Baseline].
//
// # Two comparisons, five classes
//
// [Partial] counts what the hub's object says and the member's does not: fields
// that are [Changed] or [Missing], and fields that are [Stale], because they were
// applied once and the hub has dropped them, unless a server would fill in the
// same. What only the member has is its own affair, except inside of what is owned
// as a whole, which an apply replaces. [Full] also counts that, as [Unmanaged], and items that merely stand
// in another [Order]. All that Partial reports is in Full as well.
//
// # What is the same
//
// Two values are the same where a server would say so.
//
//   - Items of a list that has keys are found by these, wherever they stand, with the
//     defaults that keys have: port 53 is 53/TCP and not 53/UDP. Sets have no
//     order. Other lists are atomic: items are the same in the same order.
//   - The order of some atomic lists of built-in kinds means nothing to any reader: the
//     subjects of a RoleBinding, the rules of a Role, the sources of a NetworkPolicy.
//     SetsOf in internal/kinds names each with the document that says so. They are
//     compared as sets.
//   - Quantities, durations, times and base64 are compared by what they mean:
//     1000m is 1, and 60m is an hour. A number is never text, and 50% never 50.
//   - null is absent, unless the schema knows it for a value. So are {} and [],
//     unless their presence means something, as that of an empty selector does, or
//     of a key in a map; and 0, false and "" in fields of built-in kinds that do
//     not store them.
//   - What only the member has is no difference where it is the default, also one
//     that depends on other fields; where a server or controller owns the field;
//     and where the baseline says that it was there right after the apply,
//     whichever webhook put it there.
//   - Of metadata, labels, annotations and finalizers are compared. Those that
//     Kubernetes, kubectl and this module write are a list of names; there are no
//     patterns, so nothing hides behind a prefix. The status is not compared
//     unless [Options].Status asks for it.
//   - Numbers are exact, beyond 2^53 and beyond 64 bits too.
//
// Of a kind that no schema knows, and of a field that its schema does not know,
// the structure is compared: maps by key, lists as a whole, plain values exactly.
// That is so for what is below the field, and nothing beside it suffers.
//
// # Paths
//
// [Difference].Path is a JSON pointer (RFC 6901) that leads to the value in the
// member's object, or in the hub's for what only that has; the whole object is "".
// KeyPath names items by their keys and stays the same when a list is reordered.
// No entry stands twice, and entries are sorted.
//
// # What differs, and what is owned as a whole
//
// Atomic lists, and some maps, have one owner: an apply replaces all of such a list,
// though only a field of one item differs. A difference says both. Path leads to what
// differs, such as /spec/ingress/0/ports/0/endPort; AtomicPath to what is owned as a
// whole, /spec/ingress, and is left out where Path is in no such list or map or leads
// to it itself. Of nested ones it is the outermost.
//
// Which item of an atomic list is which one on the other side is found by comparing
// them: those that are the same are put side by side, so that an item in front of the
// others is one entry, and then
//
//   - an item between the same neighbours is compared field by field where both sides
//     have as many there, by its place;
//   - any other item is [Missing], by its index on the hub, or [Unmanaged];
//   - the list is one entry, [Changed], where only the order is another one (with the
//     note "reordered"), where one side is empty, where no item has a counterpart, and
//     where more than ten entries would be about it.
//
// # Secrets
//
// The values of a Secret, its annotations and what kubectl remembers of it are
// never shown, neither are values that a schema or [Options].Secrets names, in
// reports, warnings, errors or baselines. With [Options].SecretKey a keyed tag
// reports whether two of them are equal. This package does not search for values
// that look secret: what else is to be hidden has to be named.
//
// # Limits
//
// A member is not trusted. What differs in an object and has more than [MaxDepth]
// levels or [MaxNodes] values is refused with an error that names the object, the
// place and the limit; everything else is compared in time and memory that grow as
// it does, whatever is in it. A report has at most 100 differences and 256 bytes of
// each value unless the options say otherwise, and says how many there are and what
// was cut.
//
// # How it is built
//
// A comparison is these steps, in this order and each in a file:
//
//  1. options.go checks the options and prepares ignore rules.
//  2. compile.go makes a [Manifest] of the hub's object, on internal/compare.
//  3. baseline.go finds what differs in a member's object, on internal/compare, and
//     leaves out what a [Baseline] explains.
//  4. stale.go adds what was applied and the hub has dropped.
//  5. ignore.go leaves out what rules ignore, and owner.go asks managedFields, on
//     internal/ownership, whose a value is.
//  6. redact.go hides secrets.
//  7. report.go makes a [Report] of the rest, sorted and each difference once.
//
// compare.go and dryrun.go call them in turn, and drift.go has their nouns; cluster.go has the
// reports of an engine. No file uses
// one that uses it. Beside them, strip.go applies ignore rules to what is applied, and
// fight.go counts what comes back.
//
// # What it cannot know
//
// Neither what a webhook added before the first baseline was taken, nor how one version
// of a kind is converted to another. Read the member's object in the version of the
// hub's; another version is compared with a warning.
package drift
