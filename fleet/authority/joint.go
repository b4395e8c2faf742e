package authority

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slipway-dev/slipway/approval"
)

// Limits of the name and the comment that an engine accepts, in bytes.
const (
	nameMost    = 512
	commentMost = 1024
)

// joint returns the joint decision of approvals. It returns no decision if each of them is already
// recorded, because it would count a second time.
func joint(r *approval.Request, all []*answer, groups []string) approval.Decision {
	if !slices.ContainsFunc(all, func(a *answer) bool { return isNew(r, &a.Decision) }) {
		return approval.Decision{}
	}
	if len(all) == 1 {
		return all[0].Decision
	}
	d := approval.Decision{Verdict: approval.Approve, By: approval.Identity{Groups: groups}}
	var names, comments []string
	for _, a := range all {
		d.PointInTime = d.PointInTime || a.PointInTime
		if !slices.Contains(names, a.By.Name) {
			names = append(names, a.By.Name)
		}
		if a.Comment != "" {
			comments = append(comments, a.By.Name+": "+a.Comment)
		}
	}
	d.By.Name = strings.Join(names, ", ")
	if len(d.By.Name) > nameMost {
		d.By.Name = fmt.Sprintf("%d approvers together", len(names))
	}
	d.Comment = cut(strings.Join(comments, "; "))
	return d
}

func cut(s string) string {
	s = strings.ToValidUTF8(s, " ")
	if len(s) <= commentMost {
		return s
	}
	end := commentMost
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// commonGroups returns the groups that every identity is in, in the order of the first identity.
func commonGroups(all []*answer) (out []string) {
	if len(all) == 0 {
		return nil
	}
	for _, g := range all[0].By.Groups {
		if !slices.ContainsFunc(all, func(a *answer) bool { return !slices.Contains(a.By.Groups, g) }) {
			out = append(out, g)
		}
	}
	return out
}

// allGroups returns the groups that any of the identities is in.
func allGroups(all []*answer) (out []string) {
	for _, a := range all {
		for _, g := range a.By.Groups {
			if !slices.Contains(out, g) {
				out = append(out, g)
			}
		}
	}
	return out
}

// isStarter reports whether a decision does not count because the policy forbids the starter of the
// run to approve.
func isStarter(r *approval.Request, d *approval.Decision) bool {
	return r.Policy.ForbidStarter && (r.Starter.Name == "" || d.By.Name == r.Starter.Name)
}

// isNew reports whether the identity has not yet decided the request.
func isNew(r *approval.Request, d *approval.Decision) bool {
	return !slices.ContainsFunc(r.Decisions, func(e approval.Decision) bool { return e.By.Name == d.By.Name })
}

// counts reports whether an engine that received the decision now would count it for the request.
func counts(r *approval.Request, d *approval.Decision) bool {
	_, err := evaluate(r, d)
	return err == nil
}

// isEnough reports whether none of the other approvals would count beside an approval.
func isEnough(r *approval.Request, a *answer, all []*answer) bool {
	next, err := evaluate(r, &a.Decision)
	return err == nil && !slices.ContainsFunc(all, func(b *answer) bool { return b != a && counts(&next, &b.Decision) })
}

// evaluate returns the request as it would be if an engine received the decision now.
func evaluate(r *approval.Request, d *approval.Decision) (approval.Request, error) {
	now := time.Now()
	if now.Before(r.Opened) {
		now = r.Opened
	}
	received := *d
	received.Binding, received.At = r.Binding, now
	next, _, err := approval.Evaluate(*r, received, now)
	return next, err
}
