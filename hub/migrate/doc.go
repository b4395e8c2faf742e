// Package migrate moves a hub from KubeFleet to package hub and back, without a change to any
// workload.
//
// [Migration.Plan] only reads. It returns KubeFleet's state of each placement, the differences
// between KubeFleet's Works and the objects that Slipway would apply, and in [Plan.Blockers] the
// obstacles to a take-over.
//
// [Migration.TakeOver] requires that the agents of KubeFleet are stopped. On each member it first
// removes the ownerReferences to AppliedWorks from the objects that a member agent placed, and then
// the AppliedWorks; in the opposite order the garbage collector would delete the objects. On the
// hub it removes the objects that KubeFleet keeps for itself, after writing them to a backup file,
// and KubeFleet's finalizers on the objects of people. A hub of package hub that starts afterwards
// finds objects on the members that none of its placements placed, and takes them over according to
// whenToTakeOver.
//
// [Migration.GiveBack] requires that the hub of package hub is stopped. It removes that hub's
// records, projections and finalizers, and its ledgers and marks on members. When KubeFleet's
// agents are started again, they take a snapshot, schedule and apply. They find objects without an
// owner on the members. They take an object over in any case if whenToTakeOver is Always, only if
// it has no differences if it is IfNoDiff, and not at all if it is Never. Therefore the backup of a
// take-over need not be restored: a restored AppliedWork would have another UID than the former
// owner of the objects, and KubeFleet creates snapshots, bindings and Works from the placements.
//
// # Changes to placed objects
//
// A take-over changes owners, and no spec, label or annotation. Therefore no generation increases
// and no Pod is replaced. A give-back removes the annotations that mark the objects of a hub. This
// increases the generation of Deployments; the Pods stay, because their template does not change.
// KubeFleet's annotations stay. The most important is
// kubernetes-fleet.io/last-applied-configuration: KubeFleet's next client-side apply needs it to
// find and remove the fields that the hub dropped in between. All other fields that the member
// agent owned lose that owner, in both directions. Otherwise such a field would keep an owner that
// no longer exists. Then a server-side apply would never remove the field after the hub drops it,
// and an apply without force would have conflicts.
//
// # Interruptions
//
// Each step is based on a fresh read and carries the UID that it read. Therefore a call may be
// killed at any write and repeated with the same backup file; completed steps are skipped. An
// existing backup file belongs to the take-over that started it. If there is an object to remove
// that is not in the file, a hub or an agent has served in between, and a new file is required.
// Before it removes anything from the hub, a call checks again that the agents are stopped.
//
// # The objects of KubeFleet
//
// The package reads the fields of Works, AppliedWorks and bindings from maps, because package
// v1beta1 has no types for the objects that KubeFleet alone writes.
//
// Related packages: package hub serves the hub before and after; package drift compares objects.
package migrate
