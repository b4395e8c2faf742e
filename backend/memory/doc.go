// Package memory implements every interface of package backend in memory, in the smallest form: a
// [Store], a [Fleet] of simulated clusters, which a test can slow down and cut off, a [Cluster]
// that behaves like a Kubernetes API server, and a [Source] of objects. Read it before you write a
// backend of your own:
//
//   - store.go has the [Store], a watcher and batcher,
//   - inventory.go the [Fleet], which lists and dials clusters,
//   - conn.go the connection with its simulated faults,
//   - cluster.go the [Cluster], with ownership.go for the owners of fields, and deployments.go
//     for a controller of Deployments,
//   - source.go the [Source].
//
// Small hosts, tests and the simulations of a hundred thousand clusters run on it. The package
// reads no clock but the host's, draws no random numbers and starts no goroutine: the same calls
// in the same order have the same result, down to uids and revisions. Nothing is written to disk; a
// program can do that by [Cluster.State] and [Cluster.Restore].
//
// All types may be used concurrently. Package backendtest proves that they keep the contracts of
// package backend.
package memory
