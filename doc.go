// Package slipway has no code of its own. Slipway rolls changes out across fleets of Kubernetes
// clusters, stage by stage.
//
// Begin with package fleet for an engine that runs in your program, with package stages for the
// strategies, plans and events, and with package stages/step for a loop of your own. Package
// backend has the interfaces of stores, clusters and updaters, and backend/memory has all of them
// in memory, for tests. The command is in cmd/slipway.
package slipway
