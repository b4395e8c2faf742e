// Package hub serves the Fleet API on a hub cluster: it makes an engine of package fleet do what
// people declare there as objects, and writes back as objects what came of it.
//
// A ClusterResourcePlacement becomes a [fleet.Placement], a ClusterStagedUpdateRun a run; snapshots,
// decisions and approval requests appear as objects of their own, and who approves one is whom the API
// server authenticated. The namespaced twins are the same with objects of their namespace only. Package
// hub/manifests has the CRDs, the admission policies and the roles that this takes.
//
// All state is in the engine's store; what stands in a status is a projection that can be thrown away
// and is made again. Three things are kept in the metadata of the objects themselves: a finalizer, so
// that what was placed is removed before a placement goes, the annotation that ties a run to the one
// run of the engine that was made for it, and what the admission policies stamp.
//
// Several hubs may run on one cluster: one leads, by a lease, and the others wait. A hub that was paused
// and wakes up late is refused by the store and by the members, see package fleet; what it still writes
// to a status is refused by the resourceVersion, or is what the next one writes too.
//
// # Compatibility
//
// KubeFleet changed since its tutorial of July 2025 was written. Config.Compatibility is the version whose behaviour a hub has if
// versions differ: [compat.July2025], the default, or [compat.KubeFleet018]. docs/hub.md has the table of the differences. The
// definitions of the hub cluster have the setting as the label slipway.dev/compatibility, and so has the Lease of the hub that
// leads. A hub refuses to start, and to lead, on definitions of the other setting.
//
// manifests.Install writes into runs without spec.state the state that they had before it replaces the definitions of the other
// setting. The meaning of a run that was begun is in its record, so a hub that finds other definitions neither starts a run
// that waits nor stops one that is under way.
//
// # Snapshots
//
// With strategy RollingUpdate a snapshot is taken whenever the selected content changes, and rolled out. With strategy External it is
// taken and not rolled out. With the setting of KubeFleet 0.18, as in KubeFleet since February 2026, a change alone takes none: an
// External placement has no snapshot before its first run, and the changes between two runs are in one.
//
// A run without spec.resourceSnapshotIndex brings what is selected when it begins, also with the state Initialize: it takes a
// snapshot unless the latest one has the same content. A run of an index takes none, and neither does one that is refused. The
// content of a run is saved and recorded with it before it reaches a member: it stays the same, whatever changes
// afterwards and whichever hub goes on. If a hub dies after it saved a snapshot and before it recorded the run, the
// next one brings that snapshot, or another one if the selection has changed since. Statuses are about what runs have
// brought; only what keeps a snapshot from being taken is told of what is selected now, by the condition Scheduled.
//
// # Rights of authors
//
// The hub acts on members with rights of its own, so what declares a placement decides what its author gains.
// An author of ClusterResourcePlacements, ClusterResourceEnvelopes or ClusterResourceOverrides acts with all the
// rights of the hub there, within Config.Engine.Rules. That includes the ResourceEnvelopes that a ClusterResourcePlacement
// selects: who may write them in its namespaces may bring roles and quotas to those namespaces of the members, as in KubeFleet. A
// placement whose author does not vouch for them selects the Namespace with the selectionScope NamespaceOnly or
// NamespaceWithResourceSelectors, and a host that lets nobody do that has the kind ResourceEnvelope in Rules.Never.
//
// What the authors of a namespace bring by a ResourcePlacement, also in a ResourceEnvelope, or by the change that a
// ResourceOverride makes, obeys Config.Engine.NamespaceRules, too. They are
// [snapshot.NamespaceRules] unless the host has others: the kinds of Kubernetes that the built-in role edit may
// create, and custom kinds. The flags --namespace-deny, --namespace-allow and --namespace-only of slipway hub change them.
// Other rules are made from these:
//
//	rules := snapshot.NamespaceRules()
//	rules.Never = append(rules.Never, snapshot.GroupKind{Kind: "Secret"}, snapshot.GroupKind{Group: "kustomize.toolkit.fluxcd.io"})
//	cfg.Engine.NamespaceRules = &rules
//
// What is selected that way exists on the hub, where its author was admitted; of a custom kind in an envelope
// nothing shows that, so hosts whose members act on such objects with more rights than their authors have name
// them in Never, or what they allow in Only. What is refused is never left out: the condition Scheduled of every
// placement that would bring it is False and names the object, the field and what would be right. So an envelope
// that is refused, or malformed, holds up the placements of its namespace until it is corrected, which is
// noticed within half a minute, and members keep what they have.
//
// # What the hub may read
//
// A Namespace that is selected brings all that is in it, so the hub has to read every kind that may be there;
// hub/manifests lists those of Kubernetes but Secrets. A kind that it may not read is an error of the placement
// that names it: grant it, by a ClusterRole with the label slipway.dev/aggregate-to-hub-source=true, or exclude
// it by Rules.Never. Grant a kind before it is defined on the hub, or placements of whole namespaces
// stand still until it is granted. A kind in Never is not read at all and left out of what a Namespace brings;
// named by a selector, or in an envelope, it is an error. Snapshots of before that have the kind are not rolled
// out any more, and the next one, without it, removes its objects from the members.
//
// # Who may answer
//
// An approval counts as that of the user that the API server authenticated while the admission policies of package
// hub/manifests are in force: all of them, with their bindings, exactly as they were installed. The hub compares
// them before it takes an answer in, and when a watch tells of a change; it reads them every 10 seconds if it may not
// watch them. Where one is missing or was changed no answer counts: the
// condition ApprovalAccepted of the request is False with the reason ApprovalRequestUnvouched, and names what is
// wrong. Once the policies are installed again, the request is made again and answered again. Each request has the
// version of the policies under which it was made in the annotation slipway.dev/policies, so policies that were
// changed while no hub was there are noticed, too. A hub asks nothing in the first 3 seconds of new ones.
//
// Where nothing was ever installed, the answer of any user with the right to write the status of a request counts, at
// gates that ask for no identity; on a server before 1.36, which has the validating policies alone, that takes the
// verb approve. The record hub/policies of the store says that policies were in force once, so that deleting all of
// them is no way back to that. Deleting that record is: in a store on the Kubernetes API, it is the Secret in the
// hub's namespace with hub/policies in the annotation slipway.dev/key.
//
// # Applications
//
// With Config.Applications the hub serves Application, Workflow and Policy objects as KubeVela and ACK One have them,
// by package formats/oam/delivery: kubectl applies them, and gets in the columns of an Application what its workflow has
// come to. The clusters that policies pick are the members by the name and the labels of their MemberClusters. The right to
// write an Application is one to bring what is in its namespace to members with the rights of the hub. An
// Application that is deleted goes once what it delivered is gone from the members. Objects of the group core.oam.dev
// are never placed. Each member is shown as a ManagedCluster of cluster.open-cluster-management.io, unless another author has
// defined that kind. A workflow is suspended, resumed, terminated, restarted and rolled back through the hub's store, by
// delivery.Applications.Do and the verbs of the command slipway, which takes the rights to it; not by the status of
// the object.
//
// # Names of requests
//
// The object of a request of run x is x-before-<stage> before a stage and x-<stage> after it, and so the engine names it in events
// and explanations. With the setting of KubeFleet 0.18 it is x-after-<stage> after the stage, as in KubeFleet since December 2025. A
// run keeps the names that it began with. A name may be that of the request of another run, as run x-before after stage prod and
// run x before it have one name: the second request is not made, and the status of its run says so, until the other run is deleted.
//
// # Runs without a record
//
// If the status of a run has the condition Succeeded, True or False, and the store has no record of it, the hub does not
// begin the run, because it has ended before. The Event RunNotBegun of the run says so.
//
// # Rollback
//
// Where its strategy has spec.rollback, a run is taken back by a run of its own: every cluster that it
// changed goes to what it had itself, its own snapshot and overrides, the last stage first. That happens
// by itself for the causes that the strategy names, and on command:
//
//	kubectl patch csur example-run --type merge -p '{"spec":{"state":"Rollback"}}'
//
// The engine plans that run, and the hub makes an object of it beside the other one, <run>-rollback or, where
// there is such a run, <run>-rollback-2 and so on, with the label slipway.dev/rollback-of. Where that is
// longer than the 63 characters that the API allows, <run> is cut, and 8 characters of a digest are behind
// it. It is shown, stopped, resumed, approved and deleted as any other run; the spec has the placement, the
// strategy that is inverted, and a snapshot index where all clusters go back to the same, which each cluster
// in the status has in any case. The condition RollbackStarted of the run that is taken back and its
// status.rollbackRunName say which run does, or why none does. A Rollback that is refused, because the
// strategy has none or other runs followed, changes nothing. Asked again, in another generation of the spec,
// it is done once more for the clusters that have not gone back.
//
// KubeFleet tries a cluster without end, so that none fails. The cause BudgetExceeded takes a
// progressDeadline in the strategy, after which a cluster has failed, and counts those of a stage beyond
// its maxFailures; GateRejected is a request that is rejected. Clusters that had nothing are cleaned, in
// stages of their own, unless newClusters is Leave.
//
// That object is a projection: one that goes without its finalizer is made again, and it stays when the run
// that is taken back is deleted. To delete it while it is under way stops the rollback where it is. An
// object of another author that has the name already is not touched: it is refused, the rollback goes on
// without an object, and the condition says so, until that is deleted. The annotation slipway.dev/seal tells
// the hub which object is its own: while it is right, the label is put back where another client takes it away,
// and an object that has lost it is not the hub's. A rollback that an earlier version named, in a namespace of
// more than 42 characters or of more than 60 with the name, has no object, which the condition says.
//
// The label slipway.dev/irreversible of a snapshot object marks that nothing is rolled back past it: "true"
// sets the mark, "false" takes it away, and the hub writes "true" where it is missing and the mark is set.
// It takes the right to patch snapshots, which the roles of package hub/manifests do not give.
//
// # Evictions
//
// A ClusterResourcePlacementEviction takes what a placement put on a cluster away from there, within the
// ClusterResourcePlacementDisruptionBudget of the placement's name. It is answered once, in the conditions Valid and
// Executed with KubeFleet's reasons and messages, and the answer is final. Executed means that the removal is recorded:
// a run of the engine, which has no object, cleans that cluster and no other, and until it has ended the cluster is not
// picked. Then the policy decides again, and without a taint that keeps the cluster away it may be picked again.
// Where a member cannot be reached within Config.DeleteDeadline, what it has is left to the next run of the placement.
//
// kubectl fleet draincluster and uncordoncluster work unchanged: a drain adds the taint cordon-key to a MemberCluster, and
// makes an eviction for each ClusterResourceBinding that names the cluster. The hub writes such an object for each cluster
// of a placement that is in no namespace, with its state, unless Config.NoBindings says otherwise; without them a drain
// finds nothing to evict. slipway drain, cordon and uncordon are package hubapi's Drain, Cordon and Uncordon, which do the same.
//
// # Reasons of Slipway's own
//
// Conditions have KubeFleet's types and reasons, one by one in docs/conditions.md, but these, which say what KubeFleet does not
// have or does not show: of runs UpdateRunInitializing, UpdateRunAborted, UpdateRunSuperseded, UpdateRunForgotten, and
// UpdateRunRollbackRequested, UpdateRunRollbackStarted and UpdateRunRollbackRefused; of tasks StageTaskApprovalRequestNameTaken,
// StageTaskApprovalRequestRejected, StageTaskSkipped and AfterStageTaskWaitTimeNotElapsed; of the clusters of a run
// ClusterUpdatingSkipped, ClusterUpdatingApplying, ClusterUpdatingNotHealthyYet, ClusterUpdatingRetrying and
// ClusterUpdatingPending; of requests ApprovalRequestRejected, ApprovalRequestApprovalRefused, ApprovalRequestUnvouched and
// Rejected; of objects WrongScope; of members MemberClusterUnreachable, MemberClusterNotReachedYet and MemberClusterHealthy.
//
// # Differences from KubeFleet
//
//   - Where defaults, limits and messages differ, package hub/manifests says. Of KubeFleet's own versions see Compatibility above.
//   - A run without an index brings what is selected when it begins, always. The first run of KubeFleet 0.18 after a change brings
//     the content before it, however late it is: it only begins to wait for further changes then.
//   - Overrides are part of a snapshot. Snapshots that follow each other and differ in overrides alone are shown as one, by one
//     object with one index, as in KubeFleet. A run of an index brings the last of them, with the overrides of that time;
//     KubeFleet's brings the overrides of now. An override that is given another placement leaves the one before at once;
//     in KubeFleet it stays there until that is reconciled for another reason.
//   - An External placement whose applyStrategy becomes ReportDiff reports at once of the clusters that a run has come to;
//     KubeFleet waits for the next run. After a change of the policy both wait for one; what a failed update left is told all the same.
//   - A ResourcePlacement, with its ResourceEnvelopes, and a ResourceOverride are about kinds that the role edit may create:
//     see above. KubeFleet's examples have roles and quotas in ResourceEnvelopes; have a ClusterResourcePlacement bring
//     them, or allow them by NamespaceRules.
//   - What has a generateName and no name in an envelope is on no member, and in failedPlacements as FoundGenerateName; the rest is
//     placed, as in KubeFleet. The cluster has not all of its snapshot, so it does not complete: a run waits for it, or fails by
//     its progressDeadline, and a rolling update goes on as far as maxUnavailable. Of such objects a snapshot has room for 20, and one that
//     would have nothing else is not taken; both are told by Scheduled.
//   - applyStrategy.type ClientSideApply, the API's default, is carried out as server-side apply with
//     force: fields of other managers stay, and a conflict is taken over as a client-side apply would. It takes what
//     a server-side apply refuses, see apply.ClientSide, and an Event of the run, ObjectsAltered, names that. The field manager is
//     not work-api-agent, as of KubeFleet's agent, and there is no annotation with what was applied last.
//   - An approval counts only for a request that this hub made, and is bound to the run's UID, the plan
//     and the attempt; the condition's lastTransitionTime is not read. One whose observedGeneration is not the
//     request's does not count, and the request says so; one without any does, which KubeFleet ignores.
//   - What a placement took over goes with it, or with its cluster, as in KubeFleet, but never a namespace that was there
//     before and has objects of others in it, or of which the hub may not list every kind: see package
//     backend/kube/member. Events with the reasons Released and ObjectsReleased name what stays, and why.
//     deleteStrategy.propagationPolicy Abandon, which KubeFleet has in its API and does not carry out, leaves everything
//     when the placement is deleted; DeleteCreated, which it does not have, deletes only what the placement created.
//   - Nothing on a member is owned by an AppliedWork, and there is no Work on the hub: what a placement applied is in a record of
//     the hub's on the member, see package fleet.
//   - An object that is twice in envelopes is placed once, and Duplicated in failedPlacements, as in KubeFleet. Here a
//     selected object is placed, or else that of the first envelope by name and the first key in it, in KubeFleet by the
//     order of their JSON. An object of another scope is WrongScope there, and the others are placed; KubeFleet places
//     nothing on such a cluster, and says SyncWorkFailed.
//   - revisionHistoryLimit counts beside it the snapshots that clusters have or had before the last run, which a rollback brings back,
//     and those of runs that failed.
//   - A cluster with objects of kinds that KubeFleet does not track is available once they are, by the health rules of this hub, and
//     the unavailablePeriodSeconds of custom resources are over; KubeFleet says NotAllWorkAreAvailabilityTrackable at once.
//   - An object is of one placement, whatever allowCoOwnership says, which is about owners on the member, as in KubeFleet.
//     The second placement's other objects are applied, and that one is tried again every minute, so it comes within that
//     after it was given up. allowCoOwnership counts for updates that begin after it was changed.
//   - Strategy RollingUpdate is a run of one stage that the hub starts for each new snapshot, decision or
//     applyStrategy. maxSurge means nothing here: nothing moves between clusters. So a change of
//     applyStrategy takes the place of the update that is under way, and reaches clusters at the pace of
//     maxUnavailable, where KubeFleet changes it for all of them at once. Members that no update was to
//     reach before have nothing that could become unavailable: they are brought up at once, at most 1000
//     at a time, beside the maxUnavailable that are updated, and neither waits for the other. KubeFleet,
//     too, places them at once, and counts those that are not available yet against maxUnavailable.
//     An update that takes the place of another one does not count a cluster that still fails from that, unless it comes to it
//     first, by name: KubeFleet updates those that are not available before others, and counts them.
//   - A PersistentVolumeClaim that is Pending, also one that waits for its first consumer, is not available; KubeFleet does not track it.
//   - A ClusterResourceOverride whose selector has the scope NamespaceOnly or NamespaceWithResourceSelectors is refused: KubeFleet reads
//     it, and changes everything in the Namespace all the same.
//   - An override may have a priority, and overrides of different priorities may select the same object,
//     which KubeFleet refuses. Its versions are shown as snapshots, which stay, be they more
//     than ten, while a snapshot that may be rolled out has frozen them, also after the
//     override. A run brings the overrides of its snapshot's time, so a rollback brings them back. The
//     lists of a status name those of which a rule selects the cluster by its labels as they are now, with
//     at most 128 KiB of names.
//   - A ResourceOverride that names its placement without a scope changes the ClusterResourcePlacement and the ResourcePlacement
//     of its namespace that have the name. In KubeFleet the scope is Cluster by default, so that such an override has no effect
//     on a ResourcePlacement, and nothing says so. If the scope is Cluster and only a ResourcePlacement of the namespace has
//     the name, an Event PlacementNotFound of the override names the remedy.
//   - Nothing runs on a member: the hub asks its API server every 2 minutes, whatever spec.heartbeatPeriodSeconds says, every
//     30 seconds while it does not answer, and writes conditions Joined and Healthy, and agentStatus as the agent would, with the
//     time of the last answer as its heartbeat. What does not answer for a moment is
//     picked as before. A member whose Healthy has been False for 5 minutes, or that answered last 5 minutes ago, as in KubeFleet,
//     takes no new placement, and neither does one that was not reached within a minute of the first try, whose
//     Joined is False from then on until it is. What it has already it keeps.
//   - The hub measures members every 10 minutes, where they let it list nodes and pods: kubernetes-fleet.io/node-count, and
//     cpu and memory in resourceUsage, as KubeFleet's agent without a provider. A field that another client writes is left to it.
//     What is available is not known of members of more than 2,000 pods; KubeFleet counts the first 100.
//   - Namespaces are collected with Config.MemberNamespaces, not by an agent's flag, 200 of a member, also when a placement
//     that selects namespaces has come to it or gone. A ResourcePlacement does not
//     pick a further member that has not its namespace; what is there already stays when the namespace goes, where KubeFleet takes it
//     away with the next decision. The values of status.namespaces are empty, because there is no Work.
//   - reportBackStrategy: destination WorkAPI is accepted and has no effect, because there are no Work objects; an Event of the placement
//     says so, as it does where OriginalResource has more than one cluster to report; KubeFleet logs that. A status is written to
//     the object that the cluster got a copy of, not to another one of its name, and also where another object of the
//     placement is not applied. The hub has the right to write that of workloads; for others see hub/manifests/rbac/hub.yaml.
//   - There is a definition of Work for tools that read Works, and no Work: one that is created is refused. Objects on members have no
//     AppliedWork as their owner.
//   - A PickN policy that is edited keeps the clusters that still match it. KubeFleet scores all clusters again, and prefers those that are
//     placed only among equals.
//   - An eviction is not executed while a staged run of the placement has not ended, and Executed names the run: its plan
//     is frozen, and would bring to the cluster again what was just taken away. KubeFleet evicts, which fails the run. After
//     an eviction the runs before it are not rolled back any more.
//   - An eviction from a PickFixed placement is accepted, and answered by Valid False. KubeFleet's webhook does not let it be
//     created, which ends kubectl fleet draincluster at the first such placement.
//   - The observationTime of a drift or a diff is when the cluster was last compared, which a watch on the cluster asks for when something
//     changes. KubeFleet's agent compares what differs over and over, after 5 seconds at first and 15 minutes in the end.
//   - A ClusterResourcePlacementStatus has nothing of objects and overrides outside of its namespace, and no messages of what
//     is not True: KubeFleet's has all but the values of differences. In earlier versions its sourceStatus was statusReplica.
//   - A cluster that is being evicted, or cleaned for another reason, does not count as available for a budget. In KubeFleet
//     it does until its resources are gone, so that evictions which come together may take more than the budget allows.
//   - A ClusterResourceBinding has its cluster and its state, and neither snapshots nor conditions, which the status of the
//     placement has: it seldom changes. Deleting one evicts nothing; it is made again.
//   - A member has its name in the label kubernetes-fleet.io/member-name for policies, stages and overrides from the
//     moment its MemberCluster is there; the hub writes it on the object, too, over any other value.
//   - Policies use taints, health and properties of a MemberCluster, whichever client wrote them. Why a cluster was picked
//     or not is told of all clusters, up to 1000, and in words of Slipway's own.
//   - A strategy may have rollback and progressDeadline, its stages maxFailures; a run may have the
//     state Rollback. Without them clusters are tried without end, and nothing is taken back.
//   - An override that cannot be applied on a member, or makes an object that no member can read, holds its snapshot back
//     everywhere, not on that member alone. Under RollingUpdate the conditions Overridden or WorkSynchronized of the
//     clusters concerned say why, as KubeFleet's: of those that have nothing yet, and of as many others as are updated at a
//     time. A staged run is not begun, and its condition Initialized names them.
//   - failedPlacements are what this hub saw of the last update of a cluster, and once that is done what is
//     held back since, as with FoundDrifts, with 64 KiB for all of a placement. Of the updates, another hub
//     that takes over knows those of clusters that are in flight.
//   - A status lists at most Config.Listed clusters, those in trouble first, and counts all. A run's has a summary, its
//     state, stage and times, and in message why it does not go on: columns of kubectl get -o wide, which lists are made of.
package hub
