package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/step"
	"github.com/slipway-dev/slipway/versioned"
)

var updateGolden = flag.Bool("update-golden", false, "rewrite the golden files of stored records")

// goldenRecords returns records with every field set, by the name of their file.
func goldenRecords() map[string]any {
	out := map[string]any{
		"placement":    goldenPlacement(),
		"run":          goldenRun(),
		"run-paged":    goldenPagedRun(),
		"inflight":     &inFlightPage{Format: 1, InFlight: []runstate.InFlight{goldenInFlight}},
		"unsuccessful": &listPage[runstate.Unsuccessful]{Format: 1, List: goldenRun().Run.Form(runstate.Key{}).Unsuccessful},
		"waiting":      &listPage[runstate.Retrying]{Format: 1, List: goldenRun().Run.Form(runstate.Key{}).Waiting},
		"journal": &JournalPage{Format: 1, First: 12, Prev: "0-prev", Events: []json.RawMessage{
			Encode(&stages.Event{Time: goldenTime, Type: stages.ClusterApplied, Placement: "web", Run: "r", Stage: "s", Cluster: "c", Attempt: 1}),
		}},
		"selection": &SelectionPage{Format: 1, Clusters: []string{"member1", "member2"}},
		"deleted": &Deleted{
			Format: 1, UID: "placement-uid", Epoch: 9, Journal: Journal{Events: 1, First: 1, Tail: "tail", Last: []json.RawMessage{[]byte(`{"type":"PlacementDeleted"}`)}},
			Report: &DeletionReport{
				Owner: "owner-uid", By: "ann", End: lifecycle.DeleteObjects, Run: "deletion-uid", Since: 1700000000000, Ended: 1700000000001,
				Clusters: 3, Done: 2, SkippedClusters: []UncleanedCluster{{"member2", "not reached"}}, Skipped: 1,
				Released: []UncleanedCluster{{"member1", "ConfigMap default/x: not deleted: it was there before"}},
			},
		},
		"intent": &Intent{Format: 1, Run: "run-1", Plan: "plan", Lost: true},
		"cap": &Cap{Format: 1, Cap: stages.Cap{
			Name: "database", Limit: 5, Turns: 3, Shares: []stages.Share{{UID: "uid", Run: "run-1", Epoch: 4, Holds: 2, Wants: 3, Turn: 1}},
		}},
		"strategy": &Strategy{Format: 1, Strategy: stages.Strategy{
			Name: "careful", Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}, After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}}}},
		}},
		"checkobject": &CheckObject{
			Format: 1, Run: "run-1", RunUID: "uid", Epoch: 4, Cluster: "member1", ClusterUID: "member1-uid", Check: "smoke",
		},
		"engine":   &Engine{Format: 1, Runs: 3, At: 1700000000000, Until: 1700000015000, Lapsed: []string{"run/r"}, Ending: true},
		"watch":    &WatchLease{Format: 1, Holder: "engine-a", Until: 1700000000000},
		"drift":    &Drift{Format: 1, ClusterReport: goldenDrift()},
		"bindings": &bindingsPage{Format: 1, Groups: []bindingsGroup{{lifecycle.Binding{ProvenIndex: 4, Attempted: 5, Revision: "rev", Policy: 2, Unproven: true}, []string{"member1", "member2"}}}},
	}
	by := approval.Identity{Name: "ann", Groups: []string{"sre"}}
	for verb, c := range map[stages.Verb]stages.Command{
		stages.Start: {}, stages.Stop: {}, stages.Abort: {},
		stages.Skip:      {Scope: stages.SkipGroup, Name: "canary/eu"},
		stages.Supersede: {},
		stages.Decide:    {Decision: &approval.Decision{Verdict: approval.Approve, By: by, At: goldenTime, Comment: "looks fine", Binding: goldenBinding}},
	} {
		c.ID, c.Verb, c.By, c.At, c.Message = "id-1", verb, by, goldenTime, "because"
		out["command-"+strings.ToLower(string(verb))] = &Command{Format: 1, Command: c}
	}
	groupBinding := goldenBinding
	groupBinding.Group = "eu"
	for name, c := range map[string]stages.Command{
		"takeback":     {Verb: stages.RequestRollback, Name: "run-1-rollback"},
		"retry":        {Verb: stages.Retry, Only: stages.OnlyFailed},
		"completegate": {Verb: stages.CompleteGate, Name: "canary/eu"},
		"bypass":       {Verb: stages.BypassWindows, Until: goldenTime.Add(time.Hour)},
		"decide-group": {Verb: stages.Decide, Decision: &approval.Decision{Verdict: approval.Approve, By: by, At: goldenTime, Binding: groupBinding}},
	} {
		c.ID, c.By, c.At, c.Message = "id-1", by, goldenTime, "because"
		rec := NewCommand(c)
		out["command-"+name] = &rec
	}
	return out
}

var (
	goldenTime     = time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	goldenBinding  = approval.Binding{RunUID: "uid", Stage: "canary", When: approval.After, Attempt: 1, Plan: "plan"}
	goldenInFlight = runstate.InFlight{Pos: 7, Attempt: 2, Phase: stages.BackingOff, Sent: true, Assumed: true, Drain: true, Started: 1700000000001, SoakEnds: 1700000000005, NotYet: 1700000000002, Message: "not healthy", Tries: 3, Since: 1700000000000, Checks: &runstate.ClusterCheckRun{Since: 1700000000003, Until: 1700000000004, Checks: []stages.CheckRun{goldenCheck}}}
	goldenCheck    = stages.CheckRun{
		Name: "errors", Phase: check.Failed, Number: 10, Successful: 1, Failed: 2, Inconclusive: 3, Errors: 4, ErrorsInARow: 5, Last: check.Error,
		Value: "0.2", Message: "0.2 is more than 0.1", At: 6, Next: 7, Bad: "check errors is Failed",
	}
	goldenEntry = lifecycle.Entry{UID: "uid-1", Run: "run-1", Index: 4, Evicts: true}
)

func goldenPlacement() *Placement {
	set := snapshot.Digest([]byte("set"))
	return &Placement{
		Format: 1, Key: []byte("0123456789abcdef0123456789abcdef"),
		Inline: map[string]bindingsPage{"3-id": {Format: 1, Groups: []bindingsGroup{{lifecycle.Binding{ProvenIndex: 4, Attempted: 5, Revision: "rev", Policy: 2, Unproven: true}, []string{"member1"}}}}},
		Placement: Declaration{
			Name: "web", Owner: "owner-uid", Namespace: "test-namespace",
			Selectors: []snapshot.Selector{{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web", Scope: snapshot.NamespaceWithResources}},
			Carry:     []snapshot.Carry{snapshot.CarryOwned},
			Policy:    goldenPickN(),
			Overrides: []placement.Override{{
				Priority: 7, Name: "o", Namespace: "ns", Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "c"}},
				Rules: []placement.Rule{{
					ClusterSelector: &placement.ClusterSelector{Terms: []placement.ClusterTerm{{ClusterNames: []string{"member1"}, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}}},
					Type:            placement.JSONPatch,
					Patches:         []placement.Patch{{Op: placement.OpReplace, Path: "/data/k", Value: json.RawMessage(`"v"`)}},
				}},
			}},
			HistoryLimit: 3, RunHistory: 5, Admission: stages.SupersedeActive, AllowCoOwnership: true,
			Exclusive: true, AllowEmpty: true, DeletePolicy: placement.DeleteAll, ReportStatus: true, ApplyStrategy: goldenApply(),
		},
		Journal: Journal{Events: 17, First: 5, Tail: "12-tail", Last: []json.RawMessage{[]byte(`{"type":"RunTaken"}`)}},
		State: lifecycle.State{
			UID: "placement-uid", Epoch: 9, NextIndex: 6,
			Snapshots: []snapshot.Snapshot{{
				Placement: "web", Index: 5, Set: set, Overrides: snapshot.Digest(nil), Digest: set, Objects: 2, TakenAt: goldenTime,
				Envelopes: 2, Enveloped: []snapshot.GroupKind{{Group: "apps", Kind: "Deployment"}, {Group: "example.com", Kind: "Widget"}},
				Origins: set, Repeats: 1, Omitted: []snapshot.Omission{{GroupKind: snapshot.GroupKind{Group: "apps", Kind: "Deployment"}, Reason: snapshot.NotSet, Field: "spec.replicas", Count: 2, Names: []string{"shop/web"}}},
				Unplaced: []snapshot.Unplaced{{
					ID: snapshot.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop"}, GenerateName: "web-", Reason: snapshot.WrongScope,
					First:    &snapshot.ID{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ResourceEnvelope", Namespace: "shop", Name: "first"},
					Envelope: snapshot.ID{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ResourceEnvelope", Namespace: "shop", Name: "hard"},
				}},
			}},
			Selection: &lifecycle.Selection{Index: 1, PolicyDigest: "policy", Digest: "selection", Clusters: 3, Pages: 1},
			InUse:     []int{4, 5}, Whole: new(5), Previous: new(4),
			Bindings: lifecycle.Generation{Generation: 2, ID: "roster-id", Pages: 1},
			Queue: lifecycle.Queue{
				Active: &goldenEntry, Waiting: []lifecycle.Entry{{UID: "uid-2", Run: "run-2", Index: 5, Evicts: true}},
				Superseded: []lifecycle.Superseder{{Entry: goldenEntry, By: "run-2"}},
			},
			Runs:         []lifecycle.Run{{Name: "run-1", UID: "uid-1", Index: 4, Plan: "plan", Ended: stages.Completed, Restart: 2, Nth: 1, RollbackOf: "uid-0", RolledBackBy: "run-2", RollbackRefused: "because", Evicts: []string{"m"}}},
			Ended:        1,
			Retired:      []lifecycle.Run{{Name: "run-0", UID: "uid-0", Index: 3, Plan: "plan-0", Ended: stages.Failed, Restart: 2, Nth: 7, RollbackOf: "uid-0", RolledBackBy: "run-2", RollbackRefused: "because", Evicts: []string{"m"}}},
			GCGeneration: 3,
			Deleting:     &lifecycle.Deletion{By: "ann", Since: 1700000000000, Deadline: metav1.Duration{Duration: time.Minute}, MaxConcurrency: new(intstr.FromInt32(50)), End: lifecycle.OrphanObjects, Run: "deletion-uid"},
			Base:         &lifecycle.Base{UID: "uid-1", Run: "run-1", Bindings: lifecycle.Generation{Generation: 1, ID: "base-id", Pages: 1}, InUse: []int{3}},
			Rollback:     &lifecycle.PendingRollback{Of: "uid-1", OfRun: "run-1", Run: "run-1-rollback", UID: "uid-9", RollbackRequest: goldenUndo(), Since: 1700000000000},
			Irreversible: []int{2, 5},
		},
	}
}

func goldenApply() apply.Strategy {
	return apply.Strategy{
		Type: apply.ServerSide, ComparisonOption: drift.Full, WhenToApply: apply.IfNotDrifted, WhenToTakeOver: apply.IfNoDiff,
		Ignore: []drift.IgnoreRule{{
			Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "web",
			Pointers: []string{"/spec/replicas"}, Managers: []string{"autoscaler"}, Classes: []drift.Class{drift.Changed},
		}},
		Secrets: []string{"/data/token"}, DryRun: true, RefuseConflicts: true,
		Health: []health.Rule{{
			Group: "example.io", Version: "v1", Kind: "Database", Ready: "self.ok", Failed: "self.broken", Message: "self.why", AnyGeneration: true,
		}},
	}
}

func goldenDrift() drift.ClusterReport {
	return drift.ClusterReport{
		Placement: "web", Cluster: "member1", State: drift.Compared, Revision: "rev", Observed: goldenTime, Total: 1, Problems: []string{"too deep"},
		Objects: []drift.ObjectReport{{
			Reason: drift.FoundDrifts, Observed: goldenTime, FirstObserved: goldenTime.Add(-time.Hour),
			Report: drift.Report{
				Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "ns", Name: "web", State: drift.Present, Generation: 7,
				Total: 1, Truncated: true, Warnings: []string{"duplicate key"}, Fingerprint: "f",
				Differences: []drift.Difference{{
					Path: "/spec/replicas", HubPath: "/spec/replicas", KeyPath: ".spec.replicas", AtomicPath: "/spec", Class: drift.Changed,
					Hub: json.RawMessage("2"), Member: json.RawMessage("7"), Note: "n",
					Owner: &drift.Owner{Manager: "kubectl-edit", Operation: "Update", Subresource: "scale", Time: "2026-11-20T12:00:00Z"},
				}},
			},
		}},
	}
}

func goldenRun() *Run {
	undo := goldenUndo()
	gates := []runstate.Gate{{
		When: approval.Before, Type: stages.ScheduledStart, State: stages.Completed, Opened: 3, Until: 4, Attempt: 1, Ended: 4, By: "ann", Answered: []string{"gauge"},
		Checks:    []stages.CheckRun{goldenCheck},
		Decisions: []approval.Decision{{Verdict: approval.Reject, By: approval.Identity{Name: "bob"}, At: goldenTime, Comment: "no", Binding: goldenBinding, PointInTime: true}},
	}}
	rec := &Run{
		Title: "a-namespace/a-name", RollbackOf: "uid-0", Version: "version", Owner: "owner-uid", Of: "placement-uid", Final: lifecycle.DeleteObjects, Whole: true, Apply: goldenApply(), AllowCoOwnership: true, GCGeneration: 3, Seq: 42, Try: 40, InFlight: InFlight{Here: []runstate.InFlight{goldenInFlight}, Pages: []string{"9-41-0", ""}},
		Selection: &lifecycle.Selection{Index: 1, PolicyDigest: "policy", Digest: "selection", Clusters: 3, Pages: 1},
		Lease:     Lease{Holder: "engine-a", Epoch: 9, Until: 1700000000000},
		Journal:   Journal{Events: 3, First: 1, Tail: "0-tail", Last: []json.RawMessage{[]byte(`{"type":"RunTaken"}`)}},
		Run: step.Run{
			Name: "run-1", UID: "uid-1", Placement: "web", Plan: "plan", Starter: approval.Identity{Name: "ann", Groups: []string{"sre"}},
			State: stages.Stopping, Reason: "stopped by bob", Ahead: "run-0", Hold: true, Ending: stages.Stopped, Attempt: 2,
			Now: 5, Created: 1, Started: 2, Ended: 4,
		},
	}
	*rec.Run.Form(runstate.Key{}) = runstate.Form{
		StopAt: 6, Stage: 1,
		Closing: &runstate.Closing{State: stages.Failed, Reason: "2 clusters have failed"}, Halted: 7, Capped: true, RollbackRequest: &undo,
		Bypass: &runstate.Bypass{Until: 9, By: "ann", Reason: "security fix"},
		Stages: []runstate.StageRun{{
			State: stages.Running, Reached: 1, Started: 2, Done: 3, Ended: 4, Clock: runstate.Clock{Deadline: 8, TimedOut: true},
			Groups: []runstate.GroupRun{{
				Next: 4, Completed: 1, Failed: 2, Skipped: 1, Reached: 1, Done: 3, Ended: 4, Gates: gates, SkipGates: true, Cells: []int{3, 1},
				Deferred: []runstate.Deferred{{First: 1, Last: 1, Closed: true, NotYet: 9, Reason: "freeze"}}, Clock: runstate.Clock{Deadline: 9, TimedOut: true},
			}},
			Gates: gates, Checks: []stages.CheckRun{goldenCheck}, SkipGates: true, SkipWait: true,
		}},
		Waiting:      []runstate.Retrying{{Pos: 1, Attempt: 2, Sent: true, Tries: 3, Since: 3, NotYet: 4, Started: 2, Spent: 7, Message: "unreachable", Closed: true}},
		Unsuccessful: []runstate.Unsuccessful{{First: 2, Last: 3, State: stages.Skipped, Gone: true, Unreached: true, Attempts: 2, Reason: "removed", Sent: true}},
		Seen:         []string{"id-1"},
	}
	return rec
}

// goldenPickN returns a policy with every field that a PickN policy can have.
func goldenPickN() placement.Policy {
	prod := metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	four := resource.MustParse("4")
	return placement.Policy{
		Type: placement.PickN, NumberOfClusters: new(3),
		Required:    []placement.Term{{LabelSelector: prod, Properties: []placement.PropertyRequirement{{Name: "nodes", Operator: placement.Ge, Value: four}}}},
		Preferred:   []placement.Preference{{Weight: 20, LabelSelector: &prod, Sorter: &placement.PropertySorter{Name: "nodes", Order: placement.Descending}}},
		Spread:      []placement.SpreadConstraint{{MaxSkew: 2, TopologyKey: "region", WhenUnsatisfiable: placement.ScheduleAnyway}},
		Tolerations: []placement.Toleration{{Key: "k", Operator: placement.Equal, Value: "v", Effect: placement.NoSchedule}},
	}
}

func goldenUndo() stages.RollbackRequest {
	return stages.RollbackRequest{Cause: stages.OnCommand, Run: "run-1-rollback", By: approval.Identity{Name: "ann", Groups: []string{"sre"}}, Message: "taken back by ann"}
}

// goldenPagedRun returns a run whose lists of failures are in pages.
func goldenPagedRun() *Run {
	r := goldenRun()
	r.Run.Form(runstate.Key{}).Unsuccessful, r.Run.Form(runstate.Key{}).Waiting = nil, nil
	r.InFlight.Unsuccessful, r.InFlight.Waiting = []string{"9-41-40-x0", ""}, []string{"9-41-40-w0"}
	return r
}

// Every stored record has exactly the bytes of its golden file, with every field set, and decodes
// from them.
func TestGoldenRecords(t *testing.T) {
	for name, rec := range goldenRecords() {
		t.Run(name, func(t *testing.T) {
			partly := strings.HasPrefix(name, "command-") || name == "journal" || name == "strategy" // the plan of a run has a whole strategy
			if at := unset(reflect.ValueOf(rec), name, excused(name)); at != "" && !partly {
				t.Errorf("%s is not set: the golden file proves nothing about it", at)
			}
			file := filepath.Join("testdata", "golden", name+".json")
			got := append(Encode(rec), '\n')
			if *updateGolden {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("the encoding changed:\n got %s\nwant %s", got, want)
			}
			back := reflect.New(reflect.TypeOf(rec).Elem()).Interface()
			if err := Decode(backend.Record{Key: name, Value: bytes.TrimSpace(want)}, back); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(rec, back, cmp.Exporter(func(reflect.Type) bool { return true })); d != "" {
				t.Error(d)
			}
		})
	}
}

// unset returns the path of a zero field whose absence from the file would not be noticed, or "".
// Selectors are only partly set, because some of their fields exclude others.
func unset(v reflect.Value, at string, excused map[string]bool) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return at
		}
		return unset(v.Elem(), at, excused)
	case reflect.Slice:
		if v.Len() == 0 {
			return at
		}
		return unset(v.Index(0), at+"[0]", excused)
	case reflect.Struct:
		if strings.HasPrefix(v.Type().PkgPath(), "k8s.io/") || v.Type() == reflect.TypeFor[time.Time]() {
			return ""
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || f.Tag.Get("json") == "-" || excused[v.Type().Name()+"."+f.Name] {
				continue
			}
			if p := unset(v.Field(i), at+"."+f.Name, excused); p != "" {
				return p
			}
		}
		return ""
	default:
		if v.IsZero() {
			return at
		}
		return ""
	}
}

// excused returns the fields that another set field excludes, or that are set in another record or
// another element of a list.
func excused(name string) map[string]bool {
	return map[string]bool{
		"InFlight.Unsuccessful": name != "run-paged", "InFlight.Waiting": name != "run-paged",
		"Run.Unsuccessful": name == "run-paged", "Run.Waiting": name == "run-paged", "Run.InFlight": true,
		"Selector.LabelSelector": true, "Policy.ClusterNames": true, "ObjectSelector.Group": true, "Identity.Groups": true, "Binding.Group": true,
		"ID.Name": true, // an object without a name
	}
}

// A lease is free for other engines after it has expired and the skew has passed.
func TestLeaseIsFree(t *testing.T) {
	until := time.UnixMilli(1700000000000)
	held := Lease{Holder: "a", Epoch: 1, Until: stages.At(until)}
	for _, c := range []struct {
		lease Lease
		now   time.Time
		want  bool
	}{
		{Lease{}, until, true},
		{held, until, false},
		{held, until.Add(2 * time.Second), false},
		{held, until.Add(2*time.Second + time.Millisecond), true},
	} {
		if got := c.lease.FreeAt(c.now, 2*time.Second); got != c.want {
			t.Errorf("%+v at %v: free %v, want %v", c.lease, c.now, got, c.want)
		}
	}
}

// A record of a newer format is refused with a FormatError, whatever else it contains. Every other
// record that is not exactly in this format is refused with an error that names its key.
func TestRecordsThatAreRefused(t *testing.T) {
	for name, rec := range goldenRecords() {
		good, is := Encode(rec), []byte(`{"format":1,`)
		into := func() any { return reflect.New(reflect.TypeOf(rec).Elem()).Interface() }
		newer := bytes.Replace(good, is, []byte(`{"format":2,"unheard":{},`), 1)
		var format *versioned.FormatError
		if err := Decode(backend.Record{Key: "k/" + name, Value: newer}, into()); !errors.As(err, &format) || format.Have != 2 || format.Want != 1 || format.Record != "k/"+name {
			t.Errorf("%s of a newer format: %v", name, err)
		}
		for what, value := range map[string][]byte{
			"an unknown field": bytes.Replace(good, is, []byte(`{"format":1,"unheard":0,`), 1),
			"no format":        bytes.Replace(good, is, []byte(`{`), 1),
			"format 0":         bytes.Replace(good, is, []byte(`{"format":0,`), 1),
			"half of it":       good[:len(good)/2],
			"nothing":          nil,
			"null":             []byte("null"),
			"a list":           []byte("[]"),
			"twice":            append(append([]byte{}, good...), good...),
			"another type":     bytes.Replace(good, is, []byte(`{"format":1,"run":[7],"placement":[7],"inFlight":7,"events":7,"clusters":7,"command":7,`), 1),
		} {
			err := Decode(backend.Record{Key: "k/" + name, Value: value}, into())
			if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "k/"+name) {
				t.Errorf("%s, %s: %v, want a permanent error that names the key", name, what, err)
			}
		}
	}
}

// The clusters in flight are stored once: a record omits them from its run, and a record that has
// them in its run is refused.
func TestRunRecordOmitsClustersInFlight(t *testing.T) {
	rec := goldenRun()
	want, plain := rec.Encode(), Encode(rec)
	rec.Run.Form(runstate.Key{}).InFlight = []runstate.InFlight{{Pos: 1, Attempt: 1, Phase: stages.Applying, Started: 1}}
	if !bytes.Equal(rec.Encode(), want) || !bytes.Equal(Encode(rec), plain) {
		t.Errorf("the record has clusters in flight in its run: %s", rec.Encode())
	}
	if len(rec.Run.Form(runstate.Key{}).InFlight) != 1 {
		t.Error("encoding the record took them out of the run")
	}
	for name, value := range map[string][]byte{
		"in flight in the run": bytes.Replace(want, []byte(`"run":{`), []byte(`"run":{"inFlight":[{"p":1,"a":1,"f":1,"s":1}],`), 1),
		"no run":               []byte(`{"format":1,"run":null}`),
	} {
		if err := Decode(backend.Record{Key: "run/r", Value: value}, new(Run)); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A decoded value encodes to a record that decodes to the same value.
func FuzzDecodeRecord(f *testing.F) {
	kinds := []func() any{
		func() any { return new(Placement) }, func() any { return new(Run) }, func() any { return new(inFlightPage) },
		func() any { return new(JournalPage) }, func() any { return new(bindingsPage) }, func() any { return new(Command) },
		func() any { return new(Intent) },
	}
	for _, rec := range goldenRecords() {
		f.Add(Encode(rec))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		for _, kind := range kinds {
			rec := kind()
			if Decode(backend.Record{Key: "k", Value: value}, rec) != nil {
				continue
			}
			if b := Encode(rec); b == nil || Decode(backend.Record{Key: "k", Value: b}, kind()) != nil {
				t.Errorf("%s is read, and written as %s", value, b)
			}
		}
	})
}

// A placement's record stays small, for any number of runs and clusters.
func TestPlacementRecordStaysSmall(t *testing.T) {
	rec := goldenPlacement()
	rec.Placement.HistoryLimit, rec.Placement.RunHistory = 0, 0
	rec.State = lifecycle.State{UID: "placement-uid"}
	ended := func(name string, index int, state stages.State) lifecycle.Run {
		return lifecycle.Run{Name: name, UID: NewUID(), Index: index, Plan: snapshot.Digest([]byte(name)), Ended: state}
	}
	// snapshotTaken takes a snapshot, which trims the state.
	snapshotTaken := func() {
		digest := snapshot.Digest([]byte(fmt.Sprint(rec.NextIndex)))
		taken := snapshot.Snapshot{Placement: "web", Index: rec.NextIndex, Set: digest, Overrides: digest, Digest: digest, Objects: 1000, TakenAt: goldenTime}
		out, err := lifecycle.Advance(rec.State, lifecycle.SnapshotTaken{Snapshot: taken, UID: rec.UID}, lifecycle.Facts{Spec: rec.Spec()})
		if err != nil {
			t.Fatal(err)
		}
		rec.State = out.State
	}
	last := 0
	for i := range 1000 {
		rec.Runs = append(rec.Runs, ended(fmt.Sprintf("a-rather-long-name-of-a-run-%d", i), i, stages.Completed))
		rec.InUse, rec.Whole = []int{i}, new(i)
		snapshotTaken()
		last = max(last, len(Encode(rec)))
		rec.Retired = nil
	}
	if len(rec.Runs) != lifecycle.RunHistory || len(rec.Snapshots) > snapshot.DefaultLimit+1 {
		t.Errorf("%d runs and %d snapshots are kept", len(rec.Runs), len(rec.Snapshots))
	}
	if last > 32<<10 {
		t.Errorf("the record has %d bytes", last)
	}
	t.Logf("at most %d bytes after 1000 runs", last)
	rec.Placement.RunHistory = 500
	for i := range 500 {
		rec.Runs = append(rec.Runs, ended(strings.Repeat("n", 60)+fmt.Sprint(i), 9999, stages.Superseded))
	}
	snapshotTaken()
	if n := len(Encode(rec)); n > 200<<10 {
		t.Errorf("with the largest RunHistory the record has %d bytes", n)
	}
}

// The bindings are stored in pages of bounded size.
func TestBindingsArePaged(t *testing.T) {
	for what, index := range map[string]func(int) int{"alike": func(int) int { return 7 }, "all different": func(i int) int { return i }} {
		b, names := lifecycle.Bindings{}, []string{}
		for i := range lifecycle.ClustersPerPage {
			names = append(names, fmt.Sprintf("%0*d", 63, i))
			b[names[i]] = lifecycle.Binding{ProvenIndex: index(i), Attempted: index(i) + 1}
		}
		n := len(Encode(newBindingsPage(b, names)))
		if n > 128<<10 {
			t.Errorf("a page of the bindings of clusters that are %s has %d bytes", what, n)
		}
		t.Logf("%d clusters that are %s: %d bytes", len(names), what, n)
	}
}
