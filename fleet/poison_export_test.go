package fleet

// Reseal returns a record with what is behind its checksum changed, under a
// checksum that is right.
func Reseal(value string, change func(rest string) string) string {
	return string(sealed([]byte(change(value[sealLen:]))))
}

// IsSealed reports whether a record has the checksum that it would have.
func IsSealed(value string) bool {
	return len(value) > sealLen && value == string(sealed([]byte(value[sealLen:])))
}

// RecordKeys returns the keys that a placement, a run, a command and a stream of
// the same name have.
func RecordKeys(name, id string) map[string]string {
	return map[string]string{
		"placement": placementKey(name), "run": runKey(name), "command": commandKey(name, id),
		"journal": journalPrefix(name) + id, "begun": begunPrefix(name) + id, "roster": rosterPrefix(name) + id, "content": contentPrefix(name) + id,
		"flight": (&flightPages{uid: name}).key(id), "plan": planKey(name), "plan page": pageKey(planKey(name), len(id)),
	}
}
