// Package manifests answers WHAT a hub cluster must have before package hub can serve it: the
// CustomResourceDefinitions of the Fleet API, the admission policies that write down who approved what
// and who started a run, and the roles of those who work with them.
//
// Everything is plain YAML below this directory, for those who install with kubectl:
//
//	kubectl apply --server-side -f hub/manifests/crds -f hub/manifests/policies
//
// The definitions in crds are those of [compat.Default]. For a hub with the compatibility setting of KubeFleet 0.18 apply
// crds/v0.18 after them, which has those that differ. [Install] does so with [Options].Compatibility, and writes into runs
// without spec.state the state that they had.
//
// The roles of people and of the hub are in rbac; optional/hub-secrets.yaml lets the hub read Secrets, which it
// needs where placements carry them. No role is part of view, edit or admin unless [Options] or a label say so.
//
// optional/works.yaml is the definition of KubeFleet's Work, of which a hub has no objects and takes none, so that tools which
// read Works find none. Where there is a definition of Work already, [Install] leaves it as it is.
//
// The same holds for ManagedCluster of cluster.open-cluster-management.io, which [Install] defines with Options.Applications.
//
// The directory applications has the definitions and the roles of the application workflow, for a hub that serves it:
//
//	kubectl apply --server-side -R -f hub/manifests/applications -f hub/manifests/optional/managedclusters.yaml
//
// [Install] does the same and waits until the API server serves it. make generate generates the definitions
// from the Go types of api/placement/v1beta1 and api/cluster/v1beta1. The versions v1 and v1beta1 have the same schema,
// v1beta1 is stored, and nothing is converted.
//
// # Who approved
//
// A person approves a request by setting the condition Approved in its status, and rejects it by the
// condition Rejected, or by Approved with the status False and the reason Rejected. Who did is not what
// the client says: a MutatingAdmissionPolicy writes status.approvedBy, status.rejectedBy and
// status.decisions from the identity that the API server authenticated, and puts back whatever a client
// wrote there. Who takes an approval back before the hub has taken it in has not approved; one that two
// people give in the very same words and at the same stated time is only the first's. What stands in an
// object that is older than the policies has no author. A condition whose observedGeneration is another one than the
// request's is no answer and is not written down. A ValidatingAdmissionPolicy demands the RBAC verb approve on the request,
// whatever generation the answer is of. Both stamp and protect the annotations [CreatedBy], [CreatedByUID] and
// [RollbackBy] of runs in the same way.
//
// [Inspect] compares the policies and their bindings, all of them, with what this package installs. A hub counts no
// answer where one is missing, differs, or may not be read; package hub says how it says that from a server on which
// they were never installed. [Install] puts policies that were changed right. So does
//
//	kubectl replace --force -f hub/manifests/policies
//
// while kubectl apply keeps what others added, such as a condition under which a policy does nothing.
//
// A server that has no MutatingAdmissionPolicy of version v1, which is one before 1.36, gets the
// ValidatingAdmissionPolicy alone: it takes approvals without an identity and refuses those with
// another one, so that there what is written is true or missing.
//
// # As in KubeFleet
//
// Defaults, limits, enumerations, messages, short names and columns are KubeFleet's, one by one:
// testdata/kubefleet.yaml has them by field, with those that differ and why, and a test holds the definitions
// to it; testdata/wire has objects as KubeFleet's own clients write them, with what they are told. The words are those of
// KubeFleet's rules, as they are since July 2026 and as the definitions for KubeFleet 0.18 have them, and those of its webhooks for what these alone refuse. The definitions are
// stricter where KubeFleet takes what fails later, and where a list must be bounded so that rules may look
// into it: at most 100 preferences and spread constraints and 20 requirements of a term. They are not in one
// place: a MemberCluster needs no identity. A run that names no placement or no strategy is taken, as there, and not begun.
//
// # What a schema cannot say
//
// A ValidatingAdmissionPolicy refuses a remove with a value in overrides and their snapshots, because the
// rules of a schema cannot look into a value that may be anything. Every other rule is in the definitions.
//
// Rules and policies see one object. What KubeFleet's webhooks refuse because of another one, or of what the hub
// serves, is taken here and told where it matters: a selector of a kind that is not served by the condition
// Scheduled of the placement, an eviction of what cannot be evicted by its condition Valid, a budget that cannot be
// reckoned for PickAll by the condition Executed. There may be more than 100 overrides. Nothing is filled in
// but the defaults of the definitions, where KubeFleet's webhook writes a policy, a strategy and their settings into a
// ClusterResourcePlacement that has none: the object stays as its author wrote it, and what is absent means the same.
//
// The neighbours: package hub reads what is declared by these kinds; package approval has the rules of
// decisions.
package manifests
