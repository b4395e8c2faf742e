package peers

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	theircluster "go.goms.io/fleet/apis/cluster/v1beta1"
	theirs "go.goms.io/fleet/apis/placement/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	ourcluster "github.com/slipway-dev/slipway/api/cluster/v1beta1"
	ours "github.com/slipway-dev/slipway/api/placement/v1beta1"
)

// pair is a kind as KubeFleet and Slipway have it.
type pair struct{ theirs, ours runtime.Object }

// pairs are the kinds that both have. KubeFleet's kinds for its own agents are left out: a hub of
// Slipway has none of them.
func pairs() []pair {
	return []pair{
		{&theirs.ApprovalRequest{}, &ours.ApprovalRequest{}},
		{&theirs.ClusterApprovalRequest{}, &ours.ClusterApprovalRequest{}},
		{&theirs.ClusterResourceBinding{}, &ours.ClusterResourceBinding{}},
		{&theirs.ClusterResourceEnvelope{}, &ours.ClusterResourceEnvelope{}},
		{&theirs.ClusterResourceOverride{}, &ours.ClusterResourceOverride{}},
		{&theirs.ClusterResourceOverrideSnapshot{}, &ours.ClusterResourceOverrideSnapshot{}},
		{&theirs.ClusterResourcePlacement{}, &ours.ClusterResourcePlacement{}},
		{&theirs.ClusterResourcePlacementDisruptionBudget{}, &ours.ClusterResourcePlacementDisruptionBudget{}},
		{&theirs.ClusterResourcePlacementEviction{}, &ours.ClusterResourcePlacementEviction{}},
		{&theirs.ClusterResourcePlacementStatus{}, &ours.ClusterResourcePlacementStatus{}},
		{&theirs.ClusterResourceSnapshot{}, &ours.ClusterResourceSnapshot{}},
		{&theirs.ClusterSchedulingPolicySnapshot{}, &ours.ClusterSchedulingPolicySnapshot{}},
		{&theirs.ClusterStagedUpdateRun{}, &ours.ClusterStagedUpdateRun{}},
		{&theirs.ClusterStagedUpdateStrategy{}, &ours.ClusterStagedUpdateStrategy{}},
		{&theirs.ResourceEnvelope{}, &ours.ResourceEnvelope{}},
		{&theirs.ResourceOverride{}, &ours.ResourceOverride{}},
		{&theirs.ResourceOverrideSnapshot{}, &ours.ResourceOverrideSnapshot{}},
		{&theirs.ResourcePlacement{}, &ours.ResourcePlacement{}},
		{&theirs.ResourceSnapshot{}, &ours.ResourceSnapshot{}},
		{&theirs.SchedulingPolicySnapshot{}, &ours.SchedulingPolicySnapshot{}},
		{&theirs.StagedUpdateRun{}, &ours.StagedUpdateRun{}},
		{&theirs.StagedUpdateStrategy{}, &ours.StagedUpdateStrategy{}},
		{&theircluster.MemberCluster{}, &ourcluster.MemberCluster{}},
	}
}

// leftOut are fields of KubeFleet that Slipway does not have, by type and JSON name, with the
// reason.
var leftOut = map[string]string{
	"ClusterResourceBinding.status":                        "a hub writes bindings for kubectl fleet draincluster, which reads the two fields of the spec",
	"ResourceBindingSpec.resourceSnapshotName":             "as the status of a binding",
	"ResourceBindingSpec.resourceOverrideSnapshots":        "as the status of a binding",
	"ResourceBindingSpec.clusterResourceOverrideSnapshots": "as the status of a binding",
	"ResourceBindingSpec.schedulingPolicySnapshotName":     "as the status of a binding",
	"ResourceBindingSpec.clusterDecision":                  "as the status of a binding",
	"ResourceBindingSpec.applyStrategy":                    "as the status of a binding",
}

// otherTypes are fields whose Go types differ, by type and JSON name, with the reason. The JSON
// is the same.
var otherTypes = map[string]string{
	"ClusterResourceEnvelope.data": "an object of an envelope has the type of an object of a snapshot, whose schema keeps unknown fields",
	"ResourceEnvelope.data":        "as ClusterResourceEnvelope.data",
	"JSONPatchOverride.value":      "apiextensionsv1.JSON is not in apimachinery",
	"MemberClusterSpec.identity":   "rbacv1.Subject is not in apimachinery, and a member of Slipway needs no identity, so it is a pointer",
	"OverrideRule.clusterSelector": "an override selects by labels alone, and its selector has a schema of its own",
	"PatchDetail.valueInHub":       "an empty value is told from an absent one",
	"PatchDetail.valueInMember":    "as PatchDetail.valueInHub",
	"ResourceUsage.allocatable":    "corev1.ResourceList is not in apimachinery; the keys are strings",
	"ResourceUsage.available":      "as ResourceUsage.allocatable",
	"ResourceUsage.capacity":       "as ResourceUsage.allocatable",
	"Taint.effect":                 "corev1.TaintEffect is not in apimachinery",
	"Toleration.effect":            "as Taint.effect",
	"Toleration.operator":          "corev1.TolerationOperator is not in apimachinery",
}

// own are the fields that Slipway adds, by type and JSON name.
var own = []string{
	"ApprovalRequestSpec.attempt", "ApprovalRequestSpec.expires", "ApprovalRequestSpec.placementName", "ApprovalRequestSpec.planDigest", "ApprovalRequestSpec.policy", "ApprovalRequestSpec.resourceSnapshotIndex", "ApprovalRequestSpec.runUID", "ApprovalRequestSpec.startedBy", "ApprovalRequestSpec.when",
	"ApprovalRequestStatus.approvedBy", "ApprovalRequestStatus.decisions", "ApprovalRequestStatus.rejectedBy",
	"ClusterResourceOverrideSpec.priority",
	"ClusterUpdatingStatus.checkStatus", "ClusterUpdatingStatus.resourceSnapshotIndex",
	"MemberClusterStatus.namespace", "MemberClusterStatus.observedIdentity",
	"PerClusterPlacementStatus.differencesTotal",
	"PlacementSpec.carry",
	"PlacementStatus.deletion", "PlacementStatus.placementStatusesTotal", "PlacementStatus.selectedResourcesTotal",
	"ResourceOverrideSpec.priority",
	"SchedulingPolicySnapshotStatus.clusterListing",
	"StageConfig.afterStageChecks", "StageConfig.beforeStageChecks", "StageConfig.checks", "StageConfig.clusterChecks", "StageConfig.maxFailures",
	"StageTask.approval",
	"StageUpdatingStatus.afterStageCheckStatus", "StageUpdatingStatus.beforeStageCheckStatus", "StageUpdatingStatus.checkStatus", "StageUpdatingStatus.clusterCounts",
	"UpdateRunStatus.clusterCounts", "UpdateRunStatus.clusterListing", "UpdateRunStatus.observedEvents", "UpdateRunStatus.planDigest", "UpdateRunStatus.rollbackRunName", "UpdateRunStatus.startedBy", "UpdateRunStatus.summary",
	"UpdateStrategySpec.progressDeadline", "UpdateStrategySpec.unreachableDeadline", "UpdateStrategySpec.rollback",
}

// TestTheFieldsAreKubeFleets compares all types of both by reflection: Go names, JSON names,
// types, and the encoding of an empty field. The tables list the differences of Slipway, and
// there is one rule: it omits a field instead of writing null or {}.
func TestTheFieldsAreKubeFleets(t *testing.T) {
	c := comparison{t: t, seen: map[reflect.Type]bool{}, added: map[string]bool{}, missing: map[string]bool{}, other: map[string]bool{}}
	for _, p := range pairs() {
		a, b := reflect.TypeOf(p.theirs).Elem(), reflect.TypeOf(p.ours).Elem()
		if a.Name() != b.Name() {
			t.Fatalf("%s is compared with %s", a, b)
		}
		c.structs(a, b)
	}
	for _, table := range []struct {
		name  string
		found map[string]bool
		want  []string
	}{
		{"leftOut", c.missing, slices.Collect(maps.Keys(leftOut))},
		{"otherTypes", c.other, slices.Collect(maps.Keys(otherTypes))},
		{"own", c.added, own},
	} {
		got := slices.Sorted(maps.Keys(table.found))
		if slices.Sort(table.want); !slices.Equal(got, table.want) {
			t.Errorf("%s is %q, and the types differ in %q", table.name, table.want, got)
		}
	}
}

// comparison walks two trees of types.
type comparison struct {
	t                     *testing.T
	seen                  map[reflect.Type]bool
	added, missing, other map[string]bool
}

// structs compares two structs field by field.
func (c *comparison) structs(a, b reflect.Type) {
	if c.seen[a] {
		return
	}
	c.seen[a] = true
	fields, have := jsonFields(a), jsonFields(b)
	for name, f := range fields {
		at := b.Name() + "." + name
		g, ok := have[name]
		if !ok {
			c.missing[at] = true
			continue
		}
		if f.Name != g.Name {
			c.t.Errorf("%s: Go's name is %s, KubeFleet's %s", at, g.Name, f.Name)
		}
		if err := sameOmission(f, g); err != nil {
			c.t.Errorf("%s: %v", at, err)
		}
		if c.types(f.Type, g.Type) {
			continue
		}
		c.other[at] = true
	}
	for name := range have {
		if _, ok := fields[name]; !ok {
			c.added[b.Name()+"."+name] = true
		}
	}
}

// types compares two types, and reports whether they have the same name and structure.
func (c *comparison) types(a, b reflect.Type) bool {
	if a == b {
		return true
	}
	if a.Kind() != b.Kind() || a.Name() != b.Name() {
		return false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice:
		return c.types(a.Elem(), b.Elem())
	case reflect.Map:
		return c.types(a.Key(), b.Key()) && c.types(a.Elem(), b.Elem())
	case reflect.Struct:
		if !isPeer(a) || !isPeer(b) {
			return false
		}
		if marshaler := reflect.TypeFor[json.Marshaler](); a.Implements(marshaler) || b.Implements(marshaler) {
			return a.Implements(marshaler) && b.Implements(marshaler) // wire_test.go compares the output
		}
		c.structs(a, b)
		return true
	default:
		return isPeer(a) && isPeer(b)
	}
}

// isPeer reports whether a type is of the packages that are compared.
func isPeer(t reflect.Type) bool {
	return strings.HasPrefix(t.PkgPath(), "go.goms.io/fleet/apis/") || strings.HasPrefix(t.PkgPath(), "github.com/slipway-dev/slipway/api/")
}

// jsonFields returns the fields of a struct by JSON name, including fields of embedded structs.
func jsonFields(t reflect.Type) map[string]reflect.StructField {
	out := map[string]reflect.StructField{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported():
		case name == "" || name == "-":
			maps.Copy(out, jsonFields(f.Type))
		default:
			out[name] = f
		}
	}
	return out
}

// sameOmission compares the encoding of an empty field.
func sameOmission(a, b reflect.StructField) error {
	was, is := emptyText(a), emptyText(b)
	if was == is || is == "" && (was == "null" || was == "{}") {
		return nil
	}
	return fmt.Errorf("an empty field is written as %q, by KubeFleet as %q", is, was)
}

// emptyText is the JSON of an empty field, "" for none. Times that are not set are null.
func emptyText(f reflect.StructField) string {
	_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	list := strings.Split(options, ",")
	omitempty, omitzero := slices.Contains(list, "omitempty"), slices.Contains(list, "omitzero")
	switch f.Type.Kind() {
	case reflect.Struct:
		switch {
		case omitzero:
			return ""
		case f.Type.Name() == "Time", f.Type.Name() == "JSON":
			return "null"
		default:
			return "{}"
		}
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if omitempty || omitzero {
			return ""
		}
		return "null"
	default:
		if omitempty || omitzero {
			return ""
		}
		return "zero"
	}
}
