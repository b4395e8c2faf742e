// Package member brings one cluster to one revision of a placement, and returns proof of the state
// of the cluster. It knows a connection to the cluster ([backend.Conn]), revisions, which a
// [Loader] supplies, and the ledger on the cluster. It knows nothing of runs, records, plans and
// the engine. The types that a host sees are in packages backend, apply, drift and health.
//
// An [Applier] is the engine's [Updater]. Update reads the placement's ledger and the objects that
// the ledger or the revision names. It refuses objects that another placement or the strategy
// forbids, writes an intent to the ledger, applies the desired objects phase by phase, deletes or
// releases the others, and closes the intent. Observe reads the same and writes nothing, except the
// ends of objects to the ledger. Compare, Preview and WatchCompared serve drift reports and
// previews of runs. Restore and Unrestored serve the repair of drift between runs.
//
// The ledger is a ConfigMap in [LedgerNamespace] that is written by compare-and-swap. It fences
// older epochs, proves the revision of the cluster, and records which objects the placement created
// and may delete, and which objects it adopted and, by default, only releases. The ledger and
// everything that members return are untrusted input. The comments of mark and ledger say which
// writes of an older leader can still land, and why they do no harm.
//
// # Files
//
// Files build on one another: the data on a member (annotations, ledger, baseline, revision), the
// access to it (conns, ledger_io), one object of an update (target, fate, comparer), the update
// itself (session, release, policy, servers, outcome, work), its steps (intent, takeover,
// definitions, apply, prune, ledger_delete), and the calls that the engine makes (update, report,
// compare, preview).
//
// # Concurrency
//
// An Applier, [Conns] and a [Limiter] may be used concurrently. If two callers, or two engines,
// update one cluster for one placement, the ledger decides which of them continues. A [Revision] is
// shared and never changed. Calls of a connection, a dialer and a prober pass through package
// guard, so that a call which hangs or panics affects its own cluster only.
//
// # Errors
//
// Errors are of the kinds of package backend: ErrFenced if a newer epoch was found, and
// ErrPermanent if an early retry does not help, for example because an object is refused, held back
// or applied by another placement. Any other error is transient. An error about one object names it
// and does not stop the others.
package member
