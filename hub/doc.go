// Package hub serves the Fleet API on a hub cluster. It drives an engine of package fleet by the
// objects that people declare there, and it writes the results back as objects.
//
// A ClusterResourcePlacement becomes a [fleet.Placement], and a ClusterStagedUpdateRun becomes a
// run. Snapshots, decisions and approval requests appear as objects of their own. The approver of a
// request is the user that the API server authenticated. The namespaced kinds, such as
// ResourcePlacement and StagedUpdateRun, do the same with objects of their namespace only. Package
// hub/manifests has the CRDs, the admission policies and the roles that a hub needs.
//
// The engine's store holds all state. The status of an object only shows this state: the hub writes
// it again if it is lost. Only three things are stored in the metadata of the objects: a finalizer,
// so that the placed objects are removed before their placement is deleted; an annotation that ties
// a run object to its run of the engine; and the stamps of the admission policies.
//
// Several hubs may run on one cluster: one leads, by a lease, and the others wait. If a paused hub
// wakes up late, the store and the members refuse its writes, see package fleet. If it still writes
// a status, the API server refuses the write because of its resourceVersion, or the status equals
// the status that the next leader writes.
//
// # Compatibility
//
// KubeFleet changed after its tutorial of July 2025 was written. If versions behave differently, a
// hub behaves like the version in Config.Compatibility: [compat.July2025], the default, or
// [compat.KubeFleet018]. docs/hub.md has the table of the differences. The
// CustomResourceDefinitions of the hub cluster and the Lease of the leading hub have this setting
// in the label slipway.dev/compatibility. A hub refuses to start, and to lead, if the definitions
// are for the other setting.
//
// A run without spec.state has the default state of the setting. Therefore manifests.Install writes
// this state into such runs before it replaces the definitions by the ones of the other setting.
// The record of a run keeps the meaning that the run began with. So a change of the setting starts
// no waiting run and stops no run in progress.
//
// # Snapshots
//
// With strategy RollingUpdate the hub takes a snapshot whenever the selected content changes, and
// rolls it out. With strategy External it takes the snapshot and does not roll it out. With the
// setting of KubeFleet 0.18, as in KubeFleet since February 2026, a change alone takes no snapshot:
// an External placement has none before its first run, and one snapshot has all changes between two
// runs.
//
// A run without spec.resourceSnapshotIndex places the content that is selected when the run begins:
// it takes a snapshot unless the latest one has the same content. A run with the state Initialize
// does so, too. A run with an index takes no snapshot, and a refused run takes none either. The hub
// saves the content of a run and records it with the run before it changes a member. After that the
// content of the run stays the same, even if the selected objects change or another hub continues
// the run. If a hub dies after it saved a snapshot and before it recorded the run, the next hub
// places that snapshot, or a new one if the selection has changed since.
//
// A status describes the content that runs have placed. Only the condition Scheduled describes the
// current selection: it reports why no snapshot of that selection can be taken.
//
// # Rights of authors
//
// The hub acts on members with its own rights, so the kind of the declaring object decides which
// rights its author gains. An author of ClusterResourcePlacements, ClusterResourceEnvelopes or
// ClusterResourceOverrides acts with all the rights of the hub on the members, within
// Config.Engine.Rules. That includes the ResourceEnvelopes that a ClusterResourcePlacement selects:
// as in KubeFleet, the authors of these envelopes may bring roles and quotas to their namespaces on
// the members. If the author of a placement does not trust these envelopes, the placement should
// select the Namespace with the selectionScope NamespaceOnly or NamespaceWithResourceSelectors. A
// host forbids such envelopes altogether by the kind ResourceEnvelope in Rules.Never.
//
// Config.Engine.NamespaceRules apply as well to the objects that authors of a namespace bring by a
// ResourcePlacement, also in a ResourceEnvelope, and to the changes that a ResourceOverride makes.
// They are [snapshot.NamespaceRules] unless the host has others: the kinds of Kubernetes that the
// built-in role edit may create, and custom kinds. The flags --namespace-deny, --namespace-allow
// and --namespace-only of slipway hub change them. A host derives other rules from the defaults:
//
//	rules := snapshot.NamespaceRules()
//	rules.Never = append(rules.Never, snapshot.GroupKind{Kind: "Secret"}, snapshot.GroupKind{Group: "kustomize.toolkit.fluxcd.io"})
//	cfg.Engine.NamespaceRules = &rules
//
// An object that a ResourcePlacement selects exists on the hub, so its author was admitted there.
// If an object of a custom kind is in an envelope instead, nothing shows that its author would be
// admitted. Controllers on members may act on such objects with more rights than the authors have.
// In this case the host should name the kinds in Never, or the allowed kinds in Only. A refused
// object is never left out silently: the condition Scheduled of every placement that would bring it
// is False and names the object, the field and the remedy. So an envelope that is refused or
// malformed blocks the placements of its namespace until it is corrected. The hub notices the
// correction within half a minute, and members keep their objects until then.
//
// # Reading on the hub
//
// A placement that selects a Namespace places every object in it, so the hub must be able to read
// every kind that may be there. hub/manifests lists the kinds of Kubernetes except Secrets. A kind
// that the hub may not read is an error of the placement that names it: grant it, by a ClusterRole
// with the label slipway.dev/aggregate-to-hub-source=true, or exclude it by Rules.Never. Grant a
// kind before it is defined on the hub, because placements of whole namespaces stop until it is
// granted. The hub does not read a kind in Never, and does not place it with a selected Namespace.
// A selector or an envelope that names such a kind is an error. Earlier snapshots that contain the
// kind are no longer rolled out. The next snapshot does not contain it, so its rollout removes the
// objects of the kind from the members.
//
// # Approvals
//
// An approval has the identity that the API server authenticated, provided that the admission
// policies of package hub/manifests are in force: all of them, with their bindings, exactly as they
// were installed. The hub compares the policies before it accepts an answer, and when a watch
// reports a change. If it may not watch them, it reads them every 10 seconds. If a policy is
// missing or was changed, the hub accepts no answer: the condition ApprovalAccepted of the request
// is False with the reason ApprovalRequestUnvouched, and names the fault. Once the policies are
// installed again, the hub makes the request again, and it must be answered again. Each request has
// the version of the policies at its creation in the annotation slipway.dev/policies, so the hub
// also notices policies that changed while no hub ran. A hub makes no request in the first 3
// seconds after policies were installed.
//
// If the observedGeneration of a condition is of another generation, the condition is no answer,
// and the request says so. A condition without observedGeneration is an answer, because the spec of
// a request never changes. The hub deletes a request if its run is deleted, if the attempt has
// expired, if the policies were changed, or if the hub did not create it. If such a request has an
// answer, the Event AnswerNotCounted of the request and of its run names the answer and its author.
//
// If policies were never installed, any user with the right to write the status of a request can
// answer it, at gates whose policy requires no particular identity. On a server before 1.36, which
// has only the validating policies, the user needs the verb approve. The record hub/policies of the
// store says that policies were in force once, so deleting all policies does not lead back to that
// state. Deleting the record does: in a store on the Kubernetes API, it is the Secret in the hub's
// namespace with hub/policies in the annotation slipway.dev/key.
//
// # Applications
//
// With Config.Applications the hub serves Application, Workflow and Policy objects with the API of
// KubeVela and ACK One, by package formats/oam/delivery. kubectl applies them, and the columns of
// an Application show the progress of its workflow. Policies pick members by the names and labels
// of their MemberClusters. A user who may write an Application can thereby bring objects of its
// namespace to members, with the rights of the hub. A deleted Application disappears once its
// delivered objects are gone from the members. Objects of the group core.oam.dev are never placed.
// Each member is shown as a ManagedCluster of cluster.open-cluster-management.io, unless another
// author has defined that kind. To suspend, resume, terminate, restart or roll back a workflow, use
// delivery.Applications.Do or the verbs of the command slipway. Both write to the hub's store, and
// need the rights to it. The status of the object does not control it.
//
// # Names of requests
//
// The object of a request of run x is x-before-<stage> before a stage and x-<stage> after it, and
// the engine uses these names in events and explanations. With the setting of KubeFleet 0.18 it is
// x-after-<stage> after the stage, as in KubeFleet since December 2025. A run keeps the names that
// it began with. Two runs may need the same name: run x-before after stage prod and run x before it
// both have x-before-prod. The second request is then not made until the other run is deleted, and
// the status of its run says so.
//
// # Runs without a record
//
// If the status of a run has the condition Succeeded, True or False, and the store has no record of
// it, the hub does not begin the run, because it has ended before. The Event RunNotBegun of the run
// says so.
//
// # Rollback
//
// If the strategy of a run has spec.rollback, a separate run rolls it back: every cluster that the
// run changed returns to its own previous snapshot and overrides, the last stage first. The
// rollback starts by itself for the causes that the strategy names, and if spec.state of the run is
// set to Rollback. docs/hub.md describes the causes, the names and the fields of rollbacks.
//
// The engine plans the rollback, and the hub makes an object that shows it beside the original run.
// If the object disappears without its finalizer, the hub makes it again, and it stays when the
// original run is deleted. But if a user deletes the object during the rollback, the rollback stops
// at that point. The annotation slipway.dev/seal identifies the hub's own object. While the
// annotation is correct, the hub restores the label slipway.dev/rollback-of if another client
// removes it. The hub does not treat an object without the annotation as its own: it leaves such an
// object of the same name unchanged, refuses it, and continues the rollback without an object until
// the other one is deleted. The condition RollbackStarted of the original run says so.
//
// # Evictions
//
// A ClusterResourcePlacementEviction removes the objects of a placement from a cluster, within the
// ClusterResourcePlacementDisruptionBudget of the placement's name. The hub answers it once, in the
// conditions Valid and Executed with KubeFleet's reasons and messages, and the answer is final.
// Executed means that the removal is recorded: a run of the engine without a run object cleans only
// that cluster, and the cluster is not picked until that run has ended. The hub writes a
// ClusterResourceBinding for each cluster of a placement without a namespace, because kubectl fleet
// draincluster finds the evictions to make by these bindings. Config.NoBindings turns them off.
// Package hubapi's Drain, Cordon and Uncordon do the same as kubectl fleet.
//
// # Reasons of Slipway's own
//
// Conditions have KubeFleet's types and reasons, listed in docs/conditions.md. The following
// reasons are Slipway's own, for states that KubeFleet does not have or does not show: of runs
// UpdateRunInitializing, UpdateRunAborted, UpdateRunSuperseded, UpdateRunForgotten, and
// UpdateRunRollbackRequested, UpdateRunRollbackStarted and UpdateRunRollbackRefused; of tasks
// StageTaskApprovalRequestNameTaken, StageTaskApprovalRequestRejected, StageTaskSkipped and
// AfterStageTaskWaitTimeNotElapsed; of the clusters of a run ClusterUpdatingSkipped,
// ClusterUpdatingApplying, ClusterUpdatingNotHealthyYet, ClusterUpdatingRetrying and
// ClusterUpdatingPending; of requests ApprovalRequestRejected, ApprovalRequestApprovalRefused,
// ApprovalRequestUnvouched and Rejected; of objects WrongScope; of members
// MemberClusterUnreachable, MemberClusterNotReachedYet and MemberClusterHealthy.
//
// # Differences from KubeFleet
//
// docs/differences.md lists the differences in behaviour, docs/conditions.md the differences in
// conditions and reasons, and package hub/manifests the differences in defaults, limits and
// messages.
package hub
