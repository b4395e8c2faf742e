// Package httpapi is the HTTP API of an engine: [NewHandler] serves it, and [Client] calls it. So a
// web page, a command and a host's own programs can read and control the same engine.
//
// A host mounts the handler on its own server, with a function that authenticates callers. Or it
// calls [Serve], which announces its address beside the file of the store, so that the command
// slipway finds it. A program that contains the engine calls it through [InProcess].
//
// # Routes
//
// Values are types of packages fleet, stages, approval and snapshot, in JSON. Durations are texts
// such as "10s" or "1h30m". The type after > is the type of the body, which may be omitted if its
// zero value suffices. Routes marked with * make changes.
//
//	GET    /v1/placements                                        List of PlacementSummary
//	GET    /v1/placements/{placement}                            PlacementSummary
//	PUT    /v1/placements/{placement}                          * > fleet.Placement
//	DELETE /v1/placements/{placement}                          * > fleet.DeleteOptions
//	GET    /v1/placements/{placement}/deletion                   fleet.Deletion
//	DELETE /v1/placements/{placement}/deletion                 * forgets the record
//	GET    /v1/placements/{placement}/snapshots                  List of snapshot.Snapshot
//	GET    /v1/placements/{placement}/snapshots/{index}/objects  List of SnapshotObject
//	GET    /v1/placements/{placement}/clusters                   List of fleet.PlacedCluster
//	GET    /v1/placements/{placement}/events                     EventsPage, or a stream of stages.Event
//	POST   /v1/placements/{placement}/preview                    > fleet.RunSpec: stages.Plan
//	POST   /v1/placements/{placement}/diff                       > DiffRequest: stream of fleet.ClusterDiff
//	POST   /v1/placements/{placement}/forecast                   > ForecastRequest: fleet.Forecast
//	POST   /v1/placements/{placement}/selection                  > SelectionRequest: fleet.Resolution
//	POST   /v1/placements/{placement}/drift                      > fleet.DriftOptions: stream of drift.ClusterReport
//	GET    /v1/strategies                                        List of DeclaredStrategy
//	GET    /v1/strategies/{strategy}                             DeclaredStrategy
//	PUT    /v1/strategies/{strategy}                           * > stages.Strategy
//	DELETE /v1/strategies/{strategy}                           *
//	GET    /v1/runs                                              List of fleet.RunSummary
//	POST   /v1/runs                                            * > fleet.RunSpec: fleet.Status
//	GET    /v1/runs/{run}                                        fleet.Status
//	DELETE /v1/runs/{run}                                      * > RunDeletion
//	GET    /v1/runs/{run}/outline                                stages.Outline
//	GET    /v1/runs/{run}/progress                               Progress
//	GET    /v1/runs/{run}/events                                 EventsPage, or a stream of stages.Event
//	GET    /v1/runs/{run}/approvals                              List of approval.Request
//	GET    /v1/runs/{run}/commands                               List of stages.Command
//	POST   /v1/runs/{run}/commands                             * > stages.Command
//	POST   /v1/runs/{run}/commands/check                       * > stages.Command
//	GET    /v1/runs/{run}/explanation                            List of stages.Awaited
//	GET    /v1/runs/{run}/clusters/{cluster}/explanation         stages.Explanation
//	POST   /v1/runs/{run}/forecast                               > fleet.Assumptions: fleet.Forecast
//	POST   /v1/runs/{run}/catch-up                             * > RunName: fleet.Status
//	GET    /v1/runs/{run}/rollback                               fleet.Rollback
//	GET    /v1/runs/{run}/rollback/preview                       stages.Plan
//	POST   /v1/runs/{run}/rollback                             * > fleet.RollbackOptions: RunName
//	GET    /v1/approvals                                         List of approval.Request
//	GET    /v1/caps                                              List of stages.Cap
//	PUT    /v1/caps/{cap}                                      * > CapLimit
//	DELETE /v1/caps/{cap}                                      *
//	GET    /v1/leases                                            List of LeaseRecord
//
// /v1/runs and /v1/approvals have the parameter placement, which restricts them to one placement.
// If the parameter plan is the digest of a run's plan, the progress and the status of the run omit
// the plan: the client has it, because a plan never changes. GET of commands has the commands that
// no engine has executed, and commands/check refuses a command as commands does, but stores
// nothing. With the parameter brief=true, the forecast of a run omits the parts that grow with the
// number of clusters. A route without a result answers 204 and no content.
//
// # Declarations
//
// PUT declares a placement or a strategy, or replaces its declaration. The header If-Match is a
// precondition: it has the version of the declaration that the request replaces. The answers to GET
// have this version in the field version, and also as ETag if they are about one declaration.
// If-None-Match: * means that there must be no declaration yet. If the precondition does not hold,
// the answer is 412 and nothing changes. With the parameter dryRun=true the request is checked and
// nothing changes. Runs and previews accept a strategy that consists of the name of a declared one.
//
// # Lists and histories
//
// A list has at most limit items; the default is 1,000 and the maximum 10,000. To get the next
// items, pass continue of the answer as a parameter; it is empty at the end. A history has at most
// limit events and begins with the event number after. more reports whether there are more events;
// the first of them has the number next.
//
// # Streams
//
// A stream is NDJSON (application/x-ndjson), with one [Record] per line. The server writes a record
// as soon as it is available, and an empty line after 10 seconds without a record. The last record
// has end or error; a stream without such a record was cut. An error before the first record is an
// ordinary answer. With the parameter follow=true a stream of events begins with the first event,
// or after the parameter cursor, whose value each record has. The stream of a run has the events of
// the run and of its rollback, and ends with them. The stream of a placement ends with the request,
// and continues after an error.
//
// # Errors
//
// An error is an object error with code, reason and message; see [Error].
//
//	400 BadRequest            a parameter or the body cannot be read
//	401 Unauthorized          the host does not know the caller
//	403 ReadOnly              the handler only serves reads
//	403 CrossOrigin           a page of another site asks for a change
//	403 Forbidden             the caller may not name another identity, or Options.Authorize refuses
//	404 NotFound              the named object does not exist: backend.ErrNotFound
//	404 NoRoute               no route has this path; 405: this path has other methods
//	409 Conflict              another writer was first, or the name is taken: backend.ErrConflict
//	409 Refused               an approval policy refuses the decision, or the command does not fit the run: approval.ErrRefused
//	409 Deleting              the placement is being deleted: errdef.ErrDeleting, backend.ErrPermanent
//	409 PlanChanged           the plan is not the one that was previewed
//	409 Rejected              another run has the placement
//	409 Fenced                backend.ErrFenced
//	412 Changed               the declaration is not the one in If-Match: errdef.ErrChanged, backend.ErrConflict
//	413 TooLarge              the body exceeds Options.MaxBody
//	415 UnsupportedMediaType  the body is not application/json
//	422 Invalid               the document has problems; the message lists them all
//	422 Permanent             backend.ErrPermanent
//	504 Timeout               the store or a cluster did not answer in time
//	500 Failed                any other error of the engine
//
// # Identities
//
// [Options].Authenticate returns the identity of the caller; a starter or an author in a body is
// overwritten. Without Authenticate the handler only reads. A page of another site cannot make
// changes: requests that browsers mark as cross-origin are refused, and every request other than
// GET must be application/json, which such a page cannot send without a preflight. There are no
// CORS headers.
//
// # Rights
//
// With [Options].Authorize a host decides what an identity may do, also what it may read. It gets a
// [Verb] and the name of a placement. Routes with runs ask about the placement of the run. A run
// that is unknown or damaged is refused like a run of a forbidden placement, unless the caller may
// do the same without a placement. Names of runs are unique in a store, so a caller with the right
// to create runs can find out that a name is taken. A run and a preview may name a strategy without
// a right to it, and a preview shows the strategy. To read in explanations the names of runs that
// use a cap, a caller needs the right to get caps. The reason of a cluster may name another
// placement, the owner of an object. Package access has a policy file that decides.
//
//	get       every GET but rollback/preview. The lists of placements, runs, approvals and leases
//	          leave out what the caller may not get.
//	preview   preview, diff, forecast, selection, drift and rollback/preview
//	declare   PUT of a placement, a strategy or a cap; DELETE of a strategy or a cap
//	create    POST /v1/runs, and catch-up
//	operate   commands other than Decide
//	approve   the command Decide; with operate, also Skip of a stage or a group
//	rollback  rollback
//	delete    DELETE of a placement, of the record of its deletion, and of a run
package httpapi
