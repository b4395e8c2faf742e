// Package hub serves the Fleet API on a hub cluster. It drives an engine of package fleet by the
// objects that people declare there, and it writes the results back as objects.
//
// A ClusterResourcePlacement becomes a [fleet.Placement], and a ClusterStagedUpdateRun becomes a
// run. Snapshots, decisions and approval requests appear as objects of their own. The approver of
// a request is the user that the API server authenticated. The namespaced kinds, such as
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
// brought. Only the condition Scheduled describes the current selection: it reports why no snapshot
// of that selection can be taken.
//
// # Rights of authors
//
// The hub acts on members with its own rights, so the kind of the declaring object decides which
// rights its author gains. An author of ClusterResourcePlacements, ClusterResourceEnvelopes or
// ClusterResourceOverrides acts with all the rights of the hub on the members, within
// Config.Engine.Rules. That includes the ResourceEnvelopes that a ClusterResourcePlacement
// selects: as in KubeFleet, the authors of these envelopes may bring roles and quotas to their
// namespaces on the members. If the author of a placement does not trust these envelopes, the
// placement should select the Namespace with the selectionScope NamespaceOnly or
// NamespaceWithResourceSelectors. A host forbids such envelopes altogether by the kind
// ResourceEnvelope in Rules.Never.
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
// For an object of a custom kind in an envelope, nothing shows that. If members act on such objects
// with more rights than their authors have, the host should name the kinds in Never, or the allowed
// kinds in Only. A refused object is never left out silently: the condition Scheduled of every
// placement that would bring it is False and names the object, the field and the remedy. So an
// envelope that is refused or malformed blocks the placements of its namespace until it is
// corrected. The hub notices the correction within half a minute, and members keep their objects
// until then.
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
// an Application show the progress of its workflow. The clusters that policies pick are the
// members by the name and the labels of their MemberClusters. A user who may write an Application
// can thereby bring objects of its namespace to members, with the rights of the hub. A deleted
// Application disappears once its delivered objects are gone from the members. Objects of the group
// core.oam.dev are never placed. Each member is shown as a ManagedCluster of
// cluster.open-cluster-management.io, unless another author has defined that kind. To suspend,
// resume, terminate, restart or roll back a workflow, use delivery.Applications.Do or the verbs of
// the command slipway. Both write to the hub's store, and need the rights to it. The status of the
// object does not control it.
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
// and deleted as any other run. Its spec has the placement, the strategy with its stages in reverse
// order, and a snapshot index if all clusters return to the same snapshot. The status always has
// the index for each cluster. The condition RollbackStarted of the original run and its
// status.rollbackRunName name the rollback, or say why there is none. If a Rollback is refused,
// because the strategy has no rollback or other runs followed, nothing changes. A second Rollback,
// in another generation of the spec, rolls back the clusters that have not returned yet.
//
// KubeFleet retries a cluster without end, so no cluster fails. The cause BudgetExceeded needs a
// progressDeadline in the strategy: a cluster fails after that time, and the cause counts the
// failed clusters of a stage beyond its maxFailures. GateRejected is a rejected request. Clusters
// that had nothing before are cleaned, in stages of their own, unless newClusters is Leave.
//
// The rollback object only shows the rollback: if it disappears without its finalizer, the hub
// makes it again, and it stays when the original run is deleted. But if a user deletes the object
// during the rollback, the rollback stops at that point. The hub does not touch an object of
// another author that has the name already. It refuses that object, continues the rollback without
// one, and says so in the condition until the other object is deleted. The annotation
// slipway.dev/seal identifies the hub's own object. While the annotation is correct, the hub
// restores the label if another client removes it. The hub does not treat an object without the
// annotation as its own. A rollback that an earlier version named, in a namespace of more than 42
// characters or of more than 60 with the name, has no object, and the condition says so.
//
// The label slipway.dev/irreversible of a snapshot object says that no rollback goes past the
// snapshot: "true" sets the mark and "false" removes it. The hub writes "true" if the mark is set
// and the label is missing. Setting the label needs the right to patch snapshots, which the roles
// of package hub/manifests do not give.
//
// # Evictions
//
// A ClusterResourcePlacementEviction removes the objects of a placement from a cluster, within the
// ClusterResourcePlacementDisruptionBudget of the placement's name. The hub answers it once, in
// the conditions Valid and Executed with KubeFleet's reasons and messages, and the answer is
// final. Executed means that the removal is recorded: a run of the engine without a run object
// cleans only that cluster, and the cluster is not picked until that run has ended. Then the policy
// decides again and may pick the cluster again, unless a taint keeps it away. If a member cannot be
// reached within Config.DeleteDeadline, its objects are left to the next run of the placement.
//
// kubectl fleet draincluster and uncordoncluster work unchanged: a drain adds the taint cordon-key
// to a MemberCluster, and makes an eviction for each ClusterResourceBinding that names the
// cluster. The hub writes a ClusterResourceBinding with the state of each cluster of a placement
// without a namespace, unless Config.NoBindings is set; without bindings a drain finds nothing to
// evict. slipway drain, cordon and uncordon are package hubapi's Drain, Cordon and Uncordon, which
// do the same.
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
//   - Package hub/manifests lists the differences in defaults, limits and messages. The section
//     Compatibility above is about the differences between KubeFleet's own versions.
//   - A run without an index always brings the content that is selected when the run begins. In
//     KubeFleet 0.18 the first run after a change brings the content from before the change,
//     however late the run is created, because KubeFleet waits for further changes only from then
//     on.
//   - Overrides are part of a snapshot. Consecutive snapshots that differ only in overrides share
//     one object and one index, as in KubeFleet. A run that names an index brings the last of
//     these snapshots, with its frozen overrides; KubeFleet's run applies the current overrides.
//     If an override is changed to name another placement, it stops affecting the old placement at
//     once; in KubeFleet it affects the old placement until that is reconciled for another reason.
//   - If the applyStrategy of an External placement becomes ReportDiff, the hub reports at once
//     about the clusters that a run has reached; KubeFleet waits for the next run. After a change
//     of the policy both wait for a run, but the hub still reports the objects that a failed
//     update left.
//   - A ResourcePlacement, its ResourceEnvelopes and a ResourceOverride may contain only kinds
//     that the role edit may create: see above. KubeFleet's examples have roles and quotas in
//     ResourceEnvelopes: bring these by a ClusterResourcePlacement, or allow them by
//     NamespaceRules.
//   - An object in an envelope that has a generateName and no name is applied to no member, and
//     failedPlacements shows it with FoundGenerateName. The other objects are placed, as in
//     KubeFleet. The cluster then lacks a part of its snapshot and does not complete: a run waits
//     for the cluster, or fails at its progressDeadline, and a rolling update continues as far as
//     maxUnavailable permits. A snapshot has room for 20 such objects, and a snapshot that would
//     contain nothing else is not taken. The condition Scheduled reports both cases.
//   - The hub carries out applyStrategy.type ClientSideApply, the API's default, as a server-side
//     apply with force: it keeps the fields of other managers, and takes conflicting fields over
//     as a client-side apply would. It also applies objects that a server-side apply refuses, see
//     apply.ClientSide, and the Event ObjectsAltered of the run names them. The field manager is
//     not work-api-agent, the manager of KubeFleet's agent, and no annotation stores the last
//     applied object.
//   - An approval counts only for a request that this hub made, and is bound to the run's UID, the
//     plan and the attempt; the hub does not read the condition's lastTransitionTime. An approval
//     with another observedGeneration than the request's does not count, and the request says so.
//     An approval without observedGeneration counts; KubeFleet ignores it.
//   - If a placement took an object over, the object is deleted with the placement, or when the
//     placement leaves the cluster, as in KubeFleet. The hub never deletes a namespace that existed
//     before if the namespace contains objects of others, such as objects that a placement only
//     compared, or if the hub may not list every kind in it: see package backend/kube/member.
//     KubeFleet deletes the namespace with these objects. The Events Released and ObjectsReleased
//     name the remaining objects and the reason. deleteStrategy.propagationPolicy Abandon, which is
//     in KubeFleet's API but has no effect there, leaves all objects when the placement is deleted.
//     DeleteCreated, which KubeFleet does not have, deletes only the objects that the placement
//     created.
//   - Members have no agent and no namespace of their own on the hub (fleet-member-NAME in
//     KubeFleet), and there are no ClusterProfiles.
//   - The hub has no Works, and objects on members have no AppliedWork as their owner: a record of
//     the hub on the member lists the objects that a placement applied, see package fleet.
//   - An object that occurs twice in envelopes is placed once, and failedPlacements shows it as
//     Duplicated, as in KubeFleet. If the object is also selected without an envelope, the hub
//     places the selected object. Otherwise it places the object in the first envelope by name, at
//     the first key; KubeFleet decides by the order of their JSON. An object that does not fit the
//     scope of its envelope is shown as WrongScope, and the others are placed; KubeFleet places
//     nothing on such a cluster, and reports SyncWorkFailed.
//   - The objects that show a snapshot are for people, and contain no values of Secrets. Therefore
//     a snapshot with large Secrets may need fewer of these objects than in KubeFleet.
//   - In addition to the newest revisionHistoryLimit snapshots, the hub keeps the snapshots that
//     clusters have, or had before the last run, because a rollback restores these, and the
//     snapshots of failed runs.
//   - If a cluster has objects of kinds that KubeFleet does not track, the cluster is available
//     once these objects are healthy by the rules of this hub and unavailablePeriodSeconds have
//     passed for its custom resources. Then the hub updates the next cluster. KubeFleet reports
//     NotAllWorkAreAvailabilityTrackable at once, and waits the period before the next update of
//     any cluster. So a client that changes the objects as soon as the placement is available
//     sees the change at once, and with KubeFleet after the period.
//   - An object belongs to one placement, whatever allowCoOwnership says: that field is about
//     owners on the member, as in KubeFleet. If a second placement selects the object, the hub
//     applies the other objects of that placement and retries this one every minute, so the second
//     placement gets the object within a minute after the first placement released it. A change of
//     allowCoOwnership affects updates that begin later.
//   - For strategy RollingUpdate the hub starts a run with one stage for each new snapshot,
//     decision or applyStrategy. maxSurge has no effect, because nothing moves between clusters. A
//     change of applyStrategy therefore replaces the update that is under way, and reaches the
//     clusters at the pace of maxUnavailable; KubeFleet changes it for all clusters at once.
//     On members that no earlier update selected, nothing can become unavailable. The hub updates
//     up to 1000 of them immediately, in addition to the maxUnavailable other members, and neither
//     part waits for the other. KubeFleet, too, updates them immediately, but counts the members
//     that are not available yet against maxUnavailable. If an update replaces an old update, the
//     hub first ends the old update, with an abort by slipway-hub in its history. The new update
//     begins with the clusters that the old update changed and did not prove to be available. While
//     maxUnavailable of these clusters are left, it changes no other cluster, also if they cannot
//     be reached. If the new update cannot be planned, for example because an override fails, the
//     old update continues. KubeFleet updates the failed clusters first. It also counts clusters
//     that became unavailable after their update.
//   - There are no InternalMemberClusters, because no agent runs on a member, and no property
//     provider: the hub reads the properties of members itself. An error about the length of a
//     list has the text of the API server, which older ones word otherwise ("at most 1 items").
//   - A PersistentVolumeClaim that is Pending is not available, even if it waits for its first
//     consumer; KubeFleet does not track it.
//   - A ClusterResourceOverride whose selector has the scope NamespaceOnly or
//     NamespaceWithResourceSelectors is refused. KubeFleet accepts the scope, but still changes
//     everything in the Namespace.
//   - An override may have a priority, and overrides of different priorities may select the same
//     object; KubeFleet refuses that. The versions of an override are shown as snapshots. A
//     version that is frozen in a snapshot stays as long as that snapshot can be rolled out, even
//     if there are more than ten versions or the override is deleted. A run applies the overrides
//     of its snapshot, so a rollback restores them. The lists in a status name the overrides with
//     a rule that selects the cluster by its current labels, with at most 128 KiB of names.
//   - A ResourceOverride that names its placement without a scope changes the
//     ClusterResourcePlacement and the ResourcePlacement of its namespace that have the name. In
//     KubeFleet the default scope is Cluster, so such an override has no effect on a
//     ResourcePlacement, and nothing reports that. If the scope is Cluster and only a
//     ResourcePlacement of the namespace has the name, the Event PlacementNotFound of the override
//     names the remedy.
//   - Nothing runs on a member. The hub asks its API server every 2 minutes, whatever
//     spec.heartbeatPeriodSeconds says, and every 30 seconds while the server does not answer. The
//     hub writes the conditions Joined and Healthy, and agentStatus as the agent would, with the
//     time of the last answer as the heartbeat. A short interruption does not prevent a policy
//     from picking the member. If Healthy has been False for 5 minutes, or the last answer is 5
//     minutes old, the member gets no new placement, as in KubeFleet. A member that was not
//     reached within a minute of the first attempt gets none either, and its Joined is False until
//     it is reached. Members keep the objects that they have already.
//   - The hub measures members every 10 minutes if they let it list nodes and pods: it writes
//     kubernetes-fleet.io/node-count, and cpu and memory in resourceUsage, like KubeFleet's agent
//     without a provider. So a policy sees an added node up to 10 minutes later; KubeFleet's agent
//     measures with each heartbeat. The hub leaves fields alone that another client writes. For
//     members with more than 2,000 pods the available resources are unknown; KubeFleet counts the
//     first 100 pods.
//   - Config.MemberNamespaces, not a flag of an agent, makes the hub collect up to 200 namespaces
//     of each member; it also collects them after a placement that selects namespaces has reached
//     or left the member. A ResourcePlacement does not pick an additional member that lacks its
//     namespace. If the namespace disappears from a member, the objects stay; KubeFleet removes
//     them with the next decision. The values of status.namespaces are empty, because there are no
//     Works.
//   - reportBackStrategy with the destination WorkAPI is accepted and has no effect, because there
//     are no Works; an Event of the placement says so. An Event also says so if OriginalResource
//     would report more than one cluster; KubeFleet only logs that. The hub writes a status only
//     to the object that the cluster got a copy of, not to a later object of the same name, even
//     if another object of the placement is not applied. The hub has the right to write the status
//     of workloads; for other kinds see hub/manifests/rbac/hub.yaml.
//   - The kind Work is defined for tools that read Works, but the hub refuses to let a Work be
//     created.
//   - If a PickN policy is edited, the clusters that still match stay. KubeFleet scores all
//     clusters again, and prefers placed clusters only if scores are equal.
//   - An eviction is not executed while a staged run of the placement has not ended, and Executed
//     names the run: the plan of the run is frozen and would bring the objects to the cluster
//     again. KubeFleet evicts, which makes the run fail. Runs before an eviction can no longer be
//     rolled back.
//   - An eviction from a PickFixed placement is accepted, and its condition Valid is False.
//     KubeFleet's webhook refuses to create it, which ends kubectl fleet draincluster at the first
//     such placement.
//   - The observationTime of a drift or a diff is the time of the last comparison of the cluster.
//     A watch on the cluster requests a comparison when something changes. KubeFleet's agent
//     repeats the comparison while there are differences, after 5 seconds at first and every 15
//     minutes in the end.
//   - A ClusterResourcePlacementStatus contains nothing about objects and overrides outside its
//     namespace, and no messages of conditions that are not True; KubeFleet's contains everything
//     except the values of differences. Earlier versions of this hub named its field sourceStatus
//     statusReplica.
//   - A cluster that is being evicted, or cleaned for another reason, does not count as available
//     for a budget. In KubeFleet it counts until its resources are gone, so that simultaneous
//     evictions may take more clusters than the budget allows.
//   - A ClusterResourceBinding contains its cluster and its state. It seldom changes, because
//     snapshots and conditions are in the status of the placement instead. Deleting a binding
//     evicts nothing, and the hub makes it again.
//   - From the creation of a MemberCluster on, policies, stages and overrides see the name of the
//     member in the label kubernetes-fleet.io/member-name. The hub also writes the label to the
//     object, and replaces any other value.
//   - Policies use taints, health and properties of a MemberCluster, whichever client wrote them.
//     The status gives the reason why a cluster was picked or not for all clusters, up to 1000, in
//     Slipway's own words.
//   - A strategy may have rollback and progressDeadline, its stages may have maxFailures, and a
//     run may have the state Rollback. Without them, the hub retries clusters without limit and
//     rolls nothing back.
//   - If an override cannot be applied on one member, or makes an object that no member can read,
//     its snapshot is held back on all members. Under RollingUpdate, the conditions Overridden or
//     WorkSynchronized of the affected clusters give the reason, as in KubeFleet, for all clusters
//     that have nothing yet and for as many other clusters as are updated at a time. A staged run
//     does not begin, and its condition Initialized names the clusters.
//   - A run whose condition Initialized is False is final: the hub never plans it. KubeFleet plans
//     it again after a change of its spec.state.
//   - failedPlacements shows the failures that this hub saw in the last update of a cluster. After
//     that update it shows the objects that have been held back since, for example with
//     FoundDrifts. It has at most 64 KiB for all clusters of a placement. A hub that takes over
//     knows only the updates of clusters that are in flight.
//   - A status lists at most Config.Listed clusters, clusters in trouble first, and has the numbers
//     of all clusters. The status of a run has a summary with its state, stage and times, and a
//     message with the reason why the run does not continue; kubectl get -o wide shows both as
//     columns.
package hub
