// Package remotefleet lets processes share the clusters of a fleet in memory: one serves it on a
// listener, the engines of others dial it. It is for tests of several engine processes, and for
// measuring them.
//
//	go remotefleet.Serve(listener, memory.NewFleet(…), nil)       // in the process that has the clusters
//	clusters := remotefleet.Dial("127.0.0.1:40001")               // in one that has an engine: its Inventory and its Dialer
//
// A call is an HTTP request with JSON. Errors, preconditions and fences are the same as for the
// fleet in memory.
package remotefleet
