// Package kube is the overview of the backends that are Kubernetes API servers; it has no code.
//
//   - [github.com/slipway-dev/slipway/backend/kube/store] keeps the state of the engine as
//     Secrets on a hub;
//   - [github.com/slipway-dev/slipway/backend/kube/inventory] lists the clusters that are
//     registered on a hub;
//   - [github.com/slipway-dev/slipway/backend/kube/source] reads the objects that placements
//     select on a hub;
//   - [github.com/slipway-dev/slipway/backend/kube/member] connects to the member clusters.
//
// A hub is trusted. A member is not: its answers are bounded before they are decoded and never
// quoted in an error. All names that these packages write on the API server of a hub or a member
// begin with slipway.dev/ or are in the namespace slipway-system.
//
// Errors have the kinds of package backend. The text of a server is shortened, and its quotes are
// removed: values of fields, and everything about a Secret beyond names. If a server answers that
// the kinds Secret, ConfigMap or Namespace do not exist, it is no API server, but for example a
// proxy whose server is starting. Such an answer is transient, and does not mean that a record, a
// ledger or an object does not exist.
package kube
