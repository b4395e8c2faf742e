package fleet

// RecordKeys returns the keys that a placement, a run, a command and a stream of
// the same name have.
func RecordKeys(name, id string) map[string]string {
	return map[string]string{
		"placement": placementKey(name), "run": runKey(name), "command": commandKey(name, id),
		"journal": journalPrefix(name) + id, "begun": begunPrefix(name) + id, "bindings": bindingsPrefix(name) + id, "content": contentPrefix(name) + id,
		"flight": (&flightPages{uid: name}).key(id), "plan": planKey(name), "plan page": pageKey(planKey(name), len(id)),
	}
}
