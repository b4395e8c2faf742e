package cli

import (
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// RollbackText describes the progress of a run's rollback, "" if none was requested.
func RollbackText(back *fleet.Rollback) string {
	switch {
	case back.Refused != "":
		return "not rolled back: " + back.Refused
	case back.By == "" && back.Pending:
		return "going to be rolled back"
	case back.By == "":
		return ""
	case back.Pending:
		return "going to be rolled back by run " + back.By
	case back.State == stages.Completed:
		return "rolled back by run " + back.By
	case back.State == "":
		return "rolled back by run " + back.By + ", which was deleted"
	default:
		return "rolled back by run " + back.By + ", which is " + string(back.State)
	}
}
