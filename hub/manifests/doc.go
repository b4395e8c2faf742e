// Package manifests contains everything that a hub cluster must have before package hub can serve
// it: the CustomResourceDefinitions of the Fleet API, the admission policies that record the
// authors of approvals and runs, and the roles of the people and of the hub.
//
// Everything is plain YAML below this directory, for installations with kubectl:
//
//	kubectl apply --server-side -f hub/manifests/crds -f hub/manifests/policies
//
// The directory crds has the definitions for [compat.Default]. For a hub with the compatibility
// setting of KubeFleet 0.18, apply crds/v0.18 after them; that directory has the definitions that
// differ. [Install] does so for [Options].Compatibility, and writes the default state of the old
// definitions into runs without spec.state.
//
// The directory rbac has the roles of people and of the hub. The file optional/hub-secrets.yaml
// lets the hub read Secrets; it needs that right if placements carry Secrets. No role is part of
// view, edit or admin unless [Options] or a label say so.
//
// The file optional/works.yaml is the definition of KubeFleet's Work. A hub neither creates nor
// reads Works: the definition exists so that tools that read Works find an empty list. If the
// server has a definition of Work already, [Install] leaves it unchanged. If Options.Applications
// is set, it also defines ManagedCluster of cluster.open-cluster-management.io, unless the server
// has that definition already.
//
// The directory applications has the definitions and the roles of the application workflow, for a
// hub that serves it:
//
//	kubectl apply --server-side -R -f hub/manifests/applications -f hub/manifests/optional/managedclusters.yaml
//
// [Install] does the same and waits until the API server serves the kinds. The command "make
// generate" generates the definitions from the Go types of api/placement/v1beta1 and
// api/cluster/v1beta1. The versions v1 and v1beta1 have the same schema, v1beta1 is stored, and no
// conversion is necessary.
//
// # Who approved
//
// A person approves a request by setting the condition Approved in its status. To reject it, the
// person sets the condition Rejected, or Approved with the status False and the reason Rejected.
// The client cannot choose the author: a MutatingAdmissionPolicy writes status.approvedBy,
// status.rejectedBy and status.decisions from the identity that the API server authenticated, and
// overwrites a client's values in these fields. An approval that its author withdraws before the
// hub has read it does not count. A second person may send the very same patch as the first: while
// the request is approved, an update that changes no condition counts as an approval by its sender.
// An answer that was given before the policies were installed has no author. A condition with the
// observedGeneration of another generation is no answer, so the policy does not record its author.
// A ValidatingAdmissionPolicy requires the RBAC verb approve on the request, for answers to any
// generation. Both kinds of policies also stamp and protect the annotations [CreatedBy],
// [CreatedByUID] and [RollbackBy] of runs.
//
// [Inspect] compares all policies and their bindings with the ones in this package. If a policy or
// a binding is missing, differs or cannot be read, a hub accepts no answer; package hub documents
// how it recognizes a server that never had the policies. [Install] repairs changed policies. So
// does
//
//	kubectl replace --force -f hub/manifests/policies
//
// while kubectl apply keeps additions of others, such as a condition that disables a policy.
//
// A server before 1.36 has no MutatingAdmissionPolicy of version v1 and gets only the
// ValidatingAdmissionPolicy. That policy accepts approvals without an identity and refuses
// approvals with a false identity, so that recorded identities are either true or missing.
//
// # As in KubeFleet
//
// Defaults, limits, enumerations, messages, short names and columns are KubeFleet's. The file
// testdata/kubefleet.yaml lists them by field, with the differences and their reasons, and a test
// compares the definitions with it. The directory testdata/wire has objects as KubeFleet's own
// clients write them, and the server's answers. The messages are the texts of KubeFleet's rules: of
// the version of July 2026, and of version 0.18 in the definitions for KubeFleet 0.18. For objects
// that only KubeFleet's webhooks refuse, they are the texts of the webhooks. The definitions are
// stricter than KubeFleet's if KubeFleet accepts an object that fails later, and if a rule needs a
// limit on the length of a list: at most 100 preferences and spread constraints, and 20
// requirements of a term. They are less strict in one place: a MemberCluster needs no identity. As
// in KubeFleet, a run without a placement or a strategy is accepted, and does not start.
//
// # Rules that no schema can express
//
// A ValidatingAdmissionPolicy refuses a remove with a value in overrides and their snapshots,
// because the rules of a schema cannot look into a value of any type. Every other rule is in the
// definitions.
//
// Rules and policies see one object. KubeFleet's webhooks also refuse objects because of other
// objects, or because a kind is not served. This package accepts such objects, and their conditions
// report the problem: Scheduled of a placement whose selector names a kind that is not served,
// Valid of an eviction with an invalid target, and Executed of an eviction if its budget cannot be
// computed for PickAll. There may be more than 100 overrides. Only the defaults of the definitions
// are filled in. KubeFleet's webhook writes a policy, a strategy and their settings into a
// ClusterResourcePlacement without them; here the object stays unchanged, and a missing field means
// the same.
//
// Related packages: package hub reads the objects of these kinds; package approval has the rules of
// decisions.
package manifests
