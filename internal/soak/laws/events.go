package laws

import (
	"fmt"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// History is the state of one run as its events so far describe it.
type History struct {
	run   string
	plan  *stages.Plan
	state stages.EventType
	epoch int64
	// at is the time of the run.
	at time.Time
	// resumed is the number of times that the run was resumed. An event that must happen once may
	// repeat after each of them.
	resumed int
	once    map[string]bool
	// stage is the last started stage; over contains the ended stages.
	stage    int
	over     map[int]bool
	inFlight map[string]bool
	until    map[string]time.Time
	approved map[string][]string
}

// NewHistory returns the history of a run before its first event.
func NewHistory(run string, p *stages.Plan) *History {
	return &History{
		run: run, plan: p, stage: -1, once: map[string]bool{}, over: map[int]bool{},
		inFlight: map[string]bool{}, until: map[string]time.Time{}, approved: map[string][]string{},
	}
}

// Take adds the next event and returns the laws that it breaks.
func (h *History) Take(ev stages.Event) (out []string) {
	wrong := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("run %s, %s %s%s attempt %d: %s", h.run, ev.Type, ev.Stage, "/"+ev.Cluster, ev.Attempt, fmt.Sprintf(format, args...)))
	}
	if h.ended() && ev.Type != stages.CommandRefused && ev.Type != stages.RunTaken {
		wrong("it comes after %s", h.state)
	}
	if ev.Type != stages.RunTaken { // that has the time of an engine
		if ev.Time.Before(h.at) {
			wrong("the time of the run goes back from %v to %v", h.at, ev.Time)
		}
		h.at = ev.Time
	}
	if text := h.again(ev); text != "" {
		wrong("it comes again: %s", text)
	}
	switch {
	case ev.Cluster != "":
		h.cluster(ev, wrong)
	case ev.Stage != "":
		h.stageEvent(ev, wrong)
	default:
		h.runEvent(ev, wrong)
	}
	return out
}

// ended reports whether nothing may come any more. A failed run of profile
// ClusterUpdate can be started again, aborted and superseded.
func (h *History) ended() bool {
	switch h.state {
	case stages.RunCompleted, stages.RunAborted, stages.RunSuperseded:
		return true
	case stages.RunFailed:
		return h.plan.Strategy.Profile != stages.ClusterUpdate
	default:
		return false
	}
}

// again reports that an event came before which comes only once.
func (h *History) again(ev stages.Event) string {
	key := ""
	switch ev.Type {
	case stages.ClusterStarted, stages.ClusterApplied:
		key = fmt.Sprint(ev.Type, ev.Cluster, ev.Attempt, h.resumed)
	case stages.ClusterCompleted, stages.ClusterFailed, stages.ClusterRemoved:
		key = fmt.Sprint("end of ", ev.Cluster, h.resumed)
	case stages.ApprovalAccepted, stages.ApprovalRequested:
		key = fmt.Sprint(ev.Type, ev.Request, ev.Attempt)
	case stages.RunStarted, stages.RunCompleted, stages.RunAborted, stages.RunSuperseded:
		key = string(ev.Type)
	default:
		return ""
	}
	if h.once[key] {
		return key
	}
	h.once[key] = true
	return ""
}

func (h *History) runEvent(ev stages.Event, wrong func(string, ...any)) {
	switch ev.Type {
	case stages.RunTaken:
		if ev.Epoch <= h.epoch {
			wrong("epoch %d after %d", ev.Epoch, h.epoch)
		}
		h.epoch = ev.Epoch
		return
	case stages.CommandAccepted, stages.CommandRefused, stages.RunQueued:
		return
	case stages.RunResumed:
		h.resumed++
	case stages.RunStopping, stages.RunStopped:
		clear(h.inFlight) // updates in flight complete; no cluster starts any more
	default:
	}
	h.state = ev.Type
}

// running reports whether something may start now.
func (h *History) running() bool {
	return h.state == stages.RunStarted || h.state == stages.RunResumed
}

func (h *History) stageEvent(ev stages.Event, wrong func(string, ...any)) {
	at := h.position(ev.Stage)
	if at < 0 {
		wrong("the plan has no such stage")
		return
	}
	switch ev.Type {
	case stages.StageStarted:
		if !h.running() {
			wrong("the run is %s", h.state)
		}
		for i := range at {
			if !h.over[i] {
				wrong("stage %s has not ended", h.plan.Stages[i].Name)
			}
		}
		h.stage = at
	case stages.StageCompleted, stages.StageSkipped:
		h.over[at] = true
	case stages.WaitStarted:
		h.until[ev.Stage] = ev.Until
	case stages.WaitEnded:
		if ev.Time.Before(h.until[ev.Stage]) {
			wrong("it was to last until %s", h.until[ev.Stage])
		}
	case stages.ApprovalGiven, stages.ApprovalAccepted:
		key := fmt.Sprint(ev.Request, ev.Attempt)
		if slices.Contains(h.approved[key], ev.By) {
			wrong("%s approved before", ev.By)
		}
		h.approved[key] = append(h.approved[key], ev.By)
	default:
	}
}

func (h *History) position(stage string) int {
	return slices.IndexFunc(h.plan.Stages, func(s stages.PlannedStage) bool { return s.Name == stage })
}

func (h *History) cluster(ev stages.Event, wrong func(string, ...any)) {
	switch ev.Type {
	case stages.ClusterStarted:
		h.started(ev, wrong)
	case stages.ClusterCompleted, stages.ClusterFailed, stages.ClusterSkipped, stages.ClusterRemoved, stages.ClusterPending:
		delete(h.inFlight, ev.Cluster)
	default:
	}
}

// started checks that a cluster may start.
func (h *History) started(ev stages.Event, wrong func(string, ...any)) {
	if !h.running() {
		wrong("the run is %s", h.state)
	}
	pos, ok := h.plan.Position(ev.Cluster)
	if !ok {
		wrong("the plan has no such cluster")
		return
	}
	at, _ := h.plan.StageOf(pos)
	for i := range at {
		if !h.over[i] {
			wrong("stage %s has not ended", h.plan.Stages[i].Name)
		}
	}
	if h.stage != at {
		wrong("its stage has not started")
	}
	h.inFlight[ev.Cluster] = true
	n := 0
	for c := range h.inFlight {
		if p, ok := h.plan.Position(c); ok {
			if s, _ := h.plan.StageOf(p); s == at {
				n++
			}
		}
	}
	if most := h.plan.Stages[at].MaxConcurrency; most > 0 && n > most {
		wrong("%d clusters of stage %s are in flight, at most %d may be", n, ev.Stage, most)
	}
}
