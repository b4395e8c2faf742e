// Package delivery carries out applications: it makes the placement and the run of an Application
// that package oam reads, returns the status of the Application, and carries out KubeVela's
// commands on workflows.
//
//	a := &delivery.Applications{Engine: engine, Store: store, Source: source, Inventory: inventory}
//	out, err := a.Reconcile(ctx, application, nil) // begins a workflow where one is due
//	text, err := a.Do(ctx, delivery.Request{Namespace: "demo", Name: "demo", Verb: delivery.Resume, By: alice})
//
// A workflow begins when the annotation app.oam.dev/publishVersion of its application changes,
// and supersedes the last workflow. Without the annotation it begins when the application
// changes, or the clusters that its policies pick. It delivers the referenced objects in their
// state at that moment. If one of them, a policy or the workflow is missing, nothing is
// delivered.
//
// The last release of an application is one record beside those of the engine,
// application/NAMESPACE/NAME, which is written before its run and is sufficient to make it,
// because policies and workflows may change in between. All decisions depend on that record and
// on the engine's records. So a process may end at any moment, and several may work on one store:
// a writer that is too late gets an error that matches [backend.ErrConflict] and reads again.
//
// The neighbours: package oam reads the documents and translates operations; package hub serves
// applications as objects of a hub cluster, with the same queue as its other kinds.
package delivery
