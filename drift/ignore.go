package drift

import (
	"slices"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
)

// ignored reports whether a rule ignores a difference, and removes from it the parts that rules
// ignore.
func (p *pass) ignored(f *compare.Finding, t fieldpath.Trail) bool {
	var inside []fieldpath.Pattern
	for i := range p.m.rules {
		rule := &p.m.rules[i]
		if rule.drops(classOf(f.Class), t, func() string { return p.manager(ownTrail(f, t)) }) {
			return true
		}
		if f.InHub != f.InMember {
			inside = append(inside, rule.trims(classOf(f.Class), t)...)
		}
	}
	var hub, member bool
	f.Hub, hub = fieldpath.Without(f.Hub, inside)
	f.Member, member = fieldpath.Without(f.Member, inside)
	return !hub || !member
}

// drops reports whether the rule drops the difference at a trail. owner returns the manager of the
// field and is called only if the rule names managers.
func (i *ignore) drops(c Class, t fieldpath.Trail, owner func() string) bool {
	return i.allowsClass(c) &&
		(len(i.patterns) == 0 || slices.ContainsFunc(i.patterns, t.Within)) &&
		(len(i.rule.Managers) == 0 || slices.Contains(i.rule.Managers, owner()))
}

// trims returns the rest of the rule's patterns that continue below the end of a trail, if the
// rule depends only on the class.
func (i *ignore) trims(c Class, t fieldpath.Trail) []fieldpath.Pattern {
	if len(i.rule.Managers) > 0 || !i.allowsClass(c) {
		return nil
	}
	var below []fieldpath.Pattern
	for _, p := range i.patterns {
		if len(p) > len(t) && t.Matches(p[:len(t)]) {
			below = append(below, p[len(t):])
		}
	}
	return below
}
