package fleet

// isCapped reports whether the record has what came with failure domains and caps.
func (r *runRecord) isCapped() bool {
	if r.Run.Capped {
		return true
	}
	for i := range r.Run.Stages {
		for j := range r.Run.Stages[i].Groups {
			if len(r.Run.Stages[i].Groups[j].Cells) > 0 {
				return true
			}
		}
	}
	return false
}
