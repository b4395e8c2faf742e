package planner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// odd returns a plan with rows that JSON leaves unchanged, escapes, or both.
func odd(t *testing.T) *stages.Plan {
	target := testTarget()
	target.Revision, target.Remove = map[string]string{}, map[string]string{}
	var clusters []placement.Cluster
	for i, uid := range []string{"", "plain", `"`, `\`, `\\"`, "<&>", "'~", "u0022", strings.Repeat(`<"`, 100)} {
		c := placement.Cluster{Name: fmt.Sprintf("c%d", i), UID: uid}
		target.Revision[c.Name] = "revision-" + uid
		target.Remove["gone-"+c.Name] = uid
		clusters = append(clusters, c)
	}
	return mustPlan(t, stages.Strategy{Stages: []stages.Stage{everything("all")}}, target, clusters)
}

// Pages equal the output of encoding/json, and decode to the same rows.
func TestPlanPagesEqualEncodingJSON(t *testing.T) {
	s, target, clusters := large(3217)
	for name, p := range map[string]*stages.Plan{
		"large": mustPlan(t, s, target, clusters), "rich": samples(t)["plan-rich"], "odd": odd(t),
	} {
		header, pages := p.Encode()
		for i, page := range pages {
			var read pageRecord
			if err := json.Unmarshal(page, &read); err != nil {
				t.Fatalf("%s: page %d: %v", name, i, err)
			}
			again, err := json.Marshal(read)
			if err != nil || read.Format != 1 || !bytes.Equal(again, page) {
				t.Errorf("%s: page %d is %s\nJSON of it is %s, %v", name, i, page, again, err)
			}
		}
		read, err := stages.DecodePlan(header, pages)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(p, read, cmp.AllowUnexported(stages.Plan{}, stages.CellMembers{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A page is refused if its spelling differs in any way from the encoder's.
func TestDecodePlanRefusesOtherSpellings(t *testing.T) {
	s, target, clusters := large(1200)
	header, pages := mustPlan(t, s, target, clusters).Encode()
	for _, change := range [][2]string{
		{`"edge-000`, `"\u0065dge-000`},
		{`","edge-000`, `""edge-000`},
		{`","edge-000`, `", "edge-000`},
		{`","edge-000`, `",,"edge-000`},
		{`"]}`, `"] }`},
		{`"]}`, `",]}`},
		{`"]}`, `"]}}`},
		{`"]}`, `"`},
		{`"]}`, ``},
		{`"]}`, `"],"revisions":["x"]}`},
		{` 0 0`, ` +0 0`},
		{` 0 0`, ` 00 0`},
		{`{"format":1,"page":1`, `{"page":1,"format":1`},
		{`"page":1`, `"page":01`},
		{`"clusters":`, `"Clusters":`},
	} {
		for i := range pages {
			if !bytes.Contains(pages[i], []byte(change[0])) {
				continue
			}
			damaged := [][]byte{pages[0], pages[1]}
			damaged[i] = bytes.Replace(pages[i], []byte(change[0]), []byte(change[1]), 1)
			if _, err := stages.DecodePlan(header, damaged); err == nil {
				t.Errorf("page %d with %s for %s was read", i, change[1], change[0])
			}
		}
	}
	moved := bytes.Index(pages[1], []byte(`["`)) + 1
	row := pages[1][moved : moved+bytes.IndexByte(pages[1][moved:], ',')]
	longer := [][]byte{
		bytes.Replace(pages[0], []byte(`]}`), append(append([]byte{','}, row...), `]}`...), 1),
		bytes.Replace(pages[1], append(slices.Clip(row), ','), nil, 1),
	}
	if _, err := stages.DecodePlan(header, longer); err == nil {
		t.Error("a plan with a row on another page was read")
	}
}
