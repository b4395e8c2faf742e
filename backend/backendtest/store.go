package backendtest

import (
	"context"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/backend"
)

// TestStore proves a store, case by case. open returns an empty store that no other case uses;
// TestStore never calls it concurrently.
func TestStore(t *testing.T, open func(t *testing.T) backend.Store) {
	t.Helper()
	testAll(t, StoreCases(), open)
}

// CheckStore runs all [StoreCases] and returns all violations, nil if there are none. open
// returns an empty store for each case. A case writes at most a few megabytes.
func CheckStore(ctx context.Context, open func() (backend.Store, error)) error {
	return checkAll(ctx, StoreCases(), open)
}

// StoreCases returns the cases of a store. The cases about watching call [backend.Watch], whether
// or not the store is a [backend.Watcher]. The cases about batches call [backend.WriteAll].
func StoreCases() []StoreCase {
	return slices.Concat(writeCases(), batchCases(), listCases(), raceCases(), watchCases())
}

func writeCases() []StoreCase {
	return []StoreCase{
		{"create", "if prev is zero, Put creates the key and returns the new revision", create},
		{"create-existing", "a key that exists already is ErrConflict", createExisting},
		{"get-missing", "Get returns the record of key, or ErrNotFound", getMissing},
		{"put-current", "Put writes value if the revision of key is prev", putCurrent},
		{"put-stale", "a key that is at another revision is ErrConflict", putStale},
		{"put-deleted", "a key that is gone is ErrConflict", putDeleted},
		{"put-missing", "without a zero prev the key must exist", putMissing},
		{"delete", "Delete removes key if its revision is prev", deleteCurrent},
		{"delete-stale", "a key that is at another revision is ErrConflict", deleteStale},
		{"delete-missing", "a key that does not exist is ErrNotFound", deleteMissing},
		{"revision-reuse", "no two writes of a key have the same revision", revisionReuse},
		{"value-in", "Put does not retain value", valueIn},
		{"value-out", "the caller may keep and change Value", valueOut},
		{"value-sizes", "values are at most 1 MiB", valueSizes},
		{"keys", "keys are not empty, at most 512 bytes of lower-case letters, digits and -._/", keys},
		{"context", "a write whose ctx ends leaves the old value or the new one", contextEnded},
	}
}

func listCases() []StoreCase {
	return []StoreCase{
		{"list-prefix", "List yields the records whose key begins with prefix", listPrefix},
		{"list-order", "ascending by key", listOrder},
		{"list-break", "all methods may be called while a list goes on, and a list may be left", listBreak},
		{"list-stable", "a key that exists from the beginning of the call to its end is yielded exactly once", listStable},
		{"list-context", "after an error List yields nothing more", listContext},
	}
}

func raceCases() []StoreCase {
	return []StoreCase{
		{"race-create", "of several who create a key one succeeds", raceCreate},
		{"race-counter", "compare-and-swap loses no increment", raceCounter},
		{"race-linear", "the store is linearizable for each key", raceLinear},
		{"ambiguous", "a write that returns a transient error may or may not have happened, but nothing in between", ambiguous},
		{"ambiguous-linear", "a write that returns a transient error may or may not have happened, and no more than once", ambiguousLinear},
	}
}

func watchCases() []StoreCase {
	return []StoreCase{
		{"watch-existing", "Watch yields a change for every key under prefix that exists when it begins", watchExisting},
		{"watch-writes", "then for every later write", watchWrites},
		{"watch-deletes", "Change says that a key was deleted; then Revision is zero", watchDeletes},
		{"watch-burst", "if a key is written several times, Watch may yield only the last write", watchBurst},
		{"watch-end", "Watch ends with ctx, yielding ctx's error", watchEnd},
		{"watch-break", "a watch may be left", watchBreak},
	}
}
