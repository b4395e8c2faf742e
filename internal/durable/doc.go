// Package durable keeps the simulated clusters and the source of package memory in a store, so
// that a program that simulates the engine's environment can be killed and restarted.
//
// A change is stored before it is acknowledged. After the end of a process at any moment, the
// next process that opens the store finds each object with its last acknowledged change and its
// owners, uid, resourceVersion and generation. An unacknowledged change may have happened or not.
// One process at a time may use a store, unless their fleets are Shared; a source must have one
// process. Each cluster is one record, and the source is one record; a record is at most 1 MiB of
// JSON.
package durable
