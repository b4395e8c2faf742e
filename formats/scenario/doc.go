// Package scenario answers what a scenario file says: which clusters there are,
// which strategy takes a change to them, what goes wrong and who asks for what.
// Package stages/simulate plays it.
//
// A scenario is a YAML document, or JSON, which is YAML:
//
//	profile: Staged                # or ClusterUpdate or Workflow; the strategy's otherwise
//	clusters:                      # each with a name; the rest is optional
//	- name: c1
//	  labels: {order: "2"}
//	  group: g1                    # the label slipway.dev/update-group
//	  region: eu                   # the label topology.kubernetes.io/region
//	  timeZone: Europe/Berlin      # of the windows; UTC otherwise
//	  windows: [{rrule: "FREQ=DAILY;BYHOUR=2", duration: 2h}]
//	  freezes: [{from: "2026-01-05T00:00", until: "2026-01-07T00:00", reason: holidays}]
//	  had: v3                      # what it had before, for a rollback; or new: true,
//	                               # nothing. All that do not say it had the same
//	count: {prefix: c, n: 1000}    # clusters c1 to c1000, with the other fields of
//	                               # clusters too; or a list of such
//	strategy: {stages: [...]}      # a ClusterStagedUpdateStrategy, whole or only its spec,
//	                               # or the stages of an Azure update run
//	start: "2026-01-05T10:00:00Z"  # midnight of that day otherwise
//	take: 10s                      # how long an attempt at a cluster takes; no time otherwise
//	faults:
//	- {cluster: c3, fail: 2}       # the first two attempts fail; or always
//	- {cluster: c5, unreachable: [1m, 5m]}
//	- {cluster: c6, unhealthyAt: 30s, for: 10s}  # without for: from then on
//	- {cluster: c7, take: 1h}
//	- {cluster: c8, fail: 1, during: rollback}   # fail and take, on the way back
//	churn:
//	- {at: 2m, remove: c8}
//	- {at: 3m, add: c99, labels: {a: b}}
//	- {at: 4m, relabel: c2, labels: {a: b}}
//	commands:                      # all may have by and reason
//	- {at: 5m, do: stop}
//	- {at: 6m, do: start}
//	- {at: 7m, do: skip, target: "Group:g2"}     # Member, Group, Stage, AfterStageWait
//	- {at: 8m, do: approve, stage: canary, by: ann, groups: [sre]}
//	- {at: 9m, do: reject, stage: prod, group: g1, by: bob}
//	- {at: 10m, do: retry, only: failed}         # or skipped; both otherwise
//	- {at: 11m, do: complete-gate, stage: prod, group: g1}
//	- {at: 12m, do: bypass, for: 2h, by: ann, reason: a fix}
//	- {at: 13m, do: abort}
//	- {at: 14m, do: rollback}                    # of a run that has ended too
//	measures:                      # what checks of the strategy measure; what is not here is good
//	- {check: errors, value: 0.2, from: 20m}     # a number, NaN, empty or down
//	- {check: errors, value: 0, from: 40m, cluster: c3}
//	until: 24h                     # 365 days otherwise
//
// Times are durations since the start of the run, which is at 0; the clusters
// that windows are about and everything else with a calendar counts from start.
// Windows and freezes are those of package stages/calendar.
//
// # What a strategy cannot say
//
// These fields stand beside strategy, for what its format has no place for:
//
//	attempts          how often a cluster is tried; -1 is without end
//	backoff, maxBackoff
//	                  the wait before the second attempt, which doubles, and its bound
//	progressDeadline  how long a cluster may take over all attempts
//	minHealthy        how long it has to be healthy
//	maxFailures       of every stage that does not say it; not with Azure's stages
//	strictFailures    true makes every budget a bound
//	domains           of every stage, at most so many clusters in flight of each
//	                  value of a label: [{key: topology.kubernetes.io/region, maxConcurrency: 1}]
//	shares            what stages take of the clusters that no stage selects, by the names
//	                  of the stages: {canary: 10%, half: 50%, all: rest}, or a number
//	cap               how many clusters are in flight at most, as by a cap that runs share
//	rollback          when the run takes back what it brought, and how:
//	                  {causes: [BudgetExceeded, GateRejected], newClusters: Remove,
//	                  approval: {quorums: [{group: sre, count: 2}], expires: 24h}}
//	unassigned        Error, Exclude or FinalStage: clusters that no stage selects
//	starter           who starts the run
//	timeZone, windows, freezes
//	                  of all clusters, beside those of single ones
//
// A strategy may be left out where the profile is ClusterUpdate: then the clusters
// are updated one by one. It is Azure's where a stage has a field that only Azure
// has, and where no stage has one of KubeFleet's and the profile is ClusterUpdate.
//
// # Rollbacks
//
// A run that is taken back is followed at once by the one that does, and commands
// are that run's from then on: an approve of the stage that comes first there, a
// stop. What fails is the new revision: on their way back clusters do not fail,
// unless a fault says during: rollback. Azure's stages may have slipwayRollback, which
// is the same as rollback beside the strategy.
//
// # Errors
//
// Reading is strict: an unknown field, or one that stands twice, is an error and
// never ignored. All that is wrong is told at once, each with its line and path,
// see [Problems]. What a run refuses when it is asked is no error: the simulation
// shows it as an event.
package scenario
