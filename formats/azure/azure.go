// Package azure converts the files and the statuses of Azure Kubernetes Fleet Manager's cluster
// update runs to Slipway's types and back.
//
//	stages of a strategy or a run    stages.Strategy: Read, StrategyOf, Write
//	managedClusterUpdate             upgrade.Target: ReadUpdate, UpdateOf, WriteUpdate
//	targets of a skip                stages.Command: SkipOf
//	an update run with its status    UpdateRun, which NewUpdateRun makes
//	the gates of an update run       FleetGate, which FleetGates makes
//	a member, a stored strategy      FleetMember, FleetUpdateStrategy
//	an auto-upgrade profile          AutoUpgradeProfile: ReadAutoUpgradeProfile
//
// The names and shapes of fields come from Azure's REST API, version 2026-05-01-preview, and the
// documentation of maxAllowedFailures. The az program uses the same names and shapes in its files
// and output, except that it has the fields of properties one level up.
//
// A strategy has profile ClusterUpdate. Its groups select members by the label
// [UpdateGroupLabel], or by their memberSelector, among the members that the memberSelector of
// the stage selects; a member in no group is left out. Azure runs at most 50 members of a stage at
// a time unless maxConcurrency is lower, and one member of a group at a time unless the group's
// maxConcurrency is higher. It allows no failure in a stage or a group unless maxAllowedFailures
// does. Reading writes these defaults into the strategy, so that it means the same here.
//
// It differs from Azure as follows: maxConcurrency and maxAllowedFailures may be numbers as well
// as strings, and a memberSelector a string as well as an object; they are written in Azure's
// form. A side of a stage or a group accepts at most one gate of each type. Stages must not be
// named "unassigned" or "remove".
//
// Azure's runs have no rollback. The property slipwayRollback, beside stages, requests a rollback,
// see [stages.RollbackPolicy]:
//
//	"slipwayRollback": {"causes": ["BudgetExceeded"], "newClusters": "Remove",
//	  "approval": {"quorums": [{"group": "sre", "count": 2}], "expires": "24h"}}
//
// All of it is optional; {} rolls a run back if a budget is exceeded or a gate is rejected. It is
// for runs that place objects. For upgrades of clusters it is refused, because no control plane
// goes to a lower version, see [CheckUpgrade].
//
// Reading is strict: an unknown field is an error, and an error lists all problems with lines.
// Everything here is a pure function of its arguments, except for reading from the reader.
package azure

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/stages"
)

// UpdateGroupLabel is the label of a cluster with the name of its update group.
const UpdateGroupLabel = "slipway.dev/update-group"

// OneByOneName is the name of the only stage and of the only group of [OneByOne].
const OneByOneName = "one-by-one"

// Azure's limits.
const (
	// MaxName is the greatest length of the name of a stage, a group, a run, a strategy or a member.
	MaxName = 50
	// MaxGroups is the greatest number of groups in a stage.
	MaxGroups = 50
	// MaxConcurrency is the greatest number of concurrent updates in a stage.
	MaxConcurrency = 50

	// MaxStages is the greatest number of stages; Azure does not document its limit.
	MaxStages = 100

	maxDisplayName = 100
	maxSelector    = 512
	// maxWait is the longest wait after a stage in seconds: 365 days.
	maxWait = 365 * 24 * 60 * 60
)

// OneByOne returns the strategy of a run without stages: all members, one after the other.
func OneByOne() stages.Strategy {
	return strategyOf(stages.Stage{
		Name: OneByOneName, Selector: everything(), MaxConcurrency: new(intstr.FromInt32(MaxConcurrency)),
		Groups: []stages.Group{{Name: OneByOneName, Selector: everything(), MaxFailures: new(intstr.FromInt32(0))}},
	})
}

// IsOneByOne reports whether a strategy equals [OneByOne].
func IsOneByOne(s *stages.Strategy) bool {
	if len(s.Stages) != 1 || len(s.Stages[0].Groups) != 1 {
		return false
	}
	st := &s.Stages[0]
	return st.Name == OneByOneName && st.Groups[0].Name == OneByOneName && isEverything(st.Selector) && isEverything(st.Groups[0].Selector)
}

// strategyOf returns a strategy with Azure's profile.
func strategyOf(list ...stages.Stage) stages.Strategy {
	return stages.Strategy{Stages: list, Unassigned: stages.UnassignedExclude, Profile: stages.ClusterUpdate}
}

// CheckUpgrade returns an error if a strategy for upgrades of clusters requests a rollback. A
// rollback would need a lower version, and package upgrade refuses a plan to a lower version for
// each cluster before anything begins, so the rollback would have no effect when it is needed.
func CheckUpgrade(s *stages.Strategy) error {
	if s.Rollback == nil {
		return nil
	}
	return errors.New(rollbackField + ": a cluster that was upgraded does not go back to a lower version; leave it out of a strategy that upgrades clusters")
}

func everything() *metav1.LabelSelector { return &metav1.LabelSelector{} }

func isEverything(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// groupSelector selects the members of an update group.
func groupSelector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{UpdateGroupLabel: name}}
}
