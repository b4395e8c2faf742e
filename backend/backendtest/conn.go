package backendtest

import (
	"context"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/backend"
)

// TestConn proves a connection, case by case. See [CheckConn].
func TestConn(t *testing.T, open func(t *testing.T) backend.Conn) {
	t.Helper()
	testAll(t, ConnCases(), open)
}

// CheckConn runs all [ConnCases] and returns all violations, nil if there are none. open returns
// a connection for each case. All connections may lead to one cluster, because each case uses its
// own objects: ConfigMaps and a Deployment in the namespace default whose names begin with
// slipway-test-. They are deleted before and after. No controller needs to run. For a
// [backend.ConnFencer] that checks fences, the cases also use ledgers: ConfigMaps with names of the
// same form in the namespace slipway-system. They do not delete that namespace.
func CheckConn(ctx context.Context, open func() (backend.Conn, error)) error {
	return checkAll(ctx, ConnCases(), open)
}

// ConnCases returns the cases of a connection. The cases about watching call [backend.WatchConn];
// the cases about fences check the promise of [backend.FencingOf].
func ConnCases() []ConnCase {
	return slices.Concat(applyCases(), ownershipCases(), deleteCases(), fenceCases(), connCases())
}

func applyCases() []ConnCase {
	return []ConnCase{
		{"get-missing", "Get returns the object that id names, or ErrNotFound", withMap("get-missing", getMissingObject)},
		{"apply-create", "Apply returns the object as the member now holds it", withMap("apply-create", applyCreate)},
		{"apply-brief", "a brief Apply returns the object's ID, its uid and its resourceVersion", withMap("apply-brief", applyBrief)},
		{"apply-absent", "Absent demands that the object does not exist", withMap("apply-absent", applyAbsent)},
		{"apply-uid", "UID demands that the object exists with exactly this uid", withMap("apply-uid", applyUID)},
		{"apply-version", "ResourceVersion demands that the object exists with exactly this one", withMap("apply-version", applyVersion)},
		{"apply-missing", "a precondition never creates an object that it demands to exist", withMap("apply-missing", applyMissing)},
		{"apply-unchanged", "an apply that changes nothing keeps the resourceVersion", withMap("apply-unchanged", applyUnchanged)},
		{"apply-private", "an object passed in is not changed by the Conn", withMap("apply-private", applyPrivate)},
		{"get-private", "an object returned is the caller's", withMap("get-private", getPrivate)},
		{"apply-namespace", "a namespace that does not exist is ErrNotFound", applyNamespace},
		{"apply-invalid", "an object the member refuses is ErrPermanent", applyInvalid},
		{"generation", "the generation rises with the spec and not with labels", generation},
		{"dry-run", "DryRun returns what Apply would return, and writes nothing", withMap("dry-run", dryRun)},
		{"apply-race", "of several who apply at one resourceVersion one succeeds", withMap("apply-race", applyRace)},
	}
}

func ownershipCases() []ConnCase {
	return []ConnCase{
		{"merge", "fields of other managers stay", withMap("merge", mergeManagers)},
		{"removed", "fields that Manager applied before and obj no longer has go", withMap("removed", removedFields)},
		{"shared", "a field that another manager applied too stays", withMap("shared", sharedFields)},
		{"force", "Apply makes the object's fields those of obj, forcing ownership of them", withMap("force", forcedFields)},
		{"refuse-conflicts", "with RefuseConflicts an apply that would change a field of another manager changes nothing", withMap("refuse-conflicts", refusedConflicts)},
	}
}

func deleteCases() []ConnCase {
	return []ConnCase{
		{"delete", "Delete removes the object", withMap("delete", deleteObject)},
		{"delete-missing", "an object that does not exist is ErrNotFound", withMap("delete-missing", deleteMissingObject)},
		{"delete-stale", "a precondition that does not hold is ErrConflict", withMap("delete-stale", deleteStaleObject)},
		{"release", "Release keeps the object and its values, and takes away the Marks", withMap("release", releaseObject)},
		{"release-owner", "Release takes away Manager's ownership", withMap("release-owner", releaseOwnership)},
		{"release-stale", "a precondition that does not hold is ErrConflict", withMap("release-stale", releaseStale)},
	}
}

func connCases() []ConnCase {
	return []ConnCase{
		{"context", "methods honour ctx", withMap("context", connContext)},
		{"watch", "Watch yields once at its beginning and then after every change of an object in ids", withMap("watch", watchObject)},
		{"watch-end", "Watch ends with ctx, yielding ctx's error", withMap("watch-end", watchObjectEnd)},
		{"list", "List yields all objects in a namespace, with their metadata", withMap("list", listNamespace)},
		{"close", "Close ends the connection", func(_ context.Context, c backend.Conn) error { return c.Close() }},
	}
}
