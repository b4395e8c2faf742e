// Package bolt is a [backend.Store] in one file, for a single process whose state must survive
// restarts. The file is a [go.etcd.io/bbolt] database, synced before a write is acknowledged.
//
// # Guarantees
//
// A write that returned without an error is on the disk: it survives a killed process and a loss
// of power, unless the disk loses data after confirming a sync. Reads see only what is synced.
// Writes that arrive at the same time share a commit, so that many concurrent runs need few syncs;
// the writes of one [Store.WriteAll] share a commit, too.
//
// One process at a time may use a file; others get [ErrInUse]. Several processes may open it
// read-only while none has it open for writing.
//
// A damaged file is refused before any of it is used: Open reads the whole file and checks every
// page against the invariants of bbolt, every record against its checksum, and all records
// against a digest that each commit stores. [ErrDamaged] describes the damage; a file of a newer
// version is [ErrNewer]. No content of a file makes the process panic. If another process truncates
// an open file, later calls return an error, but calls that run at that moment may not return.
//
// # Accepted files
//
// Write access to the file is control over the store, so Open accepts only a regular file that
// belongs to the process's user and that no other user may write to. A symbolic link at the end
// of the path, a FIFO, a device, a file of another user and a file that its group or others may
// write to are [ErrUnsafe]. Directories on the path may be symbolic links. Opening a file for
// writing removes the permissions of others to read it. Windows has no such users and
// permissions: there the administrator must set access control lists.
//
// If a volume of Kubernetes has an fsGroup, each mount makes every file on it writable for a
// group: set fsGroupChangePolicy OnRootMismatch.
//
// A new file and the result of a compaction are first written beside path under a temporary name
// that cannot be guessed, never into an existing file, and are renamed to path when they are
// complete and synced. A crash may leave a temporary file (path, 26 letters and digits, .tmp); the
// next Open for writing removes temporary files that are not in use. The host must protect the
// directory: other users who may write to it can remove the store's file.
//
// A store's file is never empty. An empty or truncated file is damaged and not a new store:
// replace it by a backup, or remove it.
//
// # Failures
//
// When the disk is full the writes of a commit fail; the file is checked and opened again, and
// the store continues with the last committed state. After any other failure of a commit, above
// all a failed sync, the state of the disk is unknown: every later call fails with [ErrBroken]
// until the store is closed and opened again.
//
// # The file
//
// The bucket "records" contains, under each key, the first 16 bytes of a SHA-256 over key,
// revision and value, then the revision as a number of 8 bytes, and the value. The bucket
// "slipway" contains the version of this layout, the count of all writes ever made, the number of
// records and the sum of their checksums.
package bolt
