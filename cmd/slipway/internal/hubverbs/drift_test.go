package hubverbs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// driftRow is a row of the table of the document about drift.
type driftRow struct {
	when, comparison string
	// edit is the change of a person on the member, as the data of a ConfigMap.
	edit string
	// drifts are the differences that are reported, and fails reports whether they are errors of
	// the apply.
	drifts []string
	fails  bool
	// stays is the data of the member afterwards.
	stays string
}

const (
	managed   = `{"data":{"key":"theirs"}}`
	unmanaged = `{"data":{"extra":"x"}}`
	both      = `{"data":{"key":"theirs","extra":"x"}}`
)

// The document about drift works as printed: the report of differences, and the six rows of its
// table.
func TestTheDocumentAboutDriftByKubectl(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, "member-1", "member-2")
	w.start("--lease", "3s")
	w.play("testdata/drift", "script.txt")
	key, extra := `/data/key "value1" "theirs"`, `/data/extra null "x"`
	for i, row := range []driftRow{
		{"IfNotDrifted", "PartialComparison", managed, []string{key}, true, `{"key":"theirs"}`},
		{"IfNotDrifted", "PartialComparison", unmanaged, nil, false, `{"extra":"x","key":"value1"}`},
		{"IfNotDrifted", "FullComparison", both, []string{extra, key}, true, `{"extra":"x","key":"theirs"}`},
		{"Always", "PartialComparison", managed, nil, false, `{"key":"value1"}`},
		{"Always", "PartialComparison", unmanaged, nil, false, `{"extra":"x","key":"value1"}`},
		{"Always", "FullComparison", both, []string{extra}, false, `{"extra":"x","key":"value1"}`},
	} {
		w.playRow(fmt.Sprintf("row %d, %s %s", i+1, row.when, row.comparison), &row)
	}
}

// playRow restores the member with the strategy of the row, changes it, and checks the result.
func (w *hubEnv) playRow(what string, row *driftRow) {
	w.t.Helper()
	const crp = "crp-deploy-drift-sample"
	w.must("hub", "patch", "crp", crp, "--type=merge", "-p", `{"spec":{"strategy":{"applyStrategy":{"whenToApply":"`+row.when+`","comparisonOption":"`+row.comparison+`"}}}}`)
	w.must("member-2", "patch", "cm", "app", "-n", "web", "--type=merge", "-p", `{"data":{"key":"value1","extra":null}}`)
	w.eventually(what+": nothing to differ", func() error { return w.rowIs(&driftRow{stays: `{"key":"value1"}`}) })
	w.eventually(what+": the placement to be available", func() error {
		out, err := w.run("hub", ".", "get", "crp", crp, "-o", `jsonpath={.metadata.generation} {.status.conditions[?(@.type=="ClusterResourcePlacementAvailable")].observedGeneration}`)
		if now, observed, _ := strings.Cut(out, " "); err == nil && now != observed {
			err = fmt.Errorf("generations %s", out)
		}
		return err
	})
	w.must("member-2", "patch", "cm", "app", "-n", "web", "--type=merge", "-p", row.edit)
	w.eventually(what+", for two seconds", func() error { // a reverted drift may still show
		for range 10 {
			if err := w.rowIs(row); err != nil {
				return err
			}
			time.Sleep(200 * time.Millisecond)
		}
		return nil
	})
	w.t.Logf("%s: drifts %q, fails %t, the member has %s", what, row.drifts, row.fails, row.stays)
}

// must runs kubectl, which has to succeed.
func (w *hubEnv) must(cluster string, args ...string) {
	w.t.Helper()
	if _, err := w.run(cluster, ".", args...); err != nil {
		w.t.Fatal(err)
	}
}

// rowIs is an error unless the status of the placement and the member are as the row says.
func (w *hubEnv) rowIs(row *driftRow) error {
	out, err := w.run("hub", ".", "get", "crp", "crp-deploy-drift-sample", "-o", "jsonpath={.status.placementStatuses}")
	if err != nil {
		return err
	}
	var clusters []struct {
		ClusterName       string
		DriftedPlacements []struct {
			Name           string
			ObservedDrifts []struct {
				Path                      string
				ValueInHub, ValueInMember *string
			}
		}
		FailedPlacements []struct {
			Name      string
			Condition struct{ Reason string }
		}
	}
	if err := json.Unmarshal([]byte(out), &clusters); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var drifts, fails []string
	for _, c := range clusters {
		for _, d := range c.DriftedPlacements {
			for _, o := range d.ObservedDrifts {
				inHub, _ := json.Marshal(o.ValueInHub)
				inMember, _ := json.Marshal(o.ValueInMember)
				drifts = append(drifts, fmt.Sprintf("%s %s %s", o.Path, inHub, inMember))
			}
		}
		for _, f := range c.FailedPlacements {
			fails = append(fails, c.ClusterName+" "+f.Name+" "+f.Condition.Reason)
		}
	}
	slices.Sort(drifts)
	var want []string
	if row.fails {
		want = []string{"member-2 app FoundDrifts"}
	}
	if !slices.Equal(drifts, row.drifts) || !slices.Equal(fails, want) {
		return fmt.Errorf("drifts %q, failed %q; want %q, %q", drifts, fails, row.drifts, want)
	}
	data, err := w.run("member-2", ".", "get", "cm", "app", "-n", "web", "-o", "jsonpath={.data}")
	if err == nil && data != row.stays {
		err = fmt.Errorf("the member has %s, want %s", data, row.stays)
	}
	return err
}
