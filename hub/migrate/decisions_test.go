package migrate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

func read(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func metadataOf(t *testing.T, text string) *metav1.PartialObjectMetadata {
	t.Helper()
	m := &metav1.PartialObjectMetadata{}
	if err := yaml.Unmarshal([]byte("metadata: "+text), m); err != nil {
		t.Fatal(err)
	}
	return m
}

// The changes of each step to the metadata of an object, as JSON; an empty text means no change.
func TestDecisions(t *testing.T) {
	type decision = func(*metav1.PartialObjectMetadata) map[string]any
	owner := `{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: AppliedWork, name: w, uid: u1, blockOwnerDeletion: true}`
	other := `{apiVersion: v1, kind: ConfigMap, name: c, uid: u2}`
	for name, c := range map[string]struct {
		decide   decision
		metadata string
		want     string
	}{
		"an owner": {
			released("u1"), `{ownerReferences: [` + owner + `]}`, `{"ownerReferences":[]}`,
		},
		"an owner beside another one": {
			released("u1"), `{ownerReferences: [` + owner + `, ` + other + `]}`,
			`{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"u2"}]}`,
		},
		"an AppliedWork of that name that is another one": {
			released("u3"), `{ownerReferences: [` + owner + `], managedFields: [{manager: work-api-agent}]}`, `null`,
		},
		"another kind of that UID": {
			released("u2"), `{ownerReferences: [` + other + `]}`, `null`,
		},
		"the agent's fields": {
			released("u1"), `{ownerReferences: [` + owner + `], managedFields: [{manager: work-api-agent}]}`,
			`{"managedFields":[{}],"ownerReferences":[]}`,
		},
		"the agent's annotations": {
			released("u1"),
			`{ownerReferences: [` + owner + `], managedFields: [{manager: work-api-agent, fieldsV1: {
			  "f:data": {}, "f:metadata": {"f:annotations": {".": {}, "f:mine": {}, "f:kubernetes-fleet.io/spec-hash": {}}, "f:ownerReferences": {}}}}]}`,
			`{"managedFields":[{"manager":"work-api-agent","fieldsV1":{"f:metadata":{"f:annotations":{"f:kubernetes-fleet.io/spec-hash":{}}}}}],` +
				`"ownerReferences":[]}`,
		},
		"the fields of others": {
			released("u1"),
			`{ownerReferences: [` + owner + `], managedFields: [{manager: work-api-agent}, {manager: a}, {manager: work-api-agent, subresource: status}]}`,
			`{"managedFields":[{"manager":"a"},{"manager":"work-api-agent","subresource":"status"}],"ownerReferences":[]}`,
		},
		"finalizers": {
			dropFinalizers, `{finalizers: [kubernetes-fleet.io/crp-cleanup, example.com/mine, kubernetes-fleet.io/scheduler-cleanup]}`,
			`{"finalizers":["example.com/mine"]}`,
		},
		"finalizers of others": {dropFinalizers, `{finalizers: [example.com/mine]}`, `null`},
		"a run": {
			markBegun, `{uid: r, finalizers: [kubernetes-fleet.io/stagedupdaterun-finalizer]}`,
			`{"annotations":{"slipway.dev/run-uid":"r/kubefleet"},"finalizers":[]}`,
		},
		"a run that is marked": {markBegun, `{uid: r, annotations: {slipway.dev/run-uid: r/kubefleet}}`, `null`},
		"marks": {
			unmarked,
			`{annotations: {digest.slipway.dev/web: a, epoch.slipway.dev/web: b, x: c}, labels: {slipway.dev/applied: "", y: d},
			  managedFields: [{manager: slipway/web}, {manager: kubectl}]}`,
			`{"annotations":{"digest.slipway.dev/web":null,"epoch.slipway.dev/web":null},"labels":{"slipway.dev/applied":null},` +
				`"managedFields":[{"manager":"kubectl"}]}`,
		},
		"no marks": {unmarked, `{annotations: {x: c}, managedFields: [{manager: kubectl}]}`, `{}`},
		"ties to records": {
			disowned, `{annotations: {slipway.dev/run-uid: a, slipway.dev/seal: b, slipway.dev/created-by: c}, finalizers: [kubernetes-fleet.io/crp-cleanup]}`,
			`{"annotations":{"slipway.dev/run-uid":null,"slipway.dev/seal":null},"finalizers":[]}`,
		},
	} {
		got, err := json.Marshal(c.decide(metadataOf(t, c.metadata)))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, string(got)); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestStatesOfRuns(t *testing.T) {
	for conditions, want := range map[string]RunState{
		``:                                     RunNew,
		`{type: Initialized, status: Unknown}`: RunNew,
		`{type: Initialized, status: "False"}`: RunEnded,
		`{type: Initialized, status: "True"}`:  RunInitialized,
		`{type: Initialized, status: "True"}, {type: Progressing, status: "True"}`:                                      RunActive,
		`{type: Initialized, status: "True"}, {type: Progressing, status: "False", reason: UpdateRunStopped}`:           RunActive,
		`{type: Initialized, status: "True"}, {type: Progressing, status: "False"}, {type: Succeeded, status: "True"}`:  RunEnded,
		`{type: Initialized, status: "True"}, {type: Progressing, status: "False"}, {type: Succeeded, status: "False"}`: RunEnded,
		`{type: Initialized, status: "True"}, {type: Succeeded, status: Unknown, reason: UpdateRunForgotten}`:           RunEnded,
	} {
		if got := readRun(read(t, `{kind: ClusterStagedUpdateRun, metadata: {name: r}, status: {conditions: [`+conditions+`]}}`)).State; got != want {
			t.Errorf("%s: %s, want %s", conditions, got, want)
		}
	}
}

// Objects of a hub of package hub are not KubeFleet's, and vice versa.
func TestProjections(t *testing.T) {
	for name, c := range map[string]struct {
		managedFields string
		want          bool
	}{
		"the hub's":                {`{manager: slipway-hub, operation: Update, fieldsV1: {"f:metadata": {}, "f:spec": {}}}`, true},
		"a label by the hub":       {`{manager: hubagent, fieldsV1: {"f:spec": {}}}, {manager: slipway-hub, fieldsV1: {"f:metadata": {"f:labels": {}}}}`, false},
		"KubeFleet's":              {`{manager: hubagent, fieldsV1: {"f:spec": {}}}`, false},
		"of which nothing is told": {``, false},
	} {
		u := read(t, `{kind: ClusterResourceSnapshot, metadata: {name: s, managedFields: [`+c.managedFields+`]}}`)
		if got := isProjection(u); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestBackupsAreContinued(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup.json")
	one, two := read(t, `{kind: Work, metadata: {name: a, uid: "1"}}`), read(t, `{kind: Work, metadata: {name: a, uid: "2"}}`)
	b, err := openBackup(path, takeOver, "hub-1")
	if err != nil || b.begun {
		t.Fatal(b, err)
	}
	b.add(onHub, one)
	if err := b.save(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info.Mode(), err)
	}
	if b, err = openBackup(path, takeOver, "hub-1"); err != nil || !b.begun {
		t.Fatal(b, err)
	}
	b.add(onHub, one)
	b.add(onHub, two)
	if err := b.save(); err != nil || len(b.Objects) != 2 {
		t.Fatal(len(b.Objects), err)
	}
	for name, open := range map[string]func() (*backup, error){
		"another hub":       func() (*backup, error) { return openBackup(path, takeOver, "hub-2") },
		"another operation": func() (*backup, error) { return openBackup(path, giveBack, "hub-1") },
		"no name":           func() (*backup, error) { return openBackup("", takeOver, "hub-1") },
		"no backup": func() (*backup, error) {
			other := filepath.Join(t.TempDir(), "notes.txt")
			if err := os.WriteFile(other, []byte("notes"), 0o600); err != nil {
				t.Fatal(err)
			}
			return openBackup(other, takeOver, "hub-1")
		},
	} {
		if _, err := open(); err == nil || !strings.Contains(err.Error(), "backup") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A backup file is for one operation. It is refused for a later one: after the operation has
// completed, or if there are new objects to remove.
func TestABackupIsOfOneOperation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "backup.json")
	one, two := read(t, `{kind: Work, metadata: {name: a, uid: "1"}}`), read(t, `{kind: Work, metadata: {name: a, uid: "2"}}`)
	b, err := openBackup(path, takeOver, "hub-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.continues(onHub, []*unstructured.Unstructured{one, two}); err != nil {
		t.Errorf("a new operation: %v", err)
	}
	b.add(onHub, one)
	if err := b.save(); err != nil {
		t.Fatal(err)
	}
	if b, err = openBackup(path, takeOver, "hub-1"); err != nil {
		t.Fatal(err)
	}
	if err := b.continues(onHub, []*unstructured.Unstructured{one}); err != nil {
		t.Errorf("the same object: %v", err)
	}
	if err := b.continues(onHub, []*unstructured.Unstructured{one, two}); err == nil || !strings.Contains(err.Error(), "name another file") {
		t.Errorf("an object that was created later: %v", err)
	}
	if err := b.complete(); err != nil {
		t.Fatal(err)
	}
	if _, err := openBackup(path, takeOver, "hub-1"); err == nil || !strings.Contains(err.Error(), "has completed: name another file") {
		t.Errorf("a completed operation: %v", err)
	}
}

// A running run also blocks a give-back that has begun.
func TestAGiveBackThatHasBegunWaitsForRuns(t *testing.T) {
	run := read(t, `{kind: ClusterStagedUpdateRun, metadata: {name: r}, status: {conditions: [
  {type: Initialized, status: "True", reason: I}, {type: Progressing, status: "True", reason: UpdateRunProgressing}]}}`)
	deleted := read(t, `{kind: ClusterResourcePlacement, metadata: {name: p, deletionTimestamp: "2026-11-20T12:00:00Z"}}`)
	s := &survey{declared: map[schema.GroupVersionResource][]*unstructured.Unstructured{
		api.ClusterScope.GVR(api.RunKind): {run}, api.ClusterScope.GVR(api.PlacementKind): {deleted},
	}}
	for begun, want := range map[bool]int{false: 2, true: 1} {
		if got := (&Migration{}).giveBackBlockers(s, begun); len(got) != want || !strings.Contains(got[0], "ClusterStagedUpdateRun r is under way") {
			t.Errorf("begun %t: %q, want %d", begun, got, want)
		}
	}
}
