// Package durable keeps the simulated clusters and the source of package memory
// in a store, so that a program which plays the world around the engine can be
// killed and started again.
//
// A change is in the store before it is acknowledged. After a process ended at
// any moment, another that opens the same store finds each object as the last
// acknowledged change left it, with its owners, uid, resourceVersion and
// generation; a change that was not acknowledged happened or did not. One
// process at a time may use a store, unless their fleets are Shared; a source has
// one process. Each cluster is one record and so is the
// source: what they hold is at most 1 MiB as JSON.
package durable
