// Package scenario reads scenario files, which describe a simulated rollout: the clusters, the
// strategy that rolls out a change to them, the faults and the commands. Package stages/simulate
// runs a scenario.
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
//	  had: v3                      # the revision before the run, for a rollback; or new: true
//	                               # for none. Clusters without either had the same
//	count: {prefix: c, n: 1000}    # clusters c1 to c1000, with the other fields of
//	                               # clusters too; or a list of such
//	strategy: {stages: [...]}      # a ClusterStagedUpdateStrategy, whole or only its spec,
//	                               # or the stages of an Azure update run
//	start: "2026-01-05T10:00:00Z"  # midnight of that day otherwise
//	take: 10s                      # duration of an attempt at a cluster; no time otherwise
//	faults:
//	- {cluster: c3, fail: 2}       # the first two attempts fail; or always
//	- {cluster: c5, unreachable: [1m, 5m]}
//	- {cluster: c6, unhealthyAt: 30s, for: 10s}  # without for: from then on
//	- {cluster: c7, take: 1h}
//	- {cluster: c8, fail: 1, during: rollback}   # fail and take, during the rollback
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
//	- {at: 14m, do: rollback}                    # also of a run that has ended
//	measures:                      # results of the strategy's checks; others are good
//	- {check: errors, value: 0.2, from: 20m}     # a number, NaN, empty or down
//	- {check: errors, value: 0, from: 40m, cluster: c3}
//	until: 24h                     # 365 days otherwise
//
// Times are durations since the start of the run, which is at 0. For windows and everything else
// that needs a calendar, the run starts at the time in start. Package stages/calendar defines
// windows and freezes.
//
// # Fields beside the strategy
//
// These fields are beside strategy, because its format has no place for them:
//
//	attempts          attempts at a cluster; -1 means no limit
//	backoff, maxBackoff
//	                  the wait before the second attempt, which doubles, and its limit
//	progressDeadline  limit for all attempts at a cluster together
//	unreachableDeadline  limit for the time in which a cluster cannot be reached
//	minHealthy        how long a cluster must be healthy
//	maxFailures       for every stage without its own; not with Azure's stages
//	strictFailures    true makes every budget a hard limit
//	domains           for every stage, the most clusters in flight for each value of a
//	                  label: [{key: topology.kubernetes.io/region, maxConcurrency: 1}]
//	shares            the shares of stages in the clusters that no stage selects, by the
//	                  names of the stages: {canary: 10%, half: 50%, all: rest}, or a number
//	cap               the most clusters in flight, like a cap that runs share
//	rollback          when and how the run is rolled back:
//	                  {causes: [BudgetExceeded, GateRejected], newClusters: Remove,
//	                  approval: {quorums: [{group: sre, count: 2}], expires: 24h}}
//	unassigned        Error, Exclude or FinalStage: clusters that no stage selects
//	starter           who starts the run
//	timeZone, windows, freezes
//	                  for all clusters, in addition to those of single ones
//
// A ClusterStagedUpdateStrategy or StagedUpdateStrategy may also be a document of its own in the
// file, instead of the field strategy.
//
// A strategy may be omitted if the profile is ClusterUpdate: then the clusters are updated one by
// one. The format is Azure's if a stage has a field that only Azure has, or if the profile is
// ClusterUpdate and no stage has a field that only KubeFleet has.
//
// # Rollbacks
//
// A rollback run follows at once after the run that it rolls back, and later commands are for the
// rollback run: an approve of its first stage, a stop. Faults belong to the new revision: during
// a rollback clusters do not fail, unless a fault says during: rollback. Azure's stages may have
// slipwayRollback, which is the same as rollback beside the strategy.
//
// # Errors
//
// Reading is strict: an unknown field or a duplicate is an error and never ignored. An error
// lists all problems, each with its line and path, see problem.List. It is no error if the run
// refuses a command: the simulation shows that as an event.
package scenario
