// Package kube is the overview of the backends that are Kubernetes API servers; it has no code.
//
//   - [github.com/slipway-dev/slipway/backend/kube/store] keeps the state of the engine as Secrets on a hub;
//   - [github.com/slipway-dev/slipway/backend/kube/inventory] lists the clusters that are registered on a hub;
//   - [github.com/slipway-dev/slipway/backend/kube/source] reads what placements select on a hub;
//   - [github.com/slipway-dev/slipway/backend/kube/member] connects to the member clusters.
//
// A hub is trusted. A member is not: what it returns is bounded before it is decoded and never quoted in an
// error. What is written on the API server of a hub or a member begins with slipway.dev/ or is in the namespace
// slipway-system.
//
// Errors are those of package backend. What a server says in one is shortened, and freed of what it quotes:
// values of fields, and whatever it says of a Secret beyond names. An answer that there are no Secrets,
// ConfigMaps or Namespaces at all is not one of an API server, but of a proxy whose server is starting, for
// example: it is transient, and does not say that a record, a ledger or an object does not exist.
package kube
