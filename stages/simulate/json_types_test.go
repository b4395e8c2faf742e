package simulate_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/step"
)

// plainData are the exported structs that hosts may keep as JSON, by the directory of
// their package, one value of each.
var plainData = map[string][]any{
	"..": {
		stages.Action{},
		stages.Answer{},
		stages.Awaited{},
		stages.Cap{},
		stages.CellMembers{},
		stages.CheckRun{},
		stages.Claim{},
		stages.ClusterOutline{},
		stages.Command{},
		stages.Domain{},
		stages.Event{},
		stages.Explanation{},
		stages.Flow{},
		stages.GateOutline{},
		stages.Group{},
		stages.GroupOutline{},
		stages.KeptClusters{},
		stages.Observation{},
		stages.Outline{},
		stages.PlannedCluster{},
		stages.PlannedDomain{},
		stages.PlannedGate{},
		stages.PlannedGroup{},
		stages.PlannedRollback{},
		stages.PlannedStage{},
		stages.Previous{},
		stages.Removal{},
		stages.RollbackPolicy{},
		stages.Schedule{},
		stages.Share{},
		stages.Stage{},
		stages.StageOutline{},
		stages.Strategy{},
		stages.Target{},
		stages.Task{},
		stages.RollbackRequest{},
		stages.Window{},
	},
	"../step":                 {step.Run{}},
	"../../internal/runstate": {runstate.Form{}, runstate.Bypass{}, runstate.Clock{}, runstate.Closing{}, runstate.ClusterCheckRun{}, runstate.Deferred{}, runstate.Gate{}, runstate.GroupRun{}, runstate.InFlight{}, runstate.Retrying{}, runstate.StageRun{}, runstate.Unsuccessful{}},
	"../calendar":             {calendar.Rules{}, calendar.Level{}, calendar.Window{}, calendar.Freeze{}},
	".":                       {simulate.Back{}, simulate.End{}, simulate.StageEnd{}, simulate.GroupEnd{}, simulate.ClusterEnd{}, simulate.GateEnd{}, simulate.Member{}, simulate.Interval{}, simulate.Attempt{}, simulate.Event{}, simulate.Change{}, simulate.Order{}},
	"../../approval":          {approval.Identity{}, approval.Quorum{}, approval.Policy{}, approval.Binding{}, approval.Request{}, approval.Decision{}},
}

// notPlain maps the other exported structs to the reason why they are not plain data.
var notPlain = map[string]string{
	"Plan": "it has a test of its own", "Input": "has a Calendar, which is the host's", "Ready": "has an error",
	"Environment": "has a Calendar, which is the host's", "Return": "has functions of the host",
	"Measure": "its numbers may be NaN, which JSON has not",
	"Key":     "it has nothing", "RunError": "an error", "RefusedError": "an error", "RejectedError": "an error",
}

// All plain data survive JSON, with every field set: no field is omitted or lost.
func TestPlainDataComesBackFromJSON(t *testing.T) {
	for dir, values := range plainData {
		var listed []string
		for _, v := range values {
			typ := reflect.TypeOf(v)
			listed = append(listed, typ.Name())
			full := reflect.New(typ)
			fill(t, full.Elem(), 3, typ.String())
			b, err := json.Marshal(full.Interface())
			if err != nil {
				t.Errorf("%s: %v", typ, err)
				continue
			}
			back := reflect.New(typ)
			if err := json.Unmarshal(b, back.Interface()); err != nil {
				t.Errorf("%s: %v, of %s", typ, err, b)
			} else if !reflect.DeepEqual(full.Interface(), back.Interface()) {
				t.Errorf("%s: %+v came back as %+v", typ, full.Elem(), back.Elem())
			}
		}
		for _, name := range exportedStructs(t, dir) {
			if !slices.Contains(listed, name) && notPlain[name] == "" {
				t.Errorf("%s.%s is not tested: list it in plainData, or in notPlain with the reason", dir, name)
			}
		}
	}
}

// fill sets every field to a value that is not zero. A struct that contains itself is filled to
// the depth deep.
func fill(t *testing.T, v reflect.Value, deep int, at string) {
	t.Helper()
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
		return
	case *intstr.IntOrString:
		*x = intstr.FromString("10%")
		return
	case *step.Run:
		fill(t, reflect.ValueOf(x.Form(runstate.Key{})).Elem(), deep, at+".form")
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(t, v.Field(i), deep, at+"."+f.Name)
			}
		}
		return
	case **stages.Plan:
		p, err := planner.Plan(
			stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}},
			stages.Target{Placement: "web", Snapshot: "s", Selection: "d", Default: "rev"}, []placement.Cluster{{Name: "m", UID: "uid"}})
		if err != nil {
			t.Fatal(err)
		}
		*x = p
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x<&>é")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint(2)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		if deep > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), deep-1, at)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), deep, at)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, deep, at)
		fill(t, value, deep, at)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() && !f.Anonymous {
				t.Errorf("%s.%s would be lost: it is not exported", at, f.Name)
				continue
			}
			if f.Tag.Get("json") == "-" {
				t.Errorf("%s.%s would be lost: its JSON leaves it out", at, f.Name)
			}
			fill(t, v.Field(i), deep, at+"."+f.Name)
		}
	default:
		t.Errorf("%s is a %s, which is no plain data", at, v.Kind())
	}
}

// exportedStructs names the exported structs of the package in a directory.
func exportedStructs(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatal("no files in", dir, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				if _, ok := spec.Type.(*ast.StructType); ok {
					names = append(names, spec.Name.Name)
				}
			}
			return true
		})
	}
	return names
}
