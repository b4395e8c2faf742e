package calendar_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
	"github.com/slipway-dev/slipway/stages/planner"
)

// A cluster has a window at night in its own time zone, and a freeze on the last days of
// November.
func ExampleRules_For() {
	strategy := stages.Strategy{Name: "all", Stages: []stages.Stage{{Name: "prod", Selector: &metav1.LabelSelector{}}}}
	target := stages.Target{Placement: "web", Snapshot: "9f86d081", Selection: "60303ae2", Default: "fd61a03a"}
	plan, err := planner.Plan(strategy, target, []placement.Cluster{{Name: "berlin"}, {Name: "mumbai"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	night := calendar.Window{RRule: "FREQ=DAILY;BYHOUR=2", Duration: metav1.Duration{Duration: 2 * time.Hour}}
	rules := calendar.Rules{
		Run: calendar.Level{Freezes: []calendar.Freeze{{Name: "black-friday", From: "2026-11-27T00:00:00Z", Until: "2026-12-01T00:00:00Z"}}},
		Clusters: map[string]calendar.Level{
			"berlin": {TimeZone: "Europe/Berlin", Windows: []calendar.Window{night}},
			"mumbai": {TimeZone: "Asia/Kolkata", Windows: []calendar.Window{night}},
		},
	}
	when, err := rules.For(plan)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, at := range []time.Time{
		time.Date(2026, 11, 26, 1, 30, 0, 0, time.UTC),
		time.Date(2026, 11, 28, 1, 30, 0, 0, time.UTC),
	} {
		for pos, cluster := range plan.Clusters {
			w := when.Window(pos, at)
			fmt.Printf("%s %s %t until %s %q\n", at.Format("02 15:04"), cluster.Name, w.Open, w.Until.Format("02 15:04"), w.Reason)
		}
	}
	// Output:
	// 26 01:30 berlin true until 26 03:00 ""
	// 26 01:30 mumbai false until 26 20:30 "outside its maintenance window"
	// 28 01:30 berlin false until 01 01:00 "freeze black-friday"
	// 28 01:30 mumbai false until 01 20:30 "freeze black-friday"
}

// Everything that is wrong is reported at once.
func ExampleRules_Validate() {
	var rules calendar.Rules
	err := yaml.UnmarshalStrict([]byte(`
clusters:
  berlin:
    timeZone: europe/berlin
    windows:
    - {rrule: FREQ=DAILY;BYHOUR=25, duration: 2h}
    - {rrule: FREQ=WEEKLY, duration: 2h}
`), &rules)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rules.Validate())
	// Output:
	// calendar rules: [clusters[berlin].timeZone: Invalid value: "europe/berlin": is not the name of a time zone in the IANA database: it is Europe/Berlin, clusters[berlin].windows[0].rrule: Invalid value: "FREQ=DAILY;BYHOUR=25": BYHOUR: 25 is not a number from 0 to 23, clusters[berlin].windows[1].rrule: Invalid value: "FREQ=WEEKLY": FREQ=WEEKLY needs BYDAY, or a start that says which day]
}
