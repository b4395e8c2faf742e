package azure_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/formats/azure"
)

// shownRun returns a run that has reached two of its three gates, in Azure's form.
func shownRun() azure.UpdateRun {
	state := func(state string) azure.UpdateStatus { return azure.UpdateStatus{State: state} }
	failed := azure.UpdateStatus{State: "Failed", Error: &azure.Error{Code: azure.CodeFailed, Message: "no quota"}}
	return azure.UpdateRun{ID: "/runs/r", Name: "r", ResourceGroup: "rg", Status: azure.Status{Status: failed, Stages: []azure.StageStatus{{
		Name: "s", Status: state("Running"), Wait: &azure.WaitStatus{Status: state("NotStarted"), Duration: 60},
		BeforeGates: []azure.GateStatus{{DisplayName: new("may we?"), GateID: new("r-before-s"), Type: "Approval", Status: state("Completed")}},
		AfterGates:  []azure.GateStatus{{Type: "Approval", Status: state("NotStarted")}},
		Groups: []azure.GroupStatus{{
			Name: "g", Status: state("Pending"),
			BeforeGates: []azure.GateStatus{{GateID: new("s/g"), Type: "ScheduledStart", Status: state("Pending")}},
			Members:     []azure.MemberStatus{{Name: "m", Status: failed, Message: new("it does not answer")}},
		}},
	}}}}
}

// Parts are yielded in the order of execution, each with its reason.
func TestPartsOfARun(t *testing.T) {
	var got []string
	u := shownRun()
	for p := range u.Parts {
		got = append(got, strings.Join([]string{p.Stage, p.Group, p.Member, p.Timing, p.Status.State, p.Reason}, " | "))
	}
	want := []string{
		" |  |  |  | Failed | no quota",
		"s |  |  |  | Running | ",
		"s |  |  | Before | Completed | Approval may we?",
		"s | g |  |  | Pending | ",
		"s | g |  | Before | Pending | ScheduledStart",
		"s | g | m |  | Failed | it does not answer",
		"s |  |  | After | NotStarted | Approval",
		"s |  |  |  | NotStarted | wait of 1m0s",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for range u.Parts { // a caller may stop
		break
	}
}

// Gates that the run has not reached are omitted; the others have their positions.
func TestGatesOfARun(t *testing.T) {
	got, err := json.Marshal(azure.FleetGates(shownRun()))
	want := `[{"displayName":"may we?","gateType":"Approval","name":"r-before-s","resourceGroup":"rg","state":"Completed",` +
		`"target":{"id":"/runs/r","updateRunProperties":{"group":null,"name":"r","stage":"s","timing":"Before"}}},` +
		`{"displayName":null,"gateType":"ScheduledStart","name":"s/g","resourceGroup":"rg","state":"Pending",` +
		`"target":{"id":"/runs/r","updateRunProperties":{"group":"g","name":"r","stage":"s","timing":"Before"}}}]`
	if d := cmp.Diff(want, string(got)); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	if gates := azure.FleetGates(azure.UpdateRun{}); gates == nil || len(gates) != 0 {
		t.Errorf("gates of a run without any: %v", gates)
	}
}

// A member has its labels and its update group, and shares nothing with its cluster.
func TestTheClusterOfAMember(t *testing.T) {
	m := azure.FleetMember{Name: "m", ClusterResourceID: "/aks/m", Group: new("g"), Labels: map[string]string{"a": "b"}}
	c := m.Cluster()
	if d := cmp.Diff(map[string]string{"a": "b", azure.UpdateGroupLabel: "g"}, c.Labels); d != "" || c.Name != "m" || c.UID != "/aks/m" {
		t.Errorf("%+v (-want +got):\n%s", c, d)
	}
	c.Labels["a"] = "changed"
	if m.Labels["a"] != "b" {
		t.Error("a cluster shares its labels with the member")
	}
	if c := (azure.FleetMember{Name: "m"}).Cluster(); len(c.Labels) != 0 {
		t.Errorf("a member in no group: %v", c.Labels)
	}
}
