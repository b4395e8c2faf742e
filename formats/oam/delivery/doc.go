// Package delivery carries out applications: it makes the placement and the run of an Application that package
// oam reads, says what has become of them as the status of the Application, and does to a workflow what the
// commands of KubeVela do.
//
//	a := &delivery.Applications{Engine: engine, Store: store, Source: source, Inventory: inventory}
//	out, err := a.Reconcile(ctx, application, nil) // begins a workflow where one is due
//	text, err := a.Do(ctx, delivery.Request{Namespace: "demo", Name: "demo", Verb: delivery.Resume, By: alice})
//
// A workflow begins when the annotation app.oam.dev/publishVersion of its application gets another value than that
// of the last one, and takes the place of that one. Without the annotation it begins when the application changes,
// or what its policies pick. What is delivered is what the referenced objects are at that moment; nothing is
// delivered where one of them, a policy or the workflow is missing.
//
// The last release of an application is one record beside those of the engine, application/NAMESPACE/NAME, which is
// written before the run that it describes and is all that is needed to make it: policies and workflows may change
// meanwhile. Everything is decided from that record and from the engine's. So a process may end at any moment, and
// several may work on one store: the writer that is not first gets an error that matches [backend.ErrConflict] and
// reads again.
//
// The neighbours: package oam reads the documents and knows what operations mean; package hub serves applications
// as objects of a hub cluster, by the queue of its other kinds.
package delivery
