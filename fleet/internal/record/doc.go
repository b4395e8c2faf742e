// Package record defines the stored records of an engine: the keys of all records, their JSON, the
// pages of data that is too large for one record, and the commit that makes a change of several
// records atomic. docs/records.md lists them in a table.
//
// It contains no engine: its functions receive the store, and decide nothing about runs or
// placements. Every record begins with a format number, [Format]. A record with a newer format is
// refused with a versioned.FormatError and never overwritten. The store verifies the integrity of
// records; data under its own digest is verified by its users.
//
// A page has a key that one writer uses once. It becomes valid when a record names it. Pages hold a
// journal ([Journal]), the clusters in flight and the long lists of a run ([InFlightPages]), and
// the bindings of a placement ([StoreBindings]). The pages of a commit that was refused or
// interrupted are garbage, see [Commit.Abandon] and the collection of package fleet.
package record
