package oam_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/formats/oam"
)

// A list as long as a document may be is read in a time that grows with it, no
// faster: 200,000 names against each other would be minutes.
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
