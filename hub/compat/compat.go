// Package compat has the compatibility setting of a hub: the version of KubeFleet whose behaviour
// the hub has if versions of KubeFleet differ.
//
// All differences are in [Setting.Behaviour] and, for the definitions, in
// hub/manifests/internal/generate. docs/hub.md has the table for users.
package compat

import (
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
)

// Setting names a version of KubeFleet by its date or its number. The zero value is [Default].
type Setting string

// The settings.
const (
	// July2025 is KubeFleet as the tutorial of Azure Kubernetes Fleet Manager shows it, of July 2025.
	July2025 Setting = "2025-07"
	// KubeFleet018 is KubeFleet v0.18, of August 2026.
	KubeFleet018 Setting = "v0.18"

	// Default is the setting of a hub that names none.
	Default = July2025
)

// Label is the label of the definitions that differ and of the Lease of the leading hub. Its value
// is the setting.
const Label = "slipway.dev/compatibility"

// Settings returns all settings, the default first.
func Settings() []Setting { return []Setting{July2025, KubeFleet018} }

// Parse returns the setting of that name, Default if it is empty.
func Parse(name string) (Setting, error) {
	if name == "" {
		return Default, nil
	}
	var known []string
	for _, s := range Settings() {
		if string(s) == name {
			return s, nil
		}
		known = append(known, string(s))
	}
	return "", fmt.Errorf("compatibility %q is not known: use %s", name, strings.Join(known, " or "))
}

// OrDefault returns the setting, Default if it is empty.
func (s Setting) OrDefault() Setting {
	if s == "" {
		return Default
	}
	return s
}

// Behaviour holds the differences between the settings, except the differences of the definitions.
type Behaviour struct {
	// State is the state of a run without spec.state. The definitions write it into runs if it is
	// Initialize.
	State v1beta1.State
	// SnapshotsOfChanges reports whether a change of the objects that an External placement
	// selects makes a snapshot, as under RollingUpdate. Otherwise only a run without an index
	// takes one.
	SnapshotsOfChanges bool
	// Requests says how approval requests are named. A run keeps the names that it began with.
	Requests approval.Naming
	// RefusedForGood reports whether a run that could not be planned is never planned. Otherwise it is
	// planned again after a change of its spec.state.
	RefusedForGood bool
	// TasksBySide reports whether the reasons of the tasks of stages begin with BeforeStageTask or
	// AfterStageTask, and whether messages name the kind of the object. Otherwise they begin with
	// StageTask and messages name no kind.
	TasksBySide bool
}

// Behaviour returns the behaviour of a hub with the setting.
func (s Setting) Behaviour() Behaviour {
	if s.OrDefault() == KubeFleet018 {
		return Behaviour{State: v1beta1.StateInitialize, Requests: approval.NamedBySide}
	}
	return Behaviour{State: v1beta1.StateRun, SnapshotsOfChanges: true, Requests: approval.NamedByStage, RefusedForGood: true, TasksBySide: true}
}
