// Package access limits by a policy file how identities may use the API of package httpapi. The
// command slipway serve uses it with --policy FILE.
//
// A policy has rules. Each gives a role to identities on placements:
//
//	rules:
//	- role: admin
//	  groups: [platform]
//	  placements: ["*"]
//	- role: operator
//	  users: [ann, bot]
//	  placements: [shop, web-*]
//	- role: viewer
//	  users: ["*"]
//	  placements: [shop]
//
// The roles and their verbs are
//
//	viewer    get, preview
//	approver  get, preview, approve
//	operator  get, preview, create, operate, rollback
//	admin     all verbs
//
// A rule applies to an identity if users has its name or groups has one of its groups; the user *
// is every identity. Names are compared byte by byte. A placement with * at its end stands for all
// names with this beginning. Strategies and caps belong to no placement, and only the placement *
// includes them; but a run may name a declared strategy without a right to it. If no rule permits a
// request, it is refused.
//
// A rule restricts names, not content. An admin of some placements can declare a placement with any
// objects of the source. An operator chooses the strategy of a run, and so its approvals.
package access

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/httpapi"
)

// Role is a set of verbs.
type Role string

// The roles.
const (
	Viewer   Role = "viewer"
	Approver Role = "approver"
	Operator Role = "operator"
	Admin    Role = "admin"
)

// Roles returns all roles.
func Roles() []Role { return []Role{Viewer, Approver, Operator, Admin} }

// Permits reports whether a role has a verb.
func (r Role) Permits(verb httpapi.Verb) bool {
	switch r {
	case Admin:
		return true
	case Viewer, Approver, Operator:
	default:
		return false
	}
	switch verb { //nolint:exhaustive // only Admin has the others
	case httpapi.Get, httpapi.Preview:
		return true
	case httpapi.Approve:
		return r == Approver
	case httpapi.Create, httpapi.Operate, httpapi.Rollback:
		return r == Operator
	}
	return false
}

// Rule gives a role to identities on placements.
type Rule struct {
	Role       Role     `json:"role"`
	Users      []string `json:"users,omitempty"`
	Groups     []string `json:"groups,omitempty"`
	Placements []string `json:"placements"`
}

// everything stands for all users, or for all placements, strategies and caps.
const everything = "*"

// Policy decides by rules. It does not change and may be used concurrently; [Read] makes one.
type Policy struct{ rules []Rule }

// Read reads a policy from YAML or JSON. The error names every problem with its place, such as
// rules[2].role.
func Read(text []byte) (*Policy, error) {
	var file struct {
		Rules []Rule `json:"rules"`
	}
	if docs := bytes.Count(append([]byte("\n"), text...), []byte("\n---")); docs > 1 || docs == 1 && !bytes.HasPrefix(text, []byte("---")) {
		return nil, errors.New("a policy is one document")
	}
	inJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	unknown, err := json.UnmarshalStrict(inJSON, &file)
	if err = errors.Join(append(unknown, err)...); err != nil {
		return nil, err
	}
	var errs field.ErrorList
	at := field.NewPath("rules")
	if len(file.Rules) == 0 {
		errs = append(errs, field.Required(at, "without a rule nobody may do anything"))
	}
	for i := range file.Rules {
		errs = append(errs, file.Rules[i].problems(at.Index(i))...)
	}
	if err = errs.ToAggregate(); err != nil {
		return nil, err
	}
	return &Policy{file.Rules}, nil
}

func (r *Rule) problems(at *field.Path) (errs field.ErrorList) {
	if !slices.Contains(Roles(), r.Role) {
		errs = append(errs, field.NotSupported(at.Child("role"), r.Role, Roles()))
	}
	if len(r.Users)+len(r.Groups) == 0 {
		errs = append(errs, field.Required(at, "users or groups: name the identities that get the role"))
	}
	errs = append(errs, texts(r.Users, at.Child("users"))...)
	for i, group := range r.Groups {
		if group == everything {
			errs = append(errs, field.Invalid(at.Child("groups").Index(i), group, "a group has a name; users: [\"*\"] means every identity"))
		}
	}
	errs = append(errs, texts(r.Groups, at.Child("groups"))...)
	if len(r.Placements) == 0 {
		errs = append(errs, field.Required(at.Child("placements"), `names of placements, beginnings such as web-*, or "*"`))
	}
	for i, name := range r.Placements {
		if strings.Contains(strings.TrimSuffix(name, everything), everything) {
			errs = append(errs, field.Invalid(at.Child("placements").Index(i), name, "* may only be at the end"))
		}
	}
	return append(errs, texts(r.Placements, at.Child("placements"))...)
}

// texts reports empty texts, which would name nothing.
func texts(list []string, at *field.Path) (errs field.ErrorList) {
	for i, text := range list {
		if text == "" {
			errs = append(errs, field.Required(at.Index(i), "a name"))
		}
	}
	return errs
}

// errRefused is the text for a refused identity. It names no rule, because a policy may be
// confidential.
var errRefused = errors.New("the policy gives no such right")

// Authorize is a function for [httpapi.Options].Authorize.
func (p *Policy) Authorize(_ context.Context, by approval.Identity, verb httpapi.Verb, placement string) error {
	for i := range p.rules {
		if r := &p.rules[i]; r.Role.Permits(verb) && r.isFor(by) && r.covers(placement) {
			return nil
		}
	}
	return errRefused
}

func (r *Rule) isFor(by approval.Identity) bool {
	if by.Name == "" {
		return false
	}
	return slices.Contains(r.Users, everything) || slices.Contains(r.Users, by.Name) ||
		slices.ContainsFunc(by.Groups, func(g string) bool { return g != "" && slices.Contains(r.Groups, g) })
}

func (r *Rule) covers(placement string) bool {
	return slices.ContainsFunc(r.Placements, func(name string) bool {
		start, pattern := strings.CutSuffix(name, everything)
		switch {
		case name == everything:
			return true
		case placement == "":
			return false
		case pattern:
			return strings.HasPrefix(placement, start)
		}
		return name == placement
	})
}
