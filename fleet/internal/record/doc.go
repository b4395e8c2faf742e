// Package record is what an engine stores: the keys of all records, their JSON, the pages that are too large for one
// record, and the commit that makes a change of several of them count at once. docs/records.md has the table.
//
// There is no engine in it: a function is given the store, and decides nothing about runs or placements. Everything
// begins with a format number, [Format]; a newer one is refused with a versioned.FormatError and never overwritten. That
// bytes are those which were written is the store's to check; what is under its own digest is checked where it is used.
//
// A page has a key that one writer uses once, and counts from when a record names it: a journal ([Journal]), the
// clusters in flight and the long lists of a run ([InFlightPages]), the bindings of a placement ([StoreBindings]). Of a
// commit that was refused or cut short it is garbage, see [Commit.Abandon] and the collection of package fleet.
package record
