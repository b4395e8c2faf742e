// Package azure answers how the files and the statuses of Azure Kubernetes Fleet
// Manager's cluster update runs become Slipway's nouns, and how those become such
// files and statuses again.
//
//	stages of a strategy or a run    stages.Strategy: Read, StrategyOf, Write
//	managedClusterUpdate             upgrade.Target: ReadUpdate, UpdateOf, WriteUpdate
//	targets of a skip                stages.Command: SkipOf
//	an update run with its status    UpdateRun, which NewUpdateRun makes
//	the gates of an update run       FleetGate, which FleetGates makes
//	a member, a stored strategy      FleetMember, FleetUpdateStrategy
//	an auto-upgrade profile          AutoUpgradeProfile: ReadAutoUpgradeProfile
//
// The names of fields and their shapes are those of Azure's REST API, version
// 2026-05-01-preview and the documentation of maxAllowedFailures; what the az
// program reads from a file has the same ones, and what it prints too, with
// properties one level up.
//
// A strategy has profile ClusterUpdate. Its groups select members by the label
// [UpdateGroupLabel], or as their memberSelector says, among those that the
// memberSelector of the stage selects; a member in no group is left out. Of one
// stage, Azure runs at most 50 members at a time unless maxConcurrency says less,
// one of a group unless the group's says more, and no failure is allowed unless
// maxAllowedFailures says so, in the group too. Reading says all of that in the
// strategy, so that it means the same here.
//
// It differs from Azure in this: maxConcurrency and maxAllowedFailures may be
// numbers as well as strings, and a memberSelector a string as well as an object;
// they are written as Azure has them. A side of a stage or a group takes at most
// one gate of each type. Names of stages are not "unassigned" or "remove".
//
// Azure's runs take nothing back. Beside stages, the property slipwayRollback asks
// for that, see [stages.RollbackPolicy]:
//
//	"slipwayRollback": {"causes": ["BudgetExceeded"], "newClusters": "Remove",
//	  "approval": {"quorums": [{"group": "sre", "count": 2}], "expires": "24h"}}
//
// All of it is optional; {} takes back what a run brought when a budget is exceeded or
// a gate is rejected. It is for runs that place objects. Upgrades of clusters are
// mostly not taken back, since no control plane goes to a lower version: for those it
// is refused, see [CheckUpgrade].
//
// Reading is strict: an unknown field is an error, and all that is wrong is told at
// once, with lines. Everything here is a pure function of its arguments, but for
// reading the reader.
package azure

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/stages"
)

// UpdateGroupLabel is the label of a cluster that has the name of its update group.
const UpdateGroupLabel = "slipway.dev/update-group"

// OneByOneName is the name of the only stage and of the only group of [OneByOne].
const OneByOneName = "one-by-one"

// Azure's limits.
const (
	// MaxName is how long the name of a stage, a group, a run, a strategy or a
	// member may be.
	MaxName = 50
	// MaxGroups is how many groups a stage may have.
	MaxGroups = 50
	// MaxConcurrency is how many members may be updated at the same time in a stage.
	MaxConcurrency = 50

	// MaxStages is how many stages are read; Azure does not tell its limit.
	MaxStages = 100

	maxDisplayName = 100
	maxSelector    = 512
	// maxWait is how many seconds a stage may wait: 365 days.
	maxWait = 365 * 24 * 60 * 60
)

// OneByOne returns the strategy of a run that is given no stages: all members, one
// after the other.
func OneByOne() stages.Strategy {
	return strategyOf(stages.Stage{
		Name: OneByOneName, Selector: everything(), MaxConcurrency: new(intstr.FromInt32(MaxConcurrency)),
		Groups: []stages.Group{{Name: OneByOneName, Selector: everything(), MaxFailures: new(intstr.FromInt32(0))}},
	})
}

// IsOneByOne reports whether a strategy is that of [OneByOne].
func IsOneByOne(s *stages.Strategy) bool {
	if len(s.Stages) != 1 || len(s.Stages[0].Groups) != 1 {
		return false
	}
	st := &s.Stages[0]
	return st.Name == OneByOneName && st.Groups[0].Name == OneByOneName && isEverything(st.Selector) && isEverything(st.Groups[0].Selector)
}

// strategyOf returns a strategy of Azure's kind.
func strategyOf(list ...stages.Stage) stages.Strategy {
	return stages.Strategy{Stages: list, Unassigned: stages.UnassignedExclude, Profile: stages.ClusterUpdate}
}

// CheckUpgrade returns an error where a strategy is not for runs that upgrade
// clusters: where it asks for a rollback. What such a run would take back is a
// version, and package upgrade refuses a plan to a lower one for each cluster before
// anything begins, so that the rollback would come to nothing when it is needed.
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
