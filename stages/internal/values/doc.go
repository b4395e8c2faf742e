// Package values checks and resolves the names, numbers and texts of strategies, plans and
// commands, for packages stages, stages/planner and stages/step.
package values
