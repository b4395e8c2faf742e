package azure_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/slipway-dev/slipway/formats/azure"
)

// The file of the tutorial.
func ExampleRead() {
	f, err := os.Open("testdata/example-stages.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = f.Close() }() // it was only read
	s, err := azure.Read(f, "example-stages.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, st := range s.Stages {
		fmt.Println("stage", st.Name, "with", len(st.Groups), "groups")
		for _, t := range st.After {
			fmt.Println("then", t.Type, t.Wait.Duration)
		}
	}
	// Output:
	// stage stage1 with 3 groups
	// then TimedWait 1h0m0s
	// stage stage2 with 3 groups
}

func ExampleRead_problems() {
	_, err := azure.Read(strings.NewReader(`{"stages": [
  {"name": "canary", "groups": [{"name": "eu"}], "afterStageWait": 3600},
  {"name": "rest", "groups": [{"name": "eu", "maxConcurrency": "200%"}]}
]}`), "stages.json")
	fmt.Println(err)
	// Output:
	// stages.json:2: stages[0].afterStageWait: unknown field; known are afterGates, afterStageWaitInSeconds, beforeGates, groups, maxAllowedFailures, maxConcurrency, memberSelector, name
	// stages.json:3: stages[1].groups[0].name: the group "eu" is there already, on line 2; a group is in one stage, once
	// stages.json:3: stages[1].groups[0].maxConcurrency: must be a number of at least 1, or a percentage from 1% to 100%, such as "3" or "25%", not "200%"
}
