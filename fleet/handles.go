package fleet

// PlacementHandle has the operations on one placement. It is a small value without state: each
// method reads the store, so a handle may be kept, copied and used concurrently for as long as its
// engine is used. [Engine.PutPlacement] declares a placement.
type PlacementHandle struct {
	e    *Engine
	name string
}

// Placement returns the handle of the placement of that name. It reads nothing, and the placement
// need not exist.
func (e *Engine) Placement(name string) PlacementHandle { return PlacementHandle{e, name} }

// Name returns the name of the placement.
func (h PlacementHandle) Name() string { return h.name }

// RunHandle has the operations on one run. It is a small value without state: each method reads the
// store, so a handle may be kept, copied and used concurrently for as long as its engine is used.
// It refers to the run by name: if the run is deleted and another run is created under the name,
// the handle refers to the new run. [Engine.CreateRun] and [Engine.EnsureRun] create a run.
type RunHandle struct {
	e    *Engine
	name string
}

// Run returns the handle of the run of that name. It reads nothing, and the run need not exist.
func (e *Engine) Run(name string) RunHandle { return RunHandle{e, name} }

// Name returns the name of the run.
func (h RunHandle) Name() string { return h.name }
