package azure

import (
	"maps"

	"github.com/slipway-dev/slipway/placement"
)

// FleetMember is a member of a fleet in the form of az fleet member show.
type FleetMember struct {
	ClusterResourceID string `json:"clusterResourceId"`
	// Group is null for a member that is in no update group.
	Group         *string           `json:"group"`
	Labels        map[string]string `json:"labels,omitempty"`
	Name          string            `json:"name"`
	ResourceGroup string            `json:"resourceGroup"`
}

// Cluster returns the member as a cluster that strategies can select: with its labels, and with
// [UpdateGroupLabel] for its update group. Its UID is the member's resource id. The cluster shares
// nothing with the member.
func (m FleetMember) Cluster() placement.Cluster {
	labels := map[string]string{}
	maps.Copy(labels, m.Labels)
	if m.Group != nil {
		labels[UpdateGroupLabel] = *m.Group
	}
	return placement.Cluster{Name: m.Name, UID: m.ClusterResourceID, Labels: labels}
}

// FleetUpdateStrategy is a strategy that is stored for future runs, in the form of az fleet
// updatestrategy show.
type FleetUpdateStrategy struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	ResourceGroup string   `json:"resourceGroup"`
	Strategy      Strategy `json:"strategy"`
}

// FleetGate is a gate that an update run has reached, in the form of az fleet gate show.
// [FleetGates] makes the gates of a run.
type FleetGate struct {
	DisplayName *string `json:"displayName"`
	Type        string  `json:"gateType"`
	// Name is the GateID of [GateStatus].
	Name          string     `json:"name"`
	ResourceGroup string     `json:"resourceGroup,omitempty"`
	State         string     `json:"state"`
	Target        GateTarget `json:"target"`
}

// GateTarget is the owner of a gate, in Azure's form.
type GateTarget struct {
	ID  string  `json:"id,omitempty"`
	Run GateRun `json:"updateRunProperties"`
}

// GateRun is the position of a gate in a run, in Azure's form. Group is null for a gate of a
// stage.
type GateRun struct {
	Group *string `json:"group"`
	Name  string  `json:"name"`
	Stage string  `json:"stage"`
	// Timing is Before or After.
	Timing string `json:"timing"`
}

// FleetGates returns the gates that a run has reached, in the order of its stages and groups. It
// is empty, and not nil, if there are none.
func FleetGates(u UpdateRun) []FleetGate {
	out := []FleetGate{}
	for p := range u.Parts {
		if p.Gate == nil || p.Gate.GateID == nil {
			continue
		}
		out = append(out, FleetGate{
			DisplayName: p.Gate.DisplayName, Type: p.Gate.Type, Name: *p.Gate.GateID, ResourceGroup: u.ResourceGroup, State: p.Status.State,
			Target: GateTarget{ID: u.ID, Run: GateRun{Group: optional(p.Group), Name: u.Name, Stage: p.Stage, Timing: p.Timing}},
		})
	}
	return out
}
