// Package migrate answers HOW a hub that KubeFleet serves becomes one that package hub serves, and one of package hub
// KubeFleet's again, without a change to any workload.
//
// [Migration.Plan] reads and writes nothing. It returns what KubeFleet has of each placement, what Slipway would apply
// otherwise than KubeFleet's Works say, and in [Plan.Blockers] what has to be done before anything is taken over.
//
// [Migration.TakeOver] is for a fleet whose agents of KubeFleet are stopped. On each member it removes from the objects
// that a member agent placed their ownerReference to an AppliedWork, and then the AppliedWork: the other way round the
// garbage collector would delete the objects. On the hub it removes what KubeFleet keeps for itself, which is written to a
// backup file first, and KubeFleet's finalizers from what people declared. A hub of package hub that is started then finds
// objects on the members that no placement of its own placed, and takes them over as whenToTakeOver says.
//
// [Migration.GiveBack] is for a fleet whose hub of package hub is stopped. It removes that hub's records, projections and
// finalizers, and its ledgers and marks on members. KubeFleet's agents, started again, take a snapshot, schedule, and
// apply: what they find on a member and what has no owner they take over, by whenToTakeOver Always at once, by IfNoDiff
// where nothing differs, and by Never not at all. So nothing of the backup of a take-over has to be restored: an AppliedWork
// that is restored has another UID than the one that the objects had as their owner, and snapshots, bindings and Works are
// made of the placement.
//
// # What stays on the objects
//
// A take-over changes owners, and no spec, label or annotation, so that no generation rises and no Pod is made again. The
// annotations by which a hub marks what it applies, and which a give-back removes, have the API server count the
// generation of a Deployment up; the Pods stay, since their template does. KubeFleet's annotations stay, above all
// kubernetes-fleet.io/last-applied-configuration: KubeFleet's next client-side apply finds by it which fields the hub has
// dropped meanwhile, and without it they would stay. The fields that the member agent owned, but for these, lose that owner, in both
// directions: a server-side apply never removes a field that has another owner, so a field that is dropped on the hub
// later would stay on the members, and an apply without force would fail by a conflict with an owner that is gone.
//
// # When it is interrupted
//
// Every step is decided from what there is at that moment and carries the UID of what was read, so each call may be killed
// at any write and repeated with the same backup file: what is done is found done. A backup file that is there already is
// of the take-over that began with it, and gets what it does not have yet. The agents are read again before anything is
// removed from the hub.
//
// The neighbours: package hub serves the hub before and after; package drift says what differs.
package migrate
