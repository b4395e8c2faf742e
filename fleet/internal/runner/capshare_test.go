package runner

import (
	"testing"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// A driver uses no slots of a cap before it has made a claim under its own epoch: the previous
// driver may be about to return the slots that this driver has read.
func TestCapSlotsNeedAClaim(t *testing.T) {
	c, _ := stages.Cap{Name: "x", Limit: 4}.Claim(stages.Claim{UID: "uid", Run: "r", Wants: 4})
	starving, _ := c.Claim(stages.Claim{UID: "other", Run: "o", Wants: 1})
	for name, tt := range map[string]struct {
		share *capShare
		state stages.State
		want  int
	}{
		"no cap":            {&capShare{cap: c, claimed: true}, stages.Running, 0},
		"no claim":          {&capShare{name: "x", cap: c}, stages.Running, 0},
		"not even given":    {&capShare{name: "x", cap: c, given: true}, stages.Running, 0},
		"the run is over":   {&capShare{name: "x", cap: c, claimed: true}, stages.Failed, 0},
		"a claim":           {&capShare{name: "x", cap: c, claimed: true}, stages.Running, 4},
		"another run waits": {&capShare{name: "x", cap: starving, claimed: true}, stages.Running, 0},
		"just given":        {&capShare{name: "x", cap: starving, claimed: true, given: true}, stages.Running, 4},
	} {
		tt.share.uid = "uid"
		if got := tt.share.slots(&step.Run{State: tt.state}); got != tt.want {
			t.Errorf("%s: %d slots, want %d", name, got, tt.want)
		}
	}
}
