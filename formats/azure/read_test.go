package azure_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

func readFile(t *testing.T, name string) (string, stages.Strategy) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := azure.Read(bytes.NewReader(text), name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), s
}

func inUpdateGroup(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"slipway.dev/update-group": name}}
}

func number(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) }

func percent(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }

func TestTheTutorialsFileIsAStrategy(t *testing.T) {
	_, got := readFile(t, "example-stages.json")
	want := stages.Strategy{
		Profile: stages.ClusterUpdate, Unassigned: stages.UnassignedExclude,
		Stages: []stages.Stage{{
			Name: "stage1", Selector: &metav1.LabelSelector{}, MaxConcurrency: number(50),
			Groups: []stages.Group{
				{Name: "group-1a", Selector: inUpdateGroup("group-1a"), MaxFailures: number(0)},
				{Name: "group-1b", Selector: inUpdateGroup("group-1b"), MaxFailures: number(0)},
				{Name: "group-1c", Selector: inUpdateGroup("group-1c"), MaxFailures: number(0)},
			},
			After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}},
		}, {
			Name: "stage2", Selector: &metav1.LabelSelector{}, MaxConcurrency: number(50),
			Groups: []stages.Group{
				{Name: "group-2a", Selector: inUpdateGroup("group-2a"), MaxFailures: number(0)},
				{Name: "group-2b", Selector: inUpdateGroup("group-2b"), MaxFailures: number(0)},
				{Name: "group-2c", Selector: inUpdateGroup("group-2c"), MaxFailures: number(0)},
			},
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEveryFieldIsRead(t *testing.T) {
	_, got := readFile(t, "every-field.json")
	canary, rest := got.Stages[0], got.Stages[1]
	want := stages.Stage{
		Name: "canary",
		Selector: &metav1.LabelSelector{
			MatchLabels:      map[string]string{"env": "production"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "frozen", Operator: metav1.LabelSelectorOpDoesNotExist, Values: []string{}}},
		},
		MaxConcurrency: number(7), MaxFailures: number(3),
		Before: []stages.Task{
			{Type: stages.Approval, DisplayName: "may we?"},
			{Type: stages.ScheduledStart, Schedule: &stages.Schedule{Day: "Friday", Time: "18:00", Offset: "-05:00"}},
		},
		After: []stages.Task{{Type: stages.Approval}, {Type: stages.TimedWait, Wait: metav1.Duration{Duration: 10 * time.Minute}}},
		Groups: []stages.Group{{
			Name: "canary-eu", Selector: inUpdateGroup("canary-eu"), MaxConcurrency: number(2), MaxFailures: number(1),
			Before: []stages.Task{{
				Type: stages.ScheduledStart, DisplayName: "nine o'clock in Berlin",
				Schedule: &stages.Schedule{Day: "Monday", Time: "09:00", Offset: "+01:00"},
			}},
			After: []stages.Task{{Type: stages.Approval, DisplayName: "Europe looks well"}},
		}, {
			Name: "canary-us",
			Selector: &metav1.LabelSelector{
				MatchLabels:      map[string]string{"tier": "web"},
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: metav1.LabelSelectorOpIn, Values: []string{"eastus", "westus"}}},
			},
			MaxConcurrency: percent("25%"), MaxFailures: percent("50%"),
		}},
	}
	if diff := cmp.Diff(want, canary); diff != "" {
		t.Errorf("canary (-want +got):\n%s", diff)
	}
	if len(rest.Groups) != 0 || rest.Selector.MatchLabels["env"] != "production" || rest.MaxConcurrency.String() != "50%" {
		t.Errorf("a stage without groups is %+v", rest)
	}
}

func TestRoundTripOfEveryField(t *testing.T) {
	for _, name := range []string{"example-stages.json", "every-field.json"} {
		text, s := readFile(t, name)
		written, err := formOf(azure.Form(s))
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := errors.Join(json.Unmarshal([]byte(text), &want), json.Unmarshal(written, &got)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-read +written):\n%s", name, diff)
		}
		again, err := azure.Read(bytes.NewReader(written), name)
		if diff := cmp.Diff(s, again); diff != "" || err != nil {
			t.Errorf("%s: %v (-read +read again):\n%s", name, err, diff)
		}
	}
}

// TestOtherSpellingsMeanTheSame reads numbers instead of strings, explicit defaults, null fields,
// and a selector as a string instead of an object.
func TestOtherSpellingsMeanTheSame(t *testing.T) {
	const one = `{"stages": [{"name": "a", "maxConcurrency": "5", "groups": [{"name": "g", "maxAllowedFailures": "2", "memberSelector": {"byLabel": "x=y"}}]}]}`
	for _, other := range []string{
		`{"stages": [{"name": "a", "maxConcurrency": 5, "groups": [{"name": "g", "maxAllowedFailures": 2, "memberSelector": "x==y"}]}]}`,
		`{"stages": [{"name": "a", "maxConcurrency": "5", "groups": [{"name": "g", "maxAllowedFailures": "2", "memberSelector": {"byLabel": " x = y "}, "maxConcurrency": null, "beforeGates": []}], "afterStageWaitInSeconds": 0, "afterGates": null}]}`,
		"\ufeff" + strings.ReplaceAll(one, " ", "\r\n\t"),
	} {
		want, err := azure.Read(strings.NewReader(one), "one")
		if err != nil {
			t.Fatal(err)
		}
		got, err := azure.Read(strings.NewReader(other), "other")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", other, err, diff)
		}
	}
}

func TestALabelTwiceInASelectorMeansBoth(t *testing.T) {
	s, err := azure.Read(strings.NewReader(`{"stages": [{"name": "a", "memberSelector": "x=y,x=z,w!=v"}]}`), "f")
	if err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Stages[0].Selector)
	if err != nil || selector.String() != "w notin (v),x=y,x in (z)" && selector.String() != "w notin (v),x in (z),x=y" {
		t.Errorf("%s, %v", selector, err)
	}
}

// TestAPartOfAYAMLDocumentIsRead reads a part of a document, like a reader of another format.
func TestAPartOfAYAMLDocumentIsRead(t *testing.T) {
	var doc yaml.Node
	err := yaml.Unmarshal([]byte("x: 1\nstrategy:\n  stages:\n  - &a\n    name: canary\n    groups: [{name: eu}]\n  - <<: *a\n    name: 7\n"), &doc)
	if err != nil {
		t.Fatal(err)
	}
	_, err = azure.StrategyOf(doc.Content[0].Content[3], "scenario.yaml", "strategy")
	want := "scenario.yaml:7: strategy.stages[1]: merge keys (<<) are not read; write the fields out\n" +
		"scenario.yaml:7: strategy.stages[1].groups: is required; or write a memberSelector\n" +
		"scenario.yaml:8: strategy.stages[1].name: must be a string, not the number 7; write \"7\""
	if err == nil || err.Error() != want {
		t.Errorf("error = %v, want\n%s", err, want)
	}
}

// TestTheReadStrategyPlansAsAzureDoes: members are in the stage of their group, the
// selector of a stage filters before its groups, and a cluster that is in no group is left
// out with a warning.
func TestTheReadStrategyPlansAsAzureDoes(t *testing.T) {
	s, err := azure.Read(strings.NewReader(`{"stages": [
		{"name": "canary", "memberSelector": "env=test", "groups": [{"name": "eu"}, {"name": "small", "memberSelector": "size=s"}]},
		{"name": "rest", "groups": [{"name": "us"}, {"name": "eu-prod", "memberSelector": "env=prod,region=eu"}]}]}`), "f")
	if err != nil {
		t.Fatal(err)
	}
	member := func(name, labels string) placement.Cluster {
		set, err := metav1.ParseToLabelSelector(labels)
		if err != nil {
			t.Fatal(err)
		}
		return placement.Cluster{Name: name, UID: name, Labels: set.MatchLabels}
	}
	const group = azure.UpdateGroupLabel
	p, err := planner.Plan(s, stages.Target{Placement: "fleet", Snapshot: "s", Selection: "d", Default: "r"}, []placement.Cluster{
		member("a", "env=test,"+group+"=eu"), member("b", "env=prod,region=eu,"+group+"=eu"), member("c", "env=test,size=s"),
		member("d", "env=prod,size=s,"+group+"=us"), member("e", "env=test"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, st := range p.Stages {
		for _, g := range st.Groups {
			for _, c := range p.Clusters[g.First : g.First+g.Len] {
				got = append(got, st.Name+"/"+g.Name+"/"+c.Name)
			}
		}
	}
	if diff := cmp.Diff([]string{"canary/eu/a", "canary/small/c", "rest/us/d", "rest/eu-prod/b"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if w := strings.Join(p.Warnings, "\n"); !strings.Contains(w, "left out: e") {
		t.Errorf("warnings %q", w)
	}
}

func TestOneByOneIsAllMembersOneAfterTheOther(t *testing.T) {
	s := azure.OneByOne()
	p, err := planner.Plan(s, stages.Target{Placement: "fleet", Snapshot: "s", Selection: "d", Default: "r"}, []placement.Cluster{{Name: "b"}, {Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	if g := p.Stages[0].Groups[0]; len(p.Stages) != 1 || g.Len != 2 || g.MaxConcurrency != 1 || p.Stages[0].MaxFailures != 0 {
		t.Errorf("%+v", p.Stages)
	}
	if _, s := readFile(t, "example-stages.json"); !azure.IsOneByOne(&p.Strategy) || azure.IsOneByOne(&s) {
		t.Error("IsOneByOne does not tell it from others")
	}
	if _, err := formOf(azure.Form(s)); err == nil || !strings.Contains(err.Error(), "labelSelector") {
		t.Errorf("a file of it: %v", err)
	}
}
