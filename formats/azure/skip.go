package azure

import (
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
)

// SkipOf returns the command for a target of az fleet updaterun skip: Member:NAME, Group:NAME,
// Stage:NAME, or AfterStageWait:STAGE. The caller must set the requester.
func SkipOf(target string) (stages.Command, error) {
	kind, name, ok := strings.Cut(target, ":")
	scope := stages.SkipScope(kind)
	switch scope {
	case stages.SkipCluster, stages.SkipGroup, stages.SkipStage, stages.SkipAfterWait:
		if ok && name != "" {
			return stages.Command{Verb: stages.Skip, Scope: scope, Name: name}, nil
		}
	}
	return stages.Command{}, fmt.Errorf("target %q must be Member:NAME, Group:NAME, Stage:NAME or AfterStageWait:STAGE", yamldoc.Clip(target))
}
