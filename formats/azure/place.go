package azure

import "strings"

// place turns the path of a field of a strategy into the path in the source document.
func place(path string) string {
	if below, ok := strings.CutPrefix(path, "rollback"); ok {
		return rollbackField + below
	}
	return strings.NewReplacer(
		"labelSelector", "memberSelector", "maxFailures", "maxAllowedFailures",
		"beforeStageTasks", "beforeGates", "afterStageTasks", "afterGates",
		"beforeGroupTasks", "beforeGates", "afterGroupTasks", "afterGates",
		"schedule.day", "scheduledStartConfiguration.startDay", "schedule.time", "scheduledStartConfiguration.startTime",
		"schedule.offset", "scheduledStartConfiguration.utcOffset", "schedule", "scheduledStartConfiguration",
	).Replace(path)
}
