package stages

// requestRollback records that the run is to be rolled back, where the strategy asks for it, and reports
// whether it does. A run that was aborted ends as Aborted, also while steps that run always still run, and is
// not rolled back.
func (c control) requestRollback(u RollbackRequest) bool {
	if !c.p.Strategy.Rollback.Includes(u.Cause) || c.r.RollbackRequest != nil || c.r.IsAborting() {
		return c.r.RollbackRequest != nil
	}
	by := u.By.Name
	if u.Cause != OnCommand {
		u.By = c.r.Starter
	}
	u.Message = cut(u.Message)
	c.r.RollbackRequest = &u
	c.emit(Event{Type: RollbackRequested, By: by, Message: u.Message})
	return true
}

// cancelRollback drops the request for a rollback: another run has the placement, or the run was aborted.
func (c control) cancelRollback() {
	if c.r.RollbackRequest != nil {
		c.r.RollbackRequest, c.changed = nil, true
	}
}

// noRollback is the reason why a run whose strategy has no Rollback is not rolled back.
const noRollback = "its strategy has no rollback: roll out the snapshot that is to be there, in a run of its own"
