package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// attackGates are the gates of the attacked runs, in the order of their opening.
var attackGates = []approval.Binding{
	{Stage: "a", When: approval.Before}, {Stage: "a", When: approval.After}, {Stage: "b", When: approval.Before},
}

// attackModel models the documentation for a run that only passes from gate to gate.
type attackModel struct {
	policy  approval.Policy
	starter string
	binding approval.Binding
	// run is the state of the run, state the state of its current gate.
	run, state stages.State
	at         int
	// now is the latest time that the run has seen.
	now, opened time.Time
	given       []approval.Decision
	heard       map[string]bool
	told        []toldEvent
}

// toldEvent is an event of a decision or a request that the journal must have.
type toldEvent struct {
	Type                                  stages.EventType
	Request, Digest, By, Message, Command string
	Attempt                               int
}

func (m *attackModel) create(uid, plan string, now time.Time) {
	m.binding, m.at = approval.Binding{RunUID: uid, Plan: plan}, 0
	m.now, m.run, m.heard = now, stages.Running, map[string]bool{}
	m.told = nil
	m.open(0, 1)
}

func (m *attackModel) request() string {
	return approval.RequestName("r", m.binding.Stage, m.binding.When)
}

// tell adds an event.
func (m *attackModel) tell(t stages.EventType, by, message string) {
	m.told = append(m.told, toldEvent{
		Type: t, Request: m.request(), Digest: m.binding.Plan, Attempt: m.binding.Attempt, By: by, Message: message,
	})
}

func (m *attackModel) open(at, attempt int) {
	m.at, m.opened, m.state, m.given = at, m.now, stages.Pending, nil
	m.binding.Stage, m.binding.When, m.binding.Attempt = attackGates[at].Stage, attackGates[at].When, attempt
	m.tell(stages.ApprovalRequested, "", "")
}

// step applies commands to the run, at a time that never goes backwards, and returns the expected
// events.
func (m *attackModel) step(cs []stages.Command, now time.Time) []toldEvent {
	*m = m.after(cs, now)
	m.advance()
	return m.told
}

// after returns the model after the commands, with the expected events.
func (m *attackModel) after(cs []stages.Command, now time.Time) attackModel {
	next := *m
	next.told, next.heard, next.given = nil, maps.Clone(m.heard), slices.Clone(m.given)
	if next.now.Before(now) {
		next.now = now
	}
	for _, c := range inOrder(cs) {
		if !next.heard[c.ID] {
			next.heard[c.ID] = true
			next.hear(&c)
		}
	}
	return next
}

// inOrder returns commands in the order in which they are carried out.
func inOrder(cs []stages.Command) []stages.Command {
	return slices.SortedStableFunc(slices.Values(cs), func(a, b stages.Command) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
	})
}

func (m *attackModel) hear(c *stages.Command) {
	counts := !m.final()
	switch c.Verb {
	case stages.Decide:
		if counts = c.Decision != nil && c.By.Name == c.Decision.By.Name && m.allows(c.Decision, m.now); counts {
			m.count(c.Decision)
		}
	case stages.Stop:
		counts = m.run == stages.Running
		m.move(counts, stages.Stopped)
	case stages.Abort:
		m.move(counts, stages.Aborted)
	case stages.Supersede:
		m.move(counts, stages.Superseded)
		return // a Supersede command for an ended run has nothing to do
	default:
		counts = counts && m.run != stages.Running
		m.move(counts, stages.Running)
	}
	if !counts {
		m.told = append(m.told, toldEvent{Type: stages.CommandRefused, Command: string(c.Verb), By: c.By.Name, Message: "why"})
	}
}

func (m *attackModel) move(goes bool, to stages.State) {
	if goes {
		m.run = to
	}
}

func (m *attackModel) final() bool {
	return m.run == stages.Completed || m.run == stages.Aborted || m.run == stages.Superseded
}

// advance moves the run on from a passed gate, and asks again at a gate that was rejected or has
// expired.
func (m *attackModel) advance() {
	switch {
	case m.run != stages.Running:
	case m.state == stages.Failed:
		m.open(m.at, m.binding.Attempt+1)
	case m.state == stages.Completed && m.at == len(attackGates)-1:
		m.run = stages.Completed
	case m.state == stages.Completed:
		m.open(m.at+1, 1)
	case m.expired(m.now):
		m.tell(stages.ApprovalExpired, "", "")
		m.open(m.at, m.binding.Attempt+1)
	}
}

func (m *attackModel) expired(now time.Time) bool {
	return m.policy.Expires.Duration > 0 && !now.Before(m.opened.Add(m.policy.Expires.Duration))
}

// asks reports whether the request may be answered.
func (m *attackModel) asks() bool {
	return (m.run == stages.Running || m.run == stages.Stopped) && m.state == stages.Pending
}

// allows reports whether a decision that comes now counts.
func (m *attackModel) allows(d *approval.Decision, now time.Time) bool {
	name := d.By.Name
	clean := name != "" && name == strings.TrimSpace(name) && !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
	early := !d.At.IsZero() && d.At.Before(m.opened)
	starter := m.policy.ForbidStarter && (m.starter == "" || name == m.starter)
	twice := slices.ContainsFunc(m.given, func(g approval.Decision) bool { return g.By.Name == name })
	return m.asks() && clean && len(d.Comment) <= 1024 && d.Binding == m.binding && !m.expired(now) && !early && !starter && !twice && m.wants(d)
}

// wants reports whether the decision comes from a required group and, if it is an approval, whether
// that group still lacks approvals.
func (m *attackModel) wants(d *approval.Decision) bool {
	for _, q := range m.quorums() {
		if memberOf(d, q.Group) && (d.Verdict == approval.Reject || d.Verdict == approval.Approve && m.have(q.Group) < q.Count) {
			return true
		}
	}
	return false
}

func memberOf(d *approval.Decision, group string) bool {
	return group == "" || slices.Contains(d.By.Groups, group)
}

func (m *attackModel) quorums() []approval.Quorum {
	if len(m.policy.Quorums) == 0 {
		return []approval.Quorum{{Count: 1}}
	}
	return m.policy.Quorums
}

func (m *attackModel) have(group string) (n int) {
	for i := range m.given {
		if memberOf(&m.given[i], group) {
			n++
		}
	}
	return n
}

// count counts a decision.
func (m *attackModel) count(d *approval.Decision) {
	m.given = append(m.given, *d)
	missing := slices.ContainsFunc(m.quorums(), func(q approval.Quorum) bool { return m.have(q.Group) < q.Count })
	switch {
	case d.Verdict == approval.Reject:
		m.tell(stages.ApprovalRejected, d.By.Name, d.Comment)
		m.state, m.run = stages.Failed, stages.Failed
	case missing:
		m.tell(stages.ApprovalGiven, d.By.Name, d.Comment)
	default:
		m.tell(stages.ApprovalAccepted, d.By.Name, d.Comment)
		m.state = stages.Completed
	}
}

// hasGiven reports whether the decision repeats one that counts.
func (m *attackModel) hasGiven(d *approval.Decision) bool {
	return slices.ContainsFunc(m.given, func(g approval.Decision) bool { return g.By.Name == d.By.Name && g.Verdict == d.Verdict })
}
