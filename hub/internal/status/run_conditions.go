package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// BlockedRequest is a gate whose request has no object. Why is the reason.
type BlockedRequest struct {
	Stage string
	When  approval.When
	Why   string
}

// Side returns "before" or "after".
func Side(when approval.When) string { return strings.ToLower(string(when)) }

// runConditions returns the conditions of the run as a whole.
func (p *runBuilder) runConditions() []metav1.Condition {
	out := []metav1.Condition{
		p.isTrue(api.ConditionInitialized, api.ReasonInitialized, p.initializedMessage()+p.lateMessage(), p.Run.Created),
	}
	switch r := p.Run; r.State {
	case stages.NotStarted:
		if p.State == v1beta1.StateStop {
			out = append(out, p.isFalse(api.ConditionProgressing, api.ReasonRunStopped, "The update run has been stopped", r.Created))
		}
	case stages.Pending:
		out = append(out, p.isFalse(api.ConditionProgressing, api.ReasonRunWaiting,
			queuedMessage+p.awaited()+" of the same placement to end", p.History.queued))
	case stages.Running:
		out = append(out, p.running())
	case stages.Stopping:
		out = append(out, p.isUnknown(api.ConditionProgressing, api.ReasonRunStopping, p.stoppingMessage(), p.History.stopping))
	case stages.Stopped:
		out = append(out, p.isFalse(api.ConditionProgressing, api.ReasonRunStopped, p.stoppedMessage(), p.History.stopped))
	case stages.Completed:
		out = append(out,
			p.isFalse(api.ConditionProgressing, api.ReasonRunSucceeded, "All stages are completed", r.Ended),
			p.isTrue(api.ConditionSucceeded, api.ReasonRunSucceeded, "All stages are completed successfully"+p.incompleteMessage(), r.Ended))
	default:
		out = append(out, p.ended()...)
	}
	return out
}

func (p *runBuilder) scope() api.Scope { return api.Scope(p.Namespace != "") }

// initializedMessage returns the message about a planned run.
func (p *runBuilder) initializedMessage() string {
	if p.Setting.Behaviour().TasksBySide {
		return p.scope().Kind(api.RunKind) + " initialized successfully"
	}
	return "The UpdateRun initialized successfully"
}

// initializesWithin is the usual limit for the time between the creation of an object and the plan
// of its run. Within it, the content of the run practically is the content at its creation.
const initializesWithin = 10 * time.Second

// lateMessage returns the time of a run's content if the run was planned late: its resources,
// clusters and strategy are from the time of the plan and not from its creation. It is empty for
// other runs.
func (p *runBuilder) lateMessage() string {
	at := p.Run.Created.Time()
	late := at.Sub(p.Made)
	if p.Made.IsZero() || p.Run.Created == 0 || late <= initializesWithin {
		return ""
	}
	return fmt.Sprintf(", %s after it was created: what it brings, its clusters and its strategy are of %s",
		late.Round(time.Second), at.UTC().Format(time.RFC3339))
}

// queuedMessage is the start of the message of a run that waits for another run.
const queuedMessage = "The updateRun is waiting for updateRun "

// awaited returns the name of the run that this run waits for.
func (p *runBuilder) awaited() string {
	for _, a := range step.Waiting(p.Plan, p.Run) {
		return RunName(a.Name)
	}
	return ""
}

// running returns the condition Progressing of a running run: it waits for a task, is stuck on
// clusters that take too long, or makes progress.
func (p *runBuilder) running() metav1.Condition {
	if p.Run.Form(runstate.Key{}).Stage < len(p.Plan.Stages) {
		name, st := p.Plan.Stages[p.Run.Form(runstate.Key{}).Stage].Name, &p.Run.Form(runstate.Key{}).Stages[p.Run.Form(runstate.Key{}).Stage]
		if when, since, ok := gateOf(st); ok {
			return p.isFalse(api.ConditionProgressing, api.ReasonRunWaiting, fmt.Sprintf(
				"The updateRun is waiting for %s-stage tasks in stage %s to complete", Side(when), name)+p.blockedMessage(), max(since, p.History.resumed))
		}
		if late := p.late(); len(late) > 0 {
			return p.isFalse(api.ConditionProgressing, api.ReasonRunStuck, fmt.Sprintf(
				"The updateRun is stuck waiting for %s cluster(s) in stage %s to finish updating, please check placement status for potential errors",
				p.someNames(late), name), p.stuckSince())
		}
	}
	return p.isTrue(api.ConditionProgressing, api.ReasonRunProgressing, "The update run is making progress", p.progressingSince())
}

// blockedMessage returns the reasons why requests have no object.
func (p *runBuilder) blockedMessage() (out string) {
	for _, h := range p.Blocked {
		out += "; " + h.Why
	}
	return out
}

// gateOf returns the side of the stage whose tasks the run waits for, and since when; false if it
// waits for none.
func gateOf(st *runstate.StageRun) (approval.When, stages.Instant, bool) {
	for i := range st.Gates {
		if st.Gates[i].State != stages.Pending {
			continue
		}
		if st.Gates[i].When == approval.Before {
			return approval.Before, st.Reached, true
		}
		return approval.After, st.Done, st.Done != 0
	}
	return "", 0, false
}

// progressingSince returns when the run last started to make progress: when it started, resumed,
// passed a gate, or a stuck cluster ended.
func (p *runBuilder) progressingSince() stages.Instant {
	since := max(p.Run.Started, p.History.resumed, p.History.freed)
	if i := p.Run.Form(runstate.Key{}).Stage; i < len(p.Run.Form(runstate.Key{}).Stages) {
		since = max(since, gatesPassed(&p.Run.Form(runstate.Key{}).Stages[i], approval.Before))
		if i > 0 {
			since = max(since, gatesPassed(&p.Run.Form(runstate.Key{}).Stages[i-1], approval.After))
		}
	}
	return since
}

// gatesPassed returns when the last task before or after a stage ended.
func gatesPassed(st *runstate.StageRun, when approval.When) (at stages.Instant) {
	for i := range st.Gates {
		if st.Gates[i].When == when {
			at = max(at, st.Gates[i].Ended)
		}
	}
	return at
}

// late returns the positions of clusters that have been in flight, or waited for a retry, too long:
// at most one more than stuckNames.
func (p *runBuilder) late() []int {
	var out []int
	now := stages.At(p.Now)
	eachBegun(p.Run, func(pos int, since stages.Instant) {
		if now >= since.Add(stuckAfter) && len(out) <= stuckNames {
			out = append(out, pos)
		}
	})
	slices.Sort(out)
	return out
}

// stuckNames is the maximum number of clusters that a message names.
const stuckNames = 3

func (p *runBuilder) someNames(positions []int) string {
	names := make([]string, 0, stuckNames)
	for _, pos := range positions[:min(len(positions), stuckNames)] {
		names = append(names, p.Plan.Clusters[pos].Name)
	}
	out := strings.Join(names, ", ")
	if len(positions) > stuckNames {
		out += "..."
	}
	return out
}

// stuckSince returns when the first cluster had taken too long.
func (p *runBuilder) stuckSince() (at stages.Instant) {
	eachBegun(p.Run, func(_ int, since stages.Instant) {
		if at == 0 || since < at {
			at = since
		}
	})
	return at.Add(stuckAfter)
}

func (p *runBuilder) stoppingMessage() string {
	switch p.Run.Ending {
	case stages.Failed:
		return "The update run is failing, waiting for all the updating/deleting clusters to finish updating: " + p.Run.Reason
	case stages.Superseded:
		return "The update run makes way for another one, waiting for what is being applied: " + p.Run.Reason
	default:
		return "The update run is the process of stopping, waiting for all the updating/deleting clusters to finish updating before completing the stop process"
	}
}

// stoppedMessage returns the message of a stopped run, with the reason if there is one.
func (p *runBuilder) stoppedMessage() string {
	const message = "The update run has been stopped"
	if p.Run.Reason == "" {
		return message
	}
	return message + ": " + p.Run.Reason
}

// incompleteMessage returns the text about failed and skipped clusters of a completed run; empty if
// there are none.
func (p *runBuilder) incompleteMessage() string {
	var all clusterCounts
	for i := range p.counts {
		all.add(&p.counts[i])
	}
	if all.failed+all.skipped == 0 {
		return ""
	}
	return fmt.Sprintf("; %d cluster(s) failed, %d cluster(s) were skipped", all.failed, all.skipped)
}

// ended returns the conditions of a run that ended without completing.
func (p *runBuilder) ended() []metav1.Condition {
	reason, message := api.ReasonRunFailed, "The stages are aborted due to a non-recoverable error"
	switch p.Run.State {
	case stages.Aborted:
		reason, message = api.ReasonRunAborted, "The stages were aborted"
	case stages.Superseded:
		reason, message = api.ReasonRunSuperseded, "Another update run has taken over"
	default:
	}
	return []metav1.Condition{
		p.isFalse(api.ConditionProgressing, reason, message, p.Run.Ended),
		p.isFalse(api.ConditionSucceeded, reason, p.Run.Reason+p.rollbackText(), p.Run.Ended),
	}
}

// rollbackText returns the text about the requested rollback of the run; empty if there is none.
func (p *runBuilder) rollbackText() string {
	u := p.Run.Form(runstate.Key{}).RollbackRequest
	if u == nil {
		return ""
	}
	if why := p.Rollback.Engine.Refused; why != "" {
		return "; the run is not rolled back: " + why
	}
	text := "; the run is rolled back"
	if by := cmp.Or(p.Rollback.Engine.By, u.Run); by != "" {
		text += " by run " + api.RollbackShown(api.Key{Namespace: p.Namespace, Name: p.Name}, by)
	}
	if u.Message != p.Run.Reason {
		text += ": " + u.Message
	}
	return text
}
