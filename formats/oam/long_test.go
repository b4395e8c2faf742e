package oam_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/formats/oam"
)

// The time to read a list is proportional to its length, even for the longest list that a document
// may have. Comparing each of 200,000 names with all others would take minutes.
func TestALongListOfNamesIsRead(t *testing.T) {
	const names = 200_000
	var b strings.Builder
	b.WriteString("apiVersion: core.oam.dev/v1alpha1\nkind: Policy\nmetadata: {name: p, namespace: demo}\ntype: topology\nproperties:\n  clusters:\n")
	for i := range names {
		fmt.Fprintf(&b, "  - c%d\n", i)
	}
	b.WriteString("  - c7\n")
	_, err := oam.Read(strings.NewReader(b.String()), "long.yaml")
	if err == nil || !strings.Contains(err.Error(), `"c7" is there already`) || strings.Count(err.Error(), "\n") > 0 {
		t.Errorf("the error is %.200v", err)
	}
}
