// Package memory keeps everything in memory: a [Store], a [Cluster] that
// behaves like a Kubernetes API server, a [Fleet] of such clusters that can be
// slowed down and cut off, and a [Source] of objects.
//
// It answers what a backend has to do, in the smallest form: the smallest
// host, the tests and the simulations of ten thousand clusters run on it.
// Nothing here reads a clock that was not given, draws random numbers or
// starts a goroutine, and the same calls in the same order have the same
// result, down to uids and revisions.
//
// A fleet and a source can be kept in a store, and then survive their process:
// see [Fleet.Keep] and [Source.Keep].
//
// All types may be used concurrently. Package backendtest proves that they do
// what package backend asks for.
package memory
