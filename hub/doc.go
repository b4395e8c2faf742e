// Package hub serves the Fleet API on a hub cluster. It drives an engine of package fleet by the
// objects that people declare there, and it writes the results back as objects.
//
// A ClusterResourcePlacement becomes a [fleet.Placement], and a ClusterStagedUpdateRun becomes a
// run. Snapshots, decisions and approval requests appear as objects of their own. The approver of
// a request is the user that the API server authenticated. The namespaced twins do the same with
// objects of their namespace only. Package hub/manifests has the CRDs, the admission policies and
// the roles that a hub needs.
//
// The engine's store holds all state. A status is a projection: the hub writes it again if it is
// lost. The metadata of the objects holds three things: a finalizer, so that the placed objects
// are removed before their placement is deleted; the annotation that ties a run object to the one
// run of the engine that was made for it; and the stamps of the admission policies.
//
// Several hubs may run on one cluster: one leads, by a lease, and the others wait. If a paused hub
// wakes up late, the store and the members refuse it, see package fleet. A status that it still
// writes is refused because of its resourceVersion, or equals the status that the next leader
// writes.
//
// # Compatibility
//
// KubeFleet changed after its tutorial of July 2025 was written. Config.Compatibility is the
// version whose behaviour a hub has if versions differ: [compat.July2025], the default, or
// [compat.KubeFleet018]. docs/hub.md has the table of the differences. The definitions of the hub
// cluster have the setting as the label slipway.dev/compatibility, and so has the Lease of the hub
// that leads. A hub refuses to start, and to lead, on definitions of the other setting.
//
// manifests.Install writes into runs without spec.state the state that they had before it replaces
// the definitions of the other setting. The record of a run keeps the meaning that the run began
// with. So a hub that finds other definitions starts no waiting run and stops no run in progress.
//
// # Snapshots
//
// With strategy RollingUpdate the hub takes a snapshot whenever the selected content changes, and
// rolls it out. With strategy External it takes the snapshot and does not roll it out. With the
// setting of KubeFleet 0.18, as in KubeFleet since February 2026, a change alone takes no
// snapshot: an External placement has none before its first run, and one snapshot has all changes
// between two runs.
//
// A run without spec.resourceSnapshotIndex brings the content that is selected when the run
// begins, also with the state Initialize: it takes a snapshot unless the latest one has the same
// content. A run with an index takes no snapshot, and a refused run takes none either. The hub
// saves the content of a run and records it with the run before it reaches a member. The content
// stays the same after that, whatever changes and whichever hub continues the run. If a hub dies
// after it saved a snapshot and before it recorded the run, the next hub brings that snapshot, or
// another one if the selection has changed since. A status describes the content that runs have
// brought. Only the condition Scheduled is about the current selection: it reports why no snapshot
// of it can be taken.
//
// # Rights of authors
//
// The hub acts on members with its own rights, so the kind of the declaring object decides which
// rights its author gains. An author of ClusterResourcePlacements, ClusterResourceEnvelopes or
// ClusterResourceOverrides acts with all the rights of the hub on the members, within
// Config.Engine.Rules. That includes the ResourceEnvelopes that a ClusterResourcePlacement
// selects: as in KubeFleet, the authors of these envelopes may bring roles and quotas to their
// namespaces on the members. If the author of a placement does not vouch for them, the placement
// should select the Namespace with the selectionScope NamespaceOnly or
// NamespaceWithResourceSelectors. A host forbids such envelopes altogether by the kind
// ResourceEnvelope in Rules.Never.
//
// Config.Engine.NamespaceRules apply as well to the objects that authors of a namespace bring by a
// ResourcePlacement, also in a ResourceEnvelope, and to the changes that a ResourceOverride makes.
// They are [snapshot.NamespaceRules] unless the host has others: the kinds of Kubernetes that the
// built-in role edit may create, and custom kinds. The flags --namespace-deny, --namespace-allow
// and --namespace-only of slipway hub change them. A host makes other rules from these:
//
//	rules := snapshot.NamespaceRules()
//	rules.Never = append(rules.Never, snapshot.GroupKind{Kind: "Secret"}, snapshot.GroupKind{Group: "kustomize.toolkit.fluxcd.io"})
//	cfg.Engine.NamespaceRules = &rules
//
// An object that a ResourcePlacement selects exists on the hub, so its author was admitted there.
// Nothing shows that for a custom kind in an envelope. If members act on such objects with more
// rights than their authors have, the host should name the kinds in Never, or the allowed kinds in
// Only. A refused object is never left out silently: the condition Scheduled of every placement
// that would bring it is False and names the object, the field and the remedy. So an envelope that
// is refused or malformed blocks the placements of its namespace until it is corrected. The hub
// notices the correction within half a minute, and members keep their objects until then.
//
// # Reading on the hub
//
// A selected Namespace brings every object in it, so the hub must be able to read every kind that
// may be there. hub/manifests lists the kinds of Kubernetes except Secrets. A kind that the hub
// may not read is an error of the placement that names it: grant it, by a ClusterRole with the
// label slipway.dev/aggregate-to-hub-source=true, or exclude it by Rules.Never. Grant a kind
// before it is defined on the hub, because placements of whole namespaces stop until it is
// granted. The hub does not read a kind in Never, and a selected Namespace does not bring it. A
// selector or an envelope that names such a kind is an error. Earlier snapshots that have the kind
// are no longer rolled out, and the next snapshot, without it, removes its objects from the
// members.
//
// # Approvals
//
// An approval counts for the user that the API server authenticated if the admission policies of
// package hub/manifests are in force: all of them, with their bindings, exactly as they were
// installed. The hub compares the policies before it accepts an answer, and when a watch reports a
// change. If it may not watch them, it reads them every 10 seconds. If a policy is missing or was
// changed, no answer counts: the condition ApprovalAccepted of the request is False with the
// reason ApprovalRequestUnvouched, and names the fault. Once the policies are installed again, the
// hub makes the request again, and it must be answered again. Each request has the version of the
// policies at its creation in the annotation slipway.dev/policies, so the hub also notices
// policies that changed while no hub ran. A hub asks nothing in the first 3 seconds of new
// policies.
//
// A condition with the observedGeneration of another generation is no answer, and the request says
// so. A condition without one is an answer, because the spec of a request never changes. The hub
// deletes a request if its run is deleted, if the attempt has expired, if the policies were changed,
// or if the hub did not create it. If such a request has an answer, the Event AnswerNotCounted of
// the request and of its run names the answer and its author.
//
// If policies were never installed, the answer of any user with the right to write the status of a
// request counts, at gates that ask for no identity. A server before 1.36 has the validating
// policies alone, and there the user needs the verb approve. The record hub/policies of the store
// says that policies were in force once, so deleting all policies does not lead back to that
// state. Deleting the record does: in a store on the Kubernetes API, it is the Secret in the hub's
// namespace with hub/policies in the annotation slipway.dev/key.
//
// # Applications
//
// With Config.Applications the hub serves Application, Workflow and Policy objects with the API of
// KubeVela and ACK One, by package formats/oam/delivery. kubectl applies them, and the columns of
// an Application show the progress of its workflow. The clusters that policies pick are the
// members by the name and the labels of their MemberClusters. The right to write an Application
// includes the right to bring objects of its namespace to members with the rights of the hub. A
// deleted Application disappears once its delivered objects are gone from the members. Objects of
// the group core.oam.dev are never placed. Each member is shown as a ManagedCluster of
// cluster.open-cluster-management.io, unless another author has defined that kind. A workflow is
// suspended, resumed, terminated, restarted and rolled back through the hub's store, by
// delivery.Applications.Do and the verbs of the command slipway, which need rights to the store.
// The status of the object does not control it.
//
// # Names of requests
//
// The object of a request of run x is x-before-<stage> before a stage and x-<stage> after it, and
// the engine uses these names in events and explanations. With the setting of KubeFleet 0.18 it is
// x-after-<stage> after the stage, as in KubeFleet since December 2025. A run keeps the names that
// it began with. Two runs may need the same name: run x-before after stage prod and run x before
// it both have x-before-prod. The second request is then not made until the other run is deleted,
// and the status of its run says so.
//
// # Runs without a record
//
// If the status of a run has the condition Succeeded, True or False, and the store has no record
// of it, the hub does not begin the run, because it has ended before. The Event RunNotBegun of the
// run says so.
//
// # Rollback
//
// If the strategy of a run has spec.rollback, a separate run rolls it back: every cluster that the
// run changed returns to its own previous snapshot and overrides, the last stage first. The
// rollback starts by itself for the causes that the strategy names, and on command:
//
//	kubectl patch csur example-run --type merge -p '{"spec":{"state":"Rollback"}}'
//
// The engine plans the rollback, and the hub makes an object of it beside the original run. Its
// name is <run>-rollback or, if that run exists, <run>-rollback-2 and so on, and it has the label
// slipway.dev/rollback-of. If the name is longer than the 63 characters that the API allows, <run>
// is cut and 8 characters of a digest follow it. The object is shown, stopped, resumed, approved
// and deleted as any other run. Its spec has the placement, the inverted strategy, and a snapshot
// index if all clusters return to the same snapshot; each cluster in the status has its index in
// any case. The condition RollbackStarted of the original run and its status.rollbackRunName name
// the rollback, or say why there is none. If a Rollback is refused, because the strategy has no
// rollback or other runs followed, nothing changes. A second Rollback, in another generation of
// the spec, rolls back the clusters that have not returned yet.
//
// KubeFleet retries a cluster without end, so no cluster fails. The cause BudgetExceeded needs a
// progressDeadline in the strategy: a cluster fails after that time, and the cause counts the
// failed clusters of a stage beyond its maxFailures. GateRejected is a rejected request. Clusters
// that had nothing before are cleaned, in stages of their own, unless newClusters is Leave.
//
// The rollback object is a projection: if it disappears without its finalizer, the hub makes it
// again, and it stays when the original run is deleted. Deleting the object during the rollback
// stops the rollback at that point. The hub does not touch an object of another author that has
// the name already. It refuses that object, continues the rollback without one, and says so in the
// condition until the other object is deleted. The annotation slipway.dev/seal identifies the
// hub's own object. While the annotation is right, the hub restores the label if another client
// removes it; an object without the annotation is not the hub's. A rollback that an earlier
// version named, in a namespace of more than 42 characters or of more than 60 with the name, has
// no object, and the condition says so.
//
// The label slipway.dev/irreversible of a snapshot object marks that no rollback goes past the
// snapshot: "true" sets the mark and "false" removes it. The hub writes "true" if the mark is set
// and the label is missing. Setting the label needs the right to patch snapshots, which the roles
// of package hub/manifests do not give.
//
// # Evictions
//
// A ClusterResourcePlacementEviction removes the objects of a placement from a cluster, within the
// ClusterResourcePlacementDisruptionBudget of the placement's name. The hub answers it once, in
// the conditions Valid and Executed with KubeFleet's reasons and messages, and the answer is
// final. Executed means that the removal is recorded: a run of the engine, which has no object,
// cleans that cluster and no other, and the cluster is not picked until that run has ended. Then
// the policy decides again and may pick the cluster again, unless a taint keeps it away. If a
// member cannot be reached within Config.DeleteDeadline, its objects are left to the next run of
// the placement.
//
// kubectl fleet draincluster and uncordoncluster work unchanged: a drain adds the taint cordon-key
// to a MemberCluster, and makes an eviction for each ClusterResourceBinding that names the
// cluster. The hub writes such an object for each cluster of a placement without a namespace, with
// its state, unless Config.NoBindings is set; without them a drain finds nothing to evict. slipway
// drain, cordon and uncordon are package hubapi's Drain, Cordon and Uncordon, which do the same.
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
//   - Where defaults, limits and messages differ, package hub/manifests says. Of KubeFleet's own
//     versions see Compatibility above.
//   - A run without an index brings what is selected when it begins, always. The first run of
//     KubeFleet 0.18 after a change brings the content before it, however late it is: it only
//     begins to wait for further changes then.
//   - Overrides are part of a snapshot. Snapshots that follow each other and differ in overrides
//     alone are shown as one, by one object with one index, as in KubeFleet. A run of an index
//     brings the last of them, with the overrides of that time; KubeFleet's brings the overrides
//     of now. An override that is given another placement leaves the one before at once; in
//     KubeFleet it stays there until that is reconciled for another reason.
//   - An External placement whose applyStrategy becomes ReportDiff reports at once of the
//     clusters that a run has come to; KubeFleet waits for the next run. After a change of the
//     policy both wait for one; what a failed update left is told all the same.
//   - A ResourcePlacement, with its ResourceEnvelopes, and a ResourceOverride are about kinds
//     that the role edit may create: see above. KubeFleet's examples have roles and quotas in
//     ResourceEnvelopes; have a ClusterResourcePlacement bring them, or allow them by
//     NamespaceRules.
//   - What has a generateName and no name in an envelope is on no member, and in
//     failedPlacements as FoundGenerateName; the rest is placed, as in KubeFleet. The cluster
//     has not all of its snapshot, so it does not complete: a run waits for it, or fails by its
//     progressDeadline, and a rolling update goes on as far as maxUnavailable. Of such objects a
//     snapshot has room for 20, and one that would have nothing else is not taken; both are told
//     by Scheduled.
//   - applyStrategy.type ClientSideApply, the API's default, is carried out as server-side apply
//     with force: fields of other managers stay, and a conflict is taken over as a client-side
//     apply would. It takes what a server-side apply refuses, see apply.ClientSide, and an Event
//     of the run, ObjectsAltered, names that. The field manager is not work-api-agent, as of
//     KubeFleet's agent, and there is no annotation with what was applied last.
//   - An approval counts only for a request that this hub made, and is bound to the run's UID,
//     the plan and the attempt; the condition's lastTransitionTime is not read. One whose
//     observedGeneration is not the request's does not count, and the request says so; one
//     without any does, which KubeFleet ignores.
//   - What a placement took over goes with it, or with its cluster, as in KubeFleet, but never a
//     namespace that was there before and has objects of others in it, or of which the hub may
//     not list every kind: see package backend/kube/member. Events with the reasons Released and
//     ObjectsReleased name what stays, and why. deleteStrategy.propagationPolicy Abandon, which
//     KubeFleet has in its API and does not carry out, leaves everything when the placement is
//     deleted; DeleteCreated, which it does not have, deletes only what the placement created.
//   - Members have no agent and no namespace of their own on the hub (fleet-member-NAME in
//     KubeFleet), and there are no ClusterProfiles.
//   - Nothing on a member is owned by an AppliedWork, and there is no Work on the hub: what a
//     placement applied is in a record of the hub's on the member, see package fleet.
//   - An object that is twice in envelopes is placed once, and Duplicated in failedPlacements,
//     as in KubeFleet. Here a selected object is placed, or else that of the first envelope by
//     name and the first key in it, in KubeFleet by the order of their JSON. An object of
//     another scope is WrongScope there, and the others are placed; KubeFleet places nothing on
//     such a cluster, and says SyncWorkFailed.
//   - The objects of a snapshot are for people to read and show no value of a Secret. Content
//     with large Secrets may take fewer of these objects than in KubeFleet.
//   - revisionHistoryLimit counts beside it the snapshots that clusters have or had before the
//     last run, which a rollback brings back, and those of runs that failed.
//   - A cluster with objects of kinds that KubeFleet does not track is available once they are,
//     by the health rules of this hub, and the unavailablePeriodSeconds of custom resources are
//     over; KubeFleet says NotAllWorkAreAvailabilityTrackable at once.
//   - An object is of one placement, whatever allowCoOwnership says, which is about owners on
//     the member, as in KubeFleet. The second placement's other objects are applied, and that
//     one is tried again every minute, so it comes within that after it was given up.
//     allowCoOwnership counts for updates that begin after it was changed.
//   - Strategy RollingUpdate is a run of one stage that the hub starts for each new snapshot,
//     decision or applyStrategy. maxSurge means nothing here: nothing moves between clusters. So
//     a change of applyStrategy takes the place of the update that is under way, and reaches
//     clusters at the pace of maxUnavailable, where KubeFleet changes it for all of them at
//     once. Members that no update was to reach before have nothing that could become
//     unavailable: they are brought up at once, at most 1000 at a time, beside the
//     maxUnavailable that are updated, and neither waits for the other. KubeFleet, too, places
//     them at once, and counts those that are not available yet against maxUnavailable. An
//     update that takes the place of another one does not count a cluster that still fails from
//     that, unless it comes to it first, by name: KubeFleet updates those that are not available
//     before others, and counts them.
//   - A PersistentVolumeClaim that is Pending, also one that waits for its first consumer, is
//     not available; KubeFleet does not track it.
//   - A ClusterResourceOverride whose selector has the scope NamespaceOnly or
//     NamespaceWithResourceSelectors is refused: KubeFleet reads it, and changes everything in
//     the Namespace all the same.
//   - An override may have a priority, and overrides of different priorities may select the same
//     object, which KubeFleet refuses. Its versions are shown as snapshots, which stay, be they
//     more than ten, while a snapshot that may be rolled out has frozen them, also after the
//     override. A run brings the overrides of its snapshot's time, so a rollback brings them
//     back. The lists of a status name those of which a rule selects the cluster by its labels
//     as they are now, with at most 128 KiB of names.
//   - A ResourceOverride that names its placement without a scope changes the
//     ClusterResourcePlacement and the ResourcePlacement of its namespace that have the name. In
//     KubeFleet the scope is Cluster by default, so that such an override has no effect on a
//     ResourcePlacement, and nothing says so. If the scope is Cluster and only a
//     ResourcePlacement of the namespace has the name, an Event PlacementNotFound of the
//     override names the remedy.
//   - Nothing runs on a member: the hub asks its API server every 2 minutes, whatever
//     spec.heartbeatPeriodSeconds says, every 30 seconds while it does not answer, and writes
//     conditions Joined and Healthy, and agentStatus as the agent would, with the time of the
//     last answer as its heartbeat. What does not answer for a moment is picked as before. A
//     member whose Healthy has been False for 5 minutes, or that answered last 5 minutes ago, as
//     in KubeFleet, takes no new placement, and neither does one that was not reached within a
//     minute of the first try, whose Joined is False from then on until it is. What it has
//     already it keeps.
//   - The hub measures members every 10 minutes, where they let it list nodes and pods:
//     kubernetes-fleet.io/node-count, and cpu and memory in resourceUsage, as KubeFleet's agent
//     without a provider. A field that another client writes is left to it. What is available is
//     not known of members of more than 2,000 pods; KubeFleet counts the first 100.
//   - Namespaces are collected with Config.MemberNamespaces, not by an agent's flag, 200 of a
//     member, also when a placement that selects namespaces has come to it or gone. A
//     ResourcePlacement does not pick a further member that has not its namespace; what is there
//     already stays when the namespace goes, where KubeFleet takes it away with the next
//     decision. The values of status.namespaces are empty, because there is no Work.
//   - reportBackStrategy: destination WorkAPI is accepted and has no effect, because there are
//     no Work objects; an Event of the placement says so, as it does where OriginalResource has
//     more than one cluster to report; KubeFleet logs that. A status is written to the object
//     that the cluster got a copy of, not to another one of its name, and also where another
//     object of the placement is not applied. The hub has the right to write that of workloads;
//     for others see hub/manifests/rbac/hub.yaml.
//   - There is a definition of Work for tools that read Works, and no Work: one that is created
//     is refused. Objects on members have no AppliedWork as their owner.
//   - A PickN policy that is edited keeps the clusters that still match it. KubeFleet scores all
//     clusters again, and prefers those that are placed only among equals.
//   - An eviction is not executed while a staged run of the placement has not ended, and
//     Executed names the run: its plan is frozen, and would bring to the cluster again what was
//     just taken away. KubeFleet evicts, which fails the run. After an eviction the runs before
//     it are not rolled back any more.
//   - An eviction from a PickFixed placement is accepted, and answered by Valid False.
//     KubeFleet's webhook does not let it be created, which ends kubectl fleet draincluster at
//     the first such placement.
//   - The observationTime of a drift or a diff is when the cluster was last compared, which a
//     watch on the cluster asks for when something changes. KubeFleet's agent compares what
//     differs over and over, after 5 seconds at first and 15 minutes in the end.
//   - A ClusterResourcePlacementStatus has nothing of objects and overrides outside of its
//     namespace, and no messages of what is not True: KubeFleet's has all but the values of
//     differences. In earlier versions its sourceStatus was statusReplica.
//   - A cluster that is being evicted, or cleaned for another reason, does not count as
//     available for a budget. In KubeFleet it does until its resources are gone, so that
//     evictions which come together may take more than the budget allows.
//   - A ClusterResourceBinding has its cluster and its state, and neither snapshots nor
//     conditions, which the status of the placement has: it seldom changes. Deleting one evicts
//     nothing; it is made again.
//   - A member has its name in the label kubernetes-fleet.io/member-name for policies, stages
//     and overrides from the moment its MemberCluster is there; the hub writes it on the object,
//     too, over any other value.
//   - Policies use taints, health and properties of a MemberCluster, whichever client wrote
//     them. Why a cluster was picked or not is told of all clusters, up to 1000, and in words of
//     Slipway's own.
//   - A strategy may have rollback and progressDeadline, its stages maxFailures; a run may have
//     the state Rollback. Without them clusters are tried without end, and nothing is taken
//     back.
//   - An override that cannot be applied on a member, or makes an object that no member can
//     read, holds its snapshot back everywhere, not on that member alone. Under RollingUpdate
//     the conditions Overridden or WorkSynchronized of the clusters concerned say why, as
//     KubeFleet's: of those that have nothing yet, and of as many others as are updated at a
//     time. A staged run is not begun, and its condition Initialized names them.
//   - failedPlacements are what this hub saw of the last update of a cluster, and once that is
//     done what is held back since, as with FoundDrifts, with 64 KiB for all of a placement. Of
//     the updates, another hub that takes over knows those of clusters that are in flight.
//   - A status lists at most Config.Listed clusters, those in trouble first, and counts all. A
//     run's has a summary, its state, stage and times, and in message why it does not go on:
//     columns of kubectl get -o wide, which lists are made of.
package hub
