package approval

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrRefused is matched by the error for a decision that was refused and changed nothing.
var ErrRefused = errors.New("approval: refused")

// RefusedError is the error for a decision that was refused. It matches [ErrRefused].
type RefusedError struct {
	// Request is the name of the request.
	Request string
	// By is the name of the identity of the decision.
	By string
	// Reason says why the decision was refused.
	Reason string
}

// Error names the request, the identity and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("approval: request %.256q: the decision of %.256q is refused: %s", e.Request, e.By, e.Reason)
}

// Is reports whether target is [ErrRefused].
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

const (
	longestName    = 512
	longestComment = 1024
)

// decided returns a message if the request is already decided, or "".
func decided(r *Request) string {
	if o := outcome(r); o != Pending {
		return "the request was decided already: " + string(o)
	}
	return ""
}

// refusal returns the reason why the decision does not count, or "". It checks the content of the
// decision before the right of its identity to decide.
func refusal(r *Request, d *Decision, now time.Time) string {
	if d.Verdict != Approve && d.Verdict != Reject {
		return fmt.Sprintf("verdict %.64q is neither %s nor %s", d.Verdict, Approve, Reject)
	}
	if reason := unclear(d); reason != "" {
		return reason
	}
	if reason := unbound(d.Binding, r.Binding); reason != "" {
		return reason
	}
	if reason := untimely(r, d, now); reason != "" {
		return reason
	}
	return unentitled(r, d)
}

// unclear returns the problem of a decision's texts, or "". The texts are stored and shown, so
// they are bounded and must survive JSON unchanged.
func unclear(d *Decision) string {
	if d.By.Name == "" {
		return "the identity has no name"
	}
	if reason := unreadable(d.By.Name); reason != "" {
		return "the name of the identity " + reason
	}
	if len(d.Comment) > longestComment {
		return fmt.Sprintf("the comment has %d bytes, more than %d", len(d.Comment), longestComment)
	}
	if !utf8.ValidString(d.Comment) {
		return "the comment is not UTF-8"
	}
	return ""
}

// unreadable returns the reason why a name could look like a different one, or "".
func unreadable(name string) string {
	switch {
	case len(name) > longestName:
		return fmt.Sprintf("has %d bytes, more than %d", len(name), longestName)
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case name != strings.TrimSpace(name):
		return "begins or ends with a space"
	case strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "has a character that cannot be seen"
	}
	return ""
}

// unbound returns the fields that differ between two bindings, or "".
func unbound(got, want Binding) string {
	var fields []string
	differ := func(field string, got, want any) {
		if got != want {
			fields = append(fields, fmt.Sprintf("%s is %.80q, the request's is %.80q", field, fmt.Sprint(got), fmt.Sprint(want)))
		}
	}
	differ("runUID", got.RunUID, want.RunUID)
	differ("stage", got.Stage, want.Stage)
	differ("group", got.Group, want.Group)
	differ("when", got.When, want.When)
	differ("attempt", got.Attempt, want.Attempt)
	differ("plan", got.Plan, want.Plan)
	if len(fields) == 0 {
		return ""
	}
	return "it is about something else: " + strings.Join(fields, "; ")
}

// untimely returns a message if a decision came before the request opened or after it expired, or
// "". The later of the two clocks counts for the expiry.
func untimely(r *Request, d *Decision, now time.Time) string {
	if d.At.Before(r.Opened) {
		return "it is stamped " + stamp(d.At) + ", before the request opened at " + stamp(r.Opened)
	}
	if reason := mistimed(r, d, now); d.IsMomentary() && reason != "" {
		return reason
	}
	if r.Policy.Expires.Duration == 0 {
		return ""
	}
	if end := r.Opened.Add(r.Policy.Expires.Duration); !now.Before(end) || !d.At.Before(end) {
		return "the request expired at " + stamp(end)
	}
	return ""
}

// mistimed returns the reason why an approval with PointInTime is not valid now, or "".
func mistimed(r *Request, d *Decision, now time.Time) string {
	switch {
	case now.Sub(d.At) > PointInTimeAge:
		return "it held at " + stamp(d.At) + " only, which is more than " + PointInTimeAge.String() + " ago: ask again"
	case d.At.After(now):
		return "it is to hold at " + stamp(d.At) + " only, which is yet to come"
	case now.Before(r.NotBefore):
		return "it holds now only, and a wait beside the request ends at " + stamp(r.NotBefore) + ": ask again then"
	}
	return ""
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// unentitled returns the reason why this identity may not decide, or not this, or not now, or "".
func unentitled(r *Request, d *Decision) string {
	if r.Policy.ForbidStarter && r.Starter.Name == "" {
		return "the policy forbids the one who started the run, and who that was is not known"
	}
	if r.Policy.ForbidStarter && r.Starter.Name == d.By.Name {
		return "the policy forbids the one who started the run"
	}
	if slices.ContainsFunc(r.Decisions, func(e Decision) bool { return e.By.Name == d.By.Name }) {
		return "the same identity has decided already"
	}
	if !member(d.By, quorums(r.Policy)) {
		return "the identity is in none of the groups " + groups(r.Policy)
	}
	if d.Verdict == Approve && !tallyOf(r).add(d.By) {
		return "no more approvals are needed of the groups of the identity"
	}
	return ""
}

func member(i Identity, quorums []Quorum) bool {
	return slices.ContainsFunc(quorums, func(q Quorum) bool { return i.in(q.Group) })
}

func groups(p Policy) string {
	names := make([]string, 0, len(p.Quorums))
	for _, q := range p.Quorums {
		names = append(names, q.Group)
	}
	return strings.Join(names, ", ")
}
