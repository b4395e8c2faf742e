// Package member brings one cluster to one revision of a placement, and answers what the cluster proves to
// have. It knows a connection to the cluster ([backend.Conn]), revisions, which a [Loader] hands it, and the
// ledger that stands on the cluster; it knows nothing of runs, records, plans and the engine. Its nouns that a host sees
// are in packages backend, apply, drift and health.
//
// An [Applier] is the engine's [Updater]. Update reads the ledger of the placement and the objects that it or
// the revision names, refuses what another placement or the strategy forbids, writes an intent to the ledger,
// applies what is to be there phase by phase, gives up what is not, and closes the intent. Observe reads the
// same and writes nothing. Compare, Preview and WatchCompared serve drift reports and previews of runs,
// Restore and Unrestored what is put back between runs.
//
// The ledger is a ConfigMap in [LedgerNamespace] that is written by compare-and-swap. It fences older epochs,
// proves the revision of the cluster, and says what was created and may be deleted, and what was adopted and
// is only released. Both the ledger and what members return is untrusted input. The comments of mark and
// ledger say which writes of an older leader can still land, and why they do no harm.
//
// # Files
//
// Files build on one another: what stands on a member (annotations, ledger, baseline, revision), how it is
// reached (conns, cache, ledger_io), one object of an update (target, comparer), the update itself (session,
// outcome, work), its steps (holdback, intent, takeover, definitions, apply, prune, ledger_delete), and what
// is asked of it (update, report, compare, preview).
//
// # Concurrency
//
// An Applier, [Conns] and a [Limiter] may be used concurrently. Where two callers, or two engines, update one
// cluster for one placement, the ledger decides which of them goes on. A [Revision] is shared and never
// changed. Calls of a connection, a dialer and a prober go through package guard, so that a call which hangs
// or panics costs its cluster only.
//
// # Errors
//
// Errors are of the kinds of package backend: ErrFenced where a newer epoch was found, ErrPermanent where
// trying again soon does not help, such as an object that is refused, held back or applied by another
// placement; any other error is transient. An error about one object names it and does not stop the others.
package member
