package access_test

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/fleet/httpapi/access"
)

const policy = `
rules:
- {role: admin, groups: [platform], placements: ["*"]}
- {role: operator, users: [ann, bot], placements: [shop, web-*]}
- {role: approver, groups: [release], placements: [shop]}
- {role: viewer, users: ["*"], placements: [shop]}
`

func read(t *testing.T, text string) *access.Policy {
	t.Helper()
	p, err := access.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The rules of a policy, identity by identity: one verb of each role, and the placements.
func TestAuthorize(t *testing.T) {
	p := read(t, policy)
	root, ann := approval.Identity{Name: "root", Groups: []string{"other", "platform"}}, approval.Identity{Name: "ann"}
	carol, dan := approval.Identity{Name: "carol", Groups: []string{"release"}}, approval.Identity{Name: "dan", Groups: []string{"ann", ""}}
	for _, c := range []struct {
		by        approval.Identity
		verb      httpapi.Verb
		placement string
		want      bool
	}{
		{root, httpapi.Delete, "anything", true},
		{root, httpapi.Declare, "", true},
		{ann, httpapi.Get, "shop", true},
		{ann, httpapi.Operate, "shop", true},
		{ann, httpapi.Rollback, "web-1", true},
		{ann, httpapi.Create, "web-", true},
		{ann, httpapi.Create, "web", false},
		{ann, httpapi.Create, "Shop", false},
		{ann, httpapi.Operate, "shop-2", false},
		{ann, httpapi.Approve, "shop", false},
		{ann, httpapi.Delete, "shop", false},
		{ann, httpapi.Declare, "shop", false},
		{ann, httpapi.Get, "", false},
		{ann, "unknown", "shop", false},
		{root, "unknown", "shop", true},
		{carol, httpapi.Approve, "shop", true},
		{carol, httpapi.Operate, "shop", false},
		{carol, httpapi.Approve, "web-1", false},
		{dan, httpapi.Preview, "shop", true},
		{dan, httpapi.Operate, "shop", false}, // a group is no user
		{dan, httpapi.Get, "web-1", false},
		{approval.Identity{}, httpapi.Get, "shop", false},
		{approval.Identity{Groups: []string{"platform"}}, httpapi.Get, "shop", false},
	} {
		if err := p.Authorize(t.Context(), c.by, c.verb, c.placement); (err == nil) != c.want {
			t.Errorf("%s %v %s %q: %v, want permitted %t", c.by.Name, c.by.Groups, c.verb, c.placement, err, c.want)
		}
	}
}

// Read reports every problem of a file with its place, and refuses unknown fields.
func TestReadReportsEveryProblem(t *testing.T) {
	_, err := access.Read([]byte(`
rules:
- {role: owner, users: [ann], placements: ["*"]}
- {role: viewer, placements: [shop]}
- {role: viewer, users: [""], groups: ["*"]}
- {role: viewer, users: [a], placements: ["a*b", "*x", "", "**"]}
`))
	if err == nil {
		t.Fatal("it is read")
	}
	for _, want := range []string{
		`rules[0].role: Unsupported value: "owner": supported values: "viewer", "approver", "operator", "admin"`,
		"rules[1]: Required value: users or groups", "rules[2].users[0]: Required value", `rules[2].groups[0]: Invalid value: "*"`,
		"rules[2].placements: Required value", `rules[3].placements[0]: Invalid value: "a*b"`, `rules[3].placements[1]: Invalid value: "*x"`,
		"rules[3].placements[2]: Required value", `rules[3].placements[3]: Invalid value: "**"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %s:\n%v", want, err)
		}
	}
	for text, want := range map[string]string{
		"":                            "rules: Required value",
		"rules: []":                   "rules: Required value",
		"roles: []":                   `unknown field "roles"`,
		"rules: [{role: a, user: b}]": `unknown field "rules[0].user"`,
		"rules: [":                    "yaml",
		policy + "---\nrules: []":     "one document",
		"---\n---\n" + policy:         "one document",
		"rules: [{role: viewer, users: [a], placements: [b], placements: [c]}]": "already set",
	} {
		if _, err := access.Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The policy of the documentation is one.
func TestThePolicyOfTheDocumentation(t *testing.T) {
	p := read(t, "rules:\n- role: admin\n  groups: [platform]\n  placements: [\"*\"]\n- role: operator\n  users: [ann, bot]\n  placements: [shop, web-*]\n- role: viewer\n  users: [\"*\"]\n  placements: [shop]\n")
	if err := p.Authorize(t.Context(), approval.Identity{Name: "bot"}, httpapi.Create, "web-2"); err != nil {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(policy)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := access.Read([]byte(text))
		if err != nil {
			return
		}
		if p.Authorize(t.Context(), approval.Identity{}, httpapi.Get, "shop") == nil {
			t.Error("an identity without a name is permitted something")
		}
	})
}
