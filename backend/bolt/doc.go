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
// A file is in use by one process at a time; others get [ErrInUse]. It can be opened read-only by several
// while none has it open for writing.
//
// A damaged file is refused before any of it is used: Open reads all of it and checks every page against the
// invariants of bbolt, every record against its checksum, and all of them together against a digest that each
// commit carries. [ErrDamaged] says what is wrong; a file of a newer version is [ErrNewer]. Nothing in a file
// makes the process panic. Truncation of an open file by another process is an error too, but calls that meet
// it at the same time may not return.
//
// # Which files are taken
//
// Write access to the file is control over the store, so Open takes only a
// regular file that belongs to the process's user and that no other user may write
// to. A symbolic link at the end of the path, a FIFO, a device, a file of another
// user and one that its group or others may write to are [ErrUnsafe]. Directories on
// the path may be symbolic links. Permissions of others to read are taken away when
// the file is opened for writing. Windows has no such users and permissions: there
// its access control lists have to do this.
//
// A volume of Kubernetes with an fsGroup makes every file on it writable for a
// group each time that it is mounted: give it fsGroupChangePolicy OnRootMismatch.
//
// A new file, and what a compaction writes, is made beside path under a name that
// cannot be guessed, never in a file that is there, and gets its own name when it is
// whole and synced. A crash may leave one (path, 26 letters and digits, .tmp): the
// next Open for writing removes those that are no longer in use. A directory that
// other users may write to can lose the file to them; its protection is the host's.
//
// A store's file is never empty. An empty one, or one that was cut short, is
// damaged and not a new store: put a backup in its place, or remove it.
//
// # Failures
//
// When the disk is full the writes of a commit fail; the file is checked and opened again, and the store goes
// on with what it had. After any other failure of a commit, above all a failed sync, the state of the disk is
// unknown: the store answers every later call with [ErrBroken] until it is closed and opened again.
//
// # The file
//
// The bucket "records" holds under each key the first 16 bytes of a SHA-256 over
// key, revision and value, the revision as a number of 8 bytes, and the value.
// The bucket "slipway" holds the version of this layout, the count of all writes
// ever made, the number of records and the sum of their checksums.
package bolt
