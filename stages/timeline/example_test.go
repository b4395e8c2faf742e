package timeline_test

import (
	"fmt"
	"os"
	"time"

	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/timeline"
)

// The picture of a simulation of seven clusters, as text of 60 columns that are ASCII.
func ExampleText() {
	plan, err := simulate.NewPlan(canaryAndRest(nil), fewClusters())
	if err != nil {
		fmt.Println(err)
		return
	}
	var events []simulate.Event
	environment := simulate.Environment{Default: simulate.Member{Take: 5 * time.Minute}}
	if _, err := simulate.Run(plan, environment, func(e simulate.Event) error {
		events = append(events, e)
		return nil
	}); err != nil {
		fmt.Println(err)
		return
	}
	picture := timeline.Simulated(plan, events, timeline.Options{})
	if err := timeline.Text(os.Stdout, picture, timeline.TextOptions{Width: 60, ASCII: true}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Run of placement scenario
	// would be Completed at 2026-01-05 00:25:00 UTC after 25m
	// 7 clusters, 7 completed
	//
	// UTC          |5 Jan 00:00      |00:10             |00:20
	// since start  |+0s              |+10m              |+20m
	//
	// canary
	//   canary-eu  #########+
	//   canary-us  .........#########+
	//
	// rest
	//   ap-1                         ##########+
	//   eu-1                         ##########+
	//   eu-2                         ..........#########+
	//   us-1                         ..........#########+
	//   us-2                         ....................########+
	//
	// 2026-01-05 00:00:00  started
	// 2026-01-05 00:25:00  completed
	//
	// . waits for its turn  # applying  + completed
}
