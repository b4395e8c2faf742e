// Package remotefleet lets processes share the clusters of a fleet in memory: one serves it on a listener, the engines of others
// dial it. It is for tests of several engine processes, and for measuring them.
//
//	go remotefleet.Serve(listener, memory.NewFleet(…), nil)       // in the process that has the clusters
//	clusters := remotefleet.Dial("127.0.0.1:40001")               // in one that has an engine: its Inventory and its Dialer
//
// A call is a request of HTTP with JSON. The kinds of errors, preconditions and fences are those of the fleet in memory.
package remotefleet
