// Package bolt is a [backend.Store] in one file, for a single process that has
// to survive its own end: a [go.etcd.io/bbolt] database, synced before a write
// is acknowledged.
//
// # What is promised
//
// A write that returned without an error is on the disk: it survives the kill of
// the process and the loss of power, as far as the disk keeps what it says that
// it has synced. Reads see only what is synced. Writes that arrive at the same
// time share a commit, so that many concurrent runs pay for few syncs; the
// writes of one [Store.WriteAll] share one too.
//
// A file is in use by one process at a time; others get [ErrInUse]. It can be
// opened read-only by several while nobody has it open for writing.
//
// A file that is damaged is refused, before anything of it is believed: Open
// reads all of it, holds every page against what bbolt relies on, every record
// against its checksum, and all of them together against a digest that each
// commit carries. [ErrDamaged] says what is wrong; a file of a newer version is
// [ErrNewer]. Nothing in a file makes the process panic. Where somebody else
// truncates a file that is open, that is an error too, but calls that meet it at
// the same time may not return.
//
// When the disk is full the writes of a commit fail; the file is checked and
// opened again, and the store goes on with what it had. After any other failure of
// a commit, a sync that failed above all, nobody knows what the disk has: the
// store answers every later call with [ErrBroken] until it is closed and opened
// again.
//
// # The file
//
// The bucket "records" holds under each key the first 16 bytes of a SHA-256 over
// key, revision and value, the revision as a number of 8 bytes, and the value.
// The bucket "slipway" holds the version of this layout, the count of all writes
// ever made, the number of records and the sum of their checksums.
package bolt
