package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

var updateGolden = flag.Bool("update-golden", false, "write the golden files of stored records anew")

// goldenRecords are records with every field set, by the name of their file.
func goldenRecords() map[string]any {
	out := map[string]any{
		"placement": goldenPlacement(), "placement-2": goldenPlacement2(), "placement-3": goldenPlacement3(), "placement-4": goldenPlacement4(),
		"roster-2":  new(newRosterPage([]rosterGroup{{holding{4, 5, "rev"}, []string{"member1", "member2"}}})),
		"run":       goldenRun(),
		"run-paged": goldenPagedRun(),
		// The same with everything that came with format 3.
		"run-grouped":        goldenGroupedRun(),
		"run-newest":         goldenNewestRun(),
		"run-titled":         goldenTitledRun(),
		"exceptions-grouped": &listPage[stages.Exception]{Format: 1, List: goldenGroupedRun().Run.Exceptions},
		"waiting-grouped":    &listPage[stages.Yielded]{Format: 1, List: goldenGroupedRun().Run.Waiting},
		"flight":             &flightPage{Format: 1, Flights: []stages.Flight{goldenFlight}},
		"exceptions":         &listPage[stages.Exception]{Format: 1, List: goldenRun().Run.Exceptions},
		"waiting":            &listPage[stages.Yielded]{Format: 1, List: goldenRun().Run.Waiting},
		"journal": &journalPage{Format: 1, First: 12, Prev: "0-prev", Events: []json.RawMessage{
			encodeRecord(&stages.Event{Time: goldenTime, Type: stages.ClusterApplied, Placement: "web", Run: "r", Stage: "s", Cluster: "c", Attempt: 1}),
		}},
		"decision": &decisionPage{Format: 1, Clusters: []string{"member1", "member2"}},
		"deleted": &deletedRecord{
			Format: 1, UID: "placement-uid", Epoch: 9, Journal: journalHead{Events: 1, First: 1, Tail: "tail", Last: []json.RawMessage{[]byte(`{"type":"PlacementDeleted"}`)}},
			Report: &deletionReport{
				Owner: "owner-uid", By: "ann", End: deleting, Run: "deletion-uid", Since: 1700000000000, Ended: 1700000000001,
				Clusters: 3, Done: 2, Left: []LeftCluster{{"member2", "not reached"}}, Skipped: 1,
			},
		},
		"begun": &begunRecord{Format: 1, Run: "run-1", Plan: "plan", Lost: true},
		"cap": &capRecord{Format: 1, Cap: stages.Cap{
			Name: "database", Limit: 5, Turns: 3, Shares: []stages.Share{{UID: "uid", Run: "run-1", Epoch: 4, Holds: 2, Wants: 3, Turn: 1}},
		}},
		"keep":     &keepRecord{Format: 1, Holder: "engine-a", Until: 1700000000000},
		"sighting": &sightingRecord{Format: 1, ClusterDrift: goldenDrift()},
		"roster":   &rosterPage{Format: 1, Groups: []rosterGroup{{holding{4, 5, ""}, []string{"member1", "member2"}}}},
	}
	by := approval.Identity{Name: "ann", Groups: []string{"sre"}}
	for verb, c := range map[stages.Verb]stages.Command{
		stages.Start: {}, stages.Stop: {}, stages.Abort: {},
		stages.Skip:      {Scope: stages.SkipGroup, Name: "canary/eu"},
		stages.Supersede: {},
		stages.Decide:    {Decision: &approval.Decision{Verdict: approval.Approve, By: by, At: goldenTime, Comment: "looks fine", Binding: goldenBinding}},
	} {
		c.ID, c.Verb, c.By, c.At, c.Message = "id-1", verb, by, goldenTime, "because"
		out["command-"+strings.ToLower(string(verb))] = &commandRecord{Format: 1, Command: c}
	}
	groupBinding := goldenBinding
	groupBinding.Group = "eu"
	for name, c := range map[string]stages.Command{
		"takeback":     {Verb: stages.TakeBack, Name: "run-1-rollback"},
		"retry":        {Verb: stages.Retry, Only: stages.OnlyFailed},
		"completegate": {Verb: stages.CompleteGate, Name: "canary/eu"},
		"bypass":       {Verb: stages.BypassWindows, Until: goldenTime.Add(time.Hour)},
		"decide-group": {Verb: stages.Decide, Decision: &approval.Decision{Verdict: approval.Approve, By: by, At: goldenTime, Binding: groupBinding}},
	} {
		c.ID, c.By, c.At, c.Message = "id-1", by, goldenTime, "because"
		rec := newCommandRecord(c)
		out["command-"+name] = &rec
	}
	return out
}

var (
	goldenTime    = time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	goldenBinding = approval.Binding{RunUID: "uid", Stage: "canary", When: approval.After, Attempt: 1, Plan: "plan"}
	goldenFlight  = stages.Flight{Pos: 7, Attempt: 2, Phase: stages.BackingOff, Sent: true, Drain: true, Started: 1700000000001, Until: 1700000000002, Message: "not healthy", Tries: 3, Since: 1700000000000}
	goldenEntry   = stages.Entry{UID: "uid-1", Run: "run-1", Index: 4}
)

func goldenPlacement() *placementRecord {
	set := snapshot.Digest([]byte("set"))
	return &placementRecord{
		Format: 1, UID: "placement-uid", Key: goldenKey, Epoch: 9, NextIndex: 6,
		Placement: Placement{
			Name: "web", Owner: "owner-uid", Selectors: []snapshot.Selector{{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "shop", Name: "web"}},
			Policy: placement.Policy{Type: placement.PickAll, Required: []placement.Term{{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}}},
			Overrides: []placement.Override{{
				Name: "o", Namespace: "ns", Selectors: []placement.ObjectSelector{{Version: "v1", Kind: "ConfigMap", Name: "c"}},
				Rules: []placement.Rule{{
					ClusterSelector: &placement.ClusterSelector{Terms: []placement.ClusterTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}}}},
					Type:            placement.JSONPatch,
					Patches:         []placement.Patch{{Op: placement.OpReplace, Path: "/data/k", Value: json.RawMessage(`"v"`)}},
				}},
			}},
			HistoryLimit: 3, RunHistory: 5, Admission: stages.SupersedeActive, AllowCoOwnership: true,
			ApplyStrategy: goldenApply(),
		},
		Snapshots: []snapshot.Snapshot{{Placement: "web", Index: 5, Set: set, Overrides: snapshot.Digest(nil), Digest: set, Objects: 2, TakenAt: goldenTime}},
		Decision:  &decisionRecord{Index: 1, PolicyDigest: "policy", Digest: "decision", Clusters: 3, Pages: 1},
		InUse:     []int{4, 5}, Whole: new(5), Previous: new(4),
		Roster: rosterHead{Generation: 2, ID: "roster-id", Pages: 1},
		Line: stages.Line{
			Active: &goldenEntry, Waiting: []stages.Entry{{UID: "uid-2", Run: "run-2", Index: 5}},
			Superseded: []stages.Superseder{{Entry: goldenEntry, By: "run-2"}},
		},
		Runs:     []runEntry{{Name: "run-1", UID: "uid-1", Index: 4, Plan: "plan", Ended: stages.Completed, Restart: 2, Nth: 1}},
		Ended:    1,
		Retired:  []runEntry{{Name: "run-0", UID: "uid-0", Index: 3, Plan: "plan-0", Ended: stages.Failed, Restart: 2, Nth: 7}},
		Journal:  journalHead{Events: 17, First: 5, Tail: "12-tail", Last: []json.RawMessage{[]byte(`{"type":"RunTaken"}`)}},
		Sweeps:   3,
		Deleting: &deletingRecord{By: "ann", Since: 1700000000000, Deadline: time.Minute, MaxConcurrency: new(intstr.FromInt32(50)), End: orphaning, Run: "deletion-uid"},
	}
}

func goldenApply() ApplyStrategy {
	return ApplyStrategy{
		Type: ServerSideApply, ComparisonOption: drift.Full, WhenToApply: IfNotDrifted, WhenToTakeOver: IfNoDiff,
		Ignore: []drift.IgnoreRule{{
			Group: "apps", Kind: "Deployment", Namespace: "ns", Name: "web",
			Pointers: []string{"/spec/replicas"}, Managers: []string{"autoscaler"}, Classes: []drift.Class{drift.Changed},
		}},
		Secrets: []string{"/data/token"}, DryRun: true,
	}
}

func goldenDrift() ClusterDrift {
	return ClusterDrift{
		Placement: "web", Cluster: "member1", State: Compared, Revision: "rev", Observed: goldenTime, Total: 1, Problems: []string{"too deep"},
		Objects: []ObjectDrift{{
			Reason: FoundDrifts, Observed: goldenTime, FirstObserved: goldenTime.Add(-time.Hour),
			Report: drift.Report{
				Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "ns", Name: "web", State: drift.Present, Generation: 7,
				Total: 1, Truncated: true, Warnings: []string{"duplicate key"}, Fingerprint: "f",
				Differences: []drift.Difference{{
					Path: "/spec/replicas", HubPath: "/spec/replicas", KeyPath: ".spec.replicas", Class: drift.Changed,
					Hub: json.RawMessage("2"), Member: json.RawMessage("7"), Note: "n",
					Owner: &drift.Owner{Manager: "kubectl-edit", Operation: "Update", Subresource: "scale", Time: "2026-11-20T12:00:00Z"},
				}},
			},
		}},
	}
}

func goldenRun() *runRecord {
	decision := approval.Decision{Verdict: approval.Reject, By: approval.Identity{Name: "bob"}, At: goldenTime, Comment: "no", Binding: goldenBinding}
	return &runRecord{
		Format: 1, Owner: "owner-uid", Of: "placement-uid", Final: deleting, Whole: true, Apply: goldenApply(), Sweeps: 3, Seq: 42, Try: 40, Flights: flightHead{Here: []stages.Flight{goldenFlight}, Pages: []string{"9-41-0", ""}},
		Decision: &decisionRecord{Index: 1, PolicyDigest: "policy", Digest: "decision", Clusters: 3, Pages: 1},
		Lease:    lease{Holder: "engine-a", Epoch: 9, Until: 1700000000000},
		Journal:  journalHead{Events: 3, First: 1, Tail: "0-tail", Last: []json.RawMessage{[]byte(`{"type":"RunTaken"}`)}},
		Run: stages.Run{
			Name: "run-1", UID: "uid-1", Placement: "web", Plan: "plan", Starter: approval.Identity{Name: "ann", Groups: []string{"sre"}},
			State: stages.Stopping, Reason: "stopped by bob", Hold: true, Ending: stages.Stopped, Attempt: 2,
			Now: 5, Created: 1, Started: 2, Ended: 4, StopAt: 6, Stage: 1,
			Stages: []stages.StageRun{{
				State: stages.Running, Reached: 1, Started: 2, Done: 3, Ended: 4,
				Groups: []stages.GroupRun{{Next: 4, Completed: 1, Failed: 2, Skipped: 1}},
				Gates: []stages.Gate{{
					When: approval.After, Type: stages.Approval, State: stages.Failed, Opened: 3, Until: 4, Attempt: 1,
					Decisions: []approval.Decision{decision}, Ended: 4,
				}},
				SkipGates: true, SkipWait: true,
			}},
			Waiting:    []stages.Yielded{{Pos: 1, Attempt: 2, Sent: true, Tries: 3, Since: 3, NotYet: 4, Started: 2, Spent: 7, Message: "unreachable"}},
			Exceptions: []stages.Exception{{First: 2, Last: 3, State: stages.Skipped, Gone: true, Attempts: 2, Reason: "removed"}},
			Seen:       []string{"id-1"},
		},
	}
}

// goldenPlacement2 is a placement with what only version 2 of its record has.
func goldenPlacement2() *placementRecord {
	rec := goldenPlacement()
	rec.Placement.Overrides[0].Priority = 7
	rec.Placement.Selectors[0].Scope = snapshot.NamespaceWithResources
	rec.Base = &baseRecord{UID: "uid-1", Run: "run-1", Roster: rosterHead{Generation: 1, ID: "base-id", Pages: 1}, InUse: []int{3}}
	rec.Rollback = &rollbackRecord{Of: "uid-1", OfRun: "run-1", Run: "run-1-rollback", UID: "uid-9", Undo: goldenUndo(), Since: 1700000000000}
	rec.Irreversible = []int{2, 5}
	for _, runs := range [][]runEntry{rec.Runs, rec.Retired} {
		runs[0].Undoes, runs[0].Undone, runs[0].Kept = "uid-0", "run-2", "because"
	}
	rec.Placement.Overrides[0].Rules[0].ClusterSelector.Terms[0].ClusterNames = []string{"member1"}
	rec.Placement.Policy = goldenPickN()
	rec.Format = rec.format()
	return rec
}

// goldenPickN is a policy that says all that one of its type can say.
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

func goldenUndo() stages.Undo {
	return stages.Undo{Cause: stages.OnCommand, Run: "run-1-rollback", By: approval.Identity{Name: "ann", Groups: []string{"sre"}}, Message: "taken back by ann"}
}

// goldenPlacement3 is a placement with what came with format 3.
func goldenPlacement3() *placementRecord {
	rec := goldenPlacement2()
	for i := range rec.Snapshots {
		rec.Snapshots[i].Envelopes = 2
	}
	rec.Format = rec.format()
	return rec
}

// goldenPlacement4 is a placement with what came with format 4.
func goldenPlacement4() *placementRecord {
	rec := goldenPlacement3()
	rec.Placement.Namespace = "test-namespace"
	for i := range rec.Snapshots {
		rec.Snapshots[i].Enveloped = []snapshot.GroupKind{{Group: "apps", Kind: "Deployment"}, {Group: "example.com", Kind: "Widget"}}
	}
	rec.Format = rec.format()
	return rec
}

// goldenPagedRun is a run of which what went wrong is in pages.
func goldenPagedRun() *runRecord {
	r := goldenRun()
	r.Format, r.Run.Exceptions, r.Run.Waiting = pagedFormat, nil, nil
	r.Flights.Exceptions, r.Flights.Waiting = []string{"9-41-40-x0", ""}, []string{"9-41-40-w0"}
	return r
}

// goldenGroupedRun is a run with gates of groups, windows and a bypass of them.
func goldenGroupedRun() *runRecord {
	r := goldenRun()
	gates := []stages.Gate{{When: approval.Before, Type: stages.ScheduledStart, State: stages.Completed, Opened: 3, Until: 4, Attempt: 1, Decisions: r.Run.Stages[0].Gates[0].Decisions, Ended: 4, By: "ann"}}
	r.Run.Stages[0].Gates = gates
	r.Run.Stages[0].Groups = []stages.GroupRun{{
		Next: 4, Completed: 1, Failed: 2, Skipped: 1, Reached: 1, Done: 3, Ended: 4, Gates: gates, SkipGates: true,
		Passed: []stages.Passed{{First: 1, Last: 1, Closed: true, NotYet: 9, Reason: "freeze"}},
	}}
	r.Run.Bypass = &stages.Bypass{Until: 9, By: "ann", Reason: "security fix"}
	r.Run.Waiting[0].Closed, r.Run.Exceptions[0].Sent = true, true
	r.Format = r.format()
	return r
}

// goldenNewestRun is a run with everything that came with format 4.
func goldenNewestRun() *runRecord {
	r := goldenGroupedRun()
	r.Run.Closing, r.Run.Halted = &stages.Closing{State: stages.Failed, Reason: "2 clusters have failed"}, 7
	st := &r.Run.Stages[0]
	st.Clock = stages.Clock{Deadline: 8, TimedOut: true}
	st.Groups[0].Clock = stages.Clock{Deadline: 9, TimedOut: true}
	st.Groups[0].Cells, r.Run.Capped = []int{3, 1}, true
	undo := goldenUndo()
	r.Run.Undo, r.Undoes = &undo, "uid-0"
	r.Format = r.format()
	return r
}

// goldenTitledRun is a run with what came with format 5, and an approval that held at a
// point in time.
func goldenTitledRun() *runRecord {
	r := goldenNewestRun()
	gates := r.Run.Stages[0].Gates
	gates[0].Answered, gates[0].Decisions = []string{"gauge"}, slices.Clone(gates[0].Decisions)
	gates[0].Decisions[0].PointInTime = true
	r.Title = "a-namespace/a-name"
	r.Format = r.format()
	return r
}

// Every stored record has exactly the bytes of its golden file, with every
// field set, and comes back from them.
func TestGoldenRecords(t *testing.T) {
	for name, rec := range goldenRecords() {
		t.Run(name, func(t *testing.T) {
			newest := slices.Contains([]string{"placement-2", "placement-3", "placement-4", "run-newest", "run-titled", "roster-2"}, name)
			excused := excused(newest || strings.HasSuffix(name, "-grouped"), newest)
			for _, field := range []string{"runRecord.Title", "Gate.Answered", "Decision.PointInTime"} {
				excused[field] = name != "run-titled"
			}
			excused["Snapshot.Envelopes"] = name != "placement-3" && name != "placement-4"
			excused["Placement.Namespace"], excused["Snapshot.Enveloped"] = name != "placement-4", name != "placement-4"
			if at := unset(reflect.ValueOf(rec), name, excused); at != "" && !strings.HasPrefix(name, "command-") && name != "journal" {
				t.Errorf("%s is not set: the golden file proves nothing about it", at)
			}
			file := filepath.Join("testdata", "golden", name+".json")
			got := append(encodeRecord(rec), '\n')
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
			if err := decodeRecord(backend.Record{Key: name, Value: bytes.TrimSpace(want)}, back); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(rec, back, cmp.Exporter(func(reflect.Type) bool { return true })); d != "" {
				t.Error(d)
			}
		})
	}
}

// unset returns the path of a field that is zero and would not be noticed if
// it were not stored, or "". Of selectors only some fields may be set together.
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
			if f.Tag.Get("json") == "-" || excused[v.Type().Name()+"."+f.Name] {
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

// excused are fields that exclude another one which is set, or that are set in
// an element that is not looked at; what only the newest records have; and what
// no placement has that the engine takes.
func excused(newer, newest bool) map[string]bool {
	out := map[string]bool{
		"flightHead.Exceptions": true, "flightHead.Waiting": true, "Run.Exceptions": true, "Run.Waiting": true,
		"Selector.LabelSelector": true, "Policy.ClusterNames": true, "ObjectSelector.Group": true, "Identity.Groups": true,
		"Binding.Group": true, "Run.Flights": true,
	}
	for _, field := range []string{
		"Run.Bypass", "GroupRun.Passed", "GroupRun.Reached", "GroupRun.Done", "GroupRun.Ended", "GroupRun.Gates", "GroupRun.SkipGates",
		"Gate.By", "Yielded.Closed", "Exception.Sent", "Override.Priority", "Selector.Scope", "ClusterTerm.ClusterNames",
		"Policy.NumberOfClusters", "Term.Properties", "Policy.Preferred", "Policy.Spread", "Policy.Tolerations",
	} {
		out[field] = !newer
	}
	for _, field := range []string{
		"Run.Closing", "Run.Halted", "Clock.Deadline", "Clock.TimedOut", "Run.Undo", "GroupRun.Cells", "Run.Capped",
		"runRecord.Undoes", "runEntry.Undoes", "runEntry.Undone", "runEntry.Kept", "holding.Revision",
		"placementRecord.Base", "placementRecord.Rollback", "placementRecord.Irreversible",
	} {
		out[field] = !newest
	}
	return out
}

// A lease is free for others once it has run out and the skew has passed.
func TestLeaseIsFree(t *testing.T) {
	until := time.UnixMilli(1700000000000)
	held := lease{Holder: "a", Epoch: 1, Until: stages.At(until)}
	for _, c := range []struct {
		lease lease
		now   time.Time
		want  bool
	}{
		{lease{}, until, true},
		{held, until, false},
		{held, until.Add(2 * time.Second), false},
		{held, until.Add(2*time.Second + time.Millisecond), true},
	} {
		if got := c.lease.freeAt(c.now, 2*time.Second); got != c.want {
			t.Errorf("%+v at %v: free %v, want %v", c.lease, c.now, got, c.want)
		}
	}
}

// reseal gives a record that was edited the checksum that it would have.
func reseal(value []byte) []byte {
	rest := value[sealLen:]
	return append(seal(rest), rest...)
}

// A record of a newer format is refused as such, whatever else is in it; every
// other record that is not exactly one of this format is an error that names
// its key.
func TestRecordsThatAreRefused(t *testing.T) {
	for name, rec := range goldenRecords() {
		good := encodeRecord(rec)
		into := func() any { return reflect.New(reflect.TypeOf(rec).Elem()).Interface() }
		is, newest := good[sealLen:][:len(`"format":1,`)], newestFormat(into())
		newer := bytes.Replace(good, is, fmt.Appendf(nil, `"format":%d,"unheard":{},`, newest+1), 1)
		var format *stages.FormatError
		if err := decodeRecord(backend.Record{Key: "k/" + name, Value: newer}, into()); !errors.As(err, &format) || format.Have != newest+1 || format.Want != newest || format.Record != "k/"+name {
			t.Errorf("%s of a newer format: %v", name, err)
		}
		for what, value := range map[string][]byte{
			"an unknown field":     reseal(bytes.Replace(good, is, []byte(`"format":1,"unheard":0,`), 1)),
			"no format":            reseal(bytes.Replace(good, is, nil, 1)),
			"format 0":             reseal(bytes.Replace(good, is, []byte(`"format":0,`), 1)),
			"half of it":           good[:len(good)/2],
			"nothing":              nil,
			"null":                 []byte("null"),
			"a list":               []byte("[]"),
			"twice":                append(append([]byte{}, good...), good...),
			"another type":         reseal(bytes.Replace(good, is, []byte(`"format":1,"run":[7],"placement":[7],"flights":7,"events":7,"clusters":7,"command":7,`), 1)),
			"without its checksum": append([]byte("{"), good[sealLen:]...),
		} {
			err := decodeRecord(backend.Record{Key: "k/" + name, Value: value}, into())
			if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "k/"+name) {
				t.Errorf("%s, %s: %v, want a permanent error that names the key", name, what, err)
			}
		}
	}
}

// Threat T5: no record with one bit flipped is taken for a record.
func TestT5FlippedBitsInRecords(t *testing.T) {
	flipped := 0
	for name, rec := range goldenRecords() {
		good := encodeRecord(rec)
		for bit := 0; bit < 8*len(good); bit += 3 * apart(5) {
			bad := bytes.Clone(good)
			bad[bit/8] ^= 1 << (bit % 8)
			back := reflect.New(reflect.TypeOf(rec).Elem()).Interface()
			if err := decodeRecord(backend.Record{Key: name, Value: bad}, back); err == nil {
				t.Errorf("%s with bit %d flipped is read: %s", name, bit, bad)
			}
			flipped++
		}
	}
	t.Logf("%d records with a bit flipped", flipped)
}

// The clusters in flight are stored once: a record leaves them out of its run, and one
// that has them there is refused.
func TestTheRecordOfARunLeavesOutWhatIsInFlight(t *testing.T) {
	rec := goldenRun()
	want, plain := rec.encode(), encodeRecord(rec)
	rec.Run.Flights = []stages.Flight{{Pos: 1, Attempt: 1, Phase: stages.Applying, Started: 1}}
	if !bytes.Equal(rec.encode(), want) || !bytes.Equal(encodeRecord(rec), plain) {
		t.Errorf("the record has clusters in flight in its run: %s", rec.encode())
	}
	if len(rec.Run.Flights) != 1 {
		t.Error("encoding the record took them out of the run")
	}
	form := bytes.Replace(want[sealLen:], []byte(`"run":{`), []byte(`"run":{"flights":[{"p":1,"a":1,"f":1,"s":1}],`), 1)
	for name, rest := range map[string][]byte{"in flight in the run": form, "no run": []byte(`"format":1,"run":null}`)} {
		err := decodeRecord(backend.Record{Key: "run/r", Value: append(seal(rest), rest...)}, new(runRecord))
		if !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What decodes encodes to a record that decodes to the same.
func FuzzDecodeRecord(f *testing.F) {
	kinds := []func() any{
		func() any { return new(placementRecord) }, func() any { return new(runRecord) }, func() any { return new(flightPage) },
		func() any { return new(journalPage) }, func() any { return new(rosterPage) }, func() any { return new(commandRecord) },
		func() any { return new(begunRecord) },
	}
	for _, rec := range goldenRecords() {
		f.Add(encodeRecord(rec)[sealLen:])
	}
	f.Fuzz(func(t *testing.T, rest []byte) {
		for _, kind := range kinds {
			_ = decodeRecord(backend.Record{Key: "k", Value: rest}, kind())
			rec := kind()
			if decodeRecord(backend.Record{Key: "k", Value: append(seal(rest), rest...)}, rec) != nil {
				continue
			}
			if b := encodeRecord(rec); b == nil || decodeRecord(backend.Record{Key: "k", Value: b}, kind()) != nil {
				t.Errorf("%s is read, and written as %s", rest, b)
			}
		}
	})
}

// A placement's record stays small, however many runs there were and however
// many clusters there are.
func TestPlacementRecordStaysSmall(t *testing.T) {
	rec := goldenPlacement()
	rec.Placement.HistoryLimit, rec.Placement.RunHistory = 0, 0
	rec.Snapshots, rec.Runs, rec.Retired, rec.InUse, rec.Previous = nil, nil, nil, []int{}, nil
	last := 0
	for i := range 1000 {
		digest := snapshot.Digest([]byte(fmt.Sprint(i)))
		rec.Snapshots = append(rec.Snapshots, snapshot.Snapshot{Placement: "web", Index: i, Set: digest, Overrides: digest, Digest: digest, Objects: 1000, TakenAt: goldenTime})
		rec.Runs = append(rec.Runs, runEntry{Name: fmt.Sprintf("a-rather-long-name-of-a-run-%d", i), UID: newUID(), Index: i, Plan: digest, Ended: stages.Completed})
		rec.InUse, rec.Whole = []int{i}, new(i)
		rec.trim()
		last = max(last, len(encodeRecord(rec)))
		rec.Retired = nil
	}
	if len(rec.Runs) != runHistoryKept || len(rec.Snapshots) != snapshot.DefaultLimit {
		t.Errorf("%d runs and %d snapshots are kept", len(rec.Runs), len(rec.Snapshots))
	}
	if last > 32<<10 {
		t.Errorf("the record has %d bytes", last)
	}
	t.Logf("at most %d bytes after 1000 runs", last)
	rec.Placement.RunHistory = maxRunHistory
	for i := range maxRunHistory {
		rec.Runs = append(rec.Runs, runEntry{Name: strings.Repeat("n", 63), UID: newUID(), Index: 9999, Plan: snapshot.Digest([]byte(fmt.Sprint(i))), Ended: stages.Superseded})
	}
	rec.trim()
	if n := len(encodeRecord(rec)); n > 200<<10 {
		t.Errorf("with the largest RunHistory the record has %d bytes", n)
	}
}

// The clusters that may hold something are stored in pages of bounded size.
func TestRosterIsPaged(t *testing.T) {
	for what, index := range map[string]func(int) int{"alike": func(int) int { return 7 }, "all different": func(i int) int { return i }} {
		r, names := roster{}, []string{}
		for i := range rosterPerPage {
			names = append(names, fmt.Sprintf("%0*d", 63, i))
			r[names[i]] = holding{index(i), index(i) + 1, ""}
		}
		n := len(encodeRecord(rosterPage{Format: 1, Groups: r.groups(names)}))
		if n > 128<<10 {
			t.Errorf("a page of the roster of clusters that are %s has %d bytes", what, n)
		}
		t.Logf("%d clusters that are %s: %d bytes", rosterPerPage, what, n)
	}
}
