package approval_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/approval"
)

func TestValidate(t *testing.T) {
	for name, p := range map[string]approval.Policy{
		"zero":    {},
		"quorums": {Quorums: []approval.Quorum{{Count: 1}, {Group: "sre", Count: 2}}, ForbidStarter: true},
		"a year":  {Expires: metav1.Duration{Duration: 365 * 24 * time.Hour}},
	} {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateListsEverythingAtOnce(t *testing.T) {
	p := approval.Policy{
		Expires: metav1.Duration{Duration: -time.Hour},
		Quorums: []approval.Quorum{{Group: "sre", Count: 0}, {Group: "sre", Count: 1}, {Group: " dev", Count: 1}, {Group: "x\x00", Count: -1}},
	}
	err := p.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"approval: policy: ", "expires: Invalid value: \"-1h0m0s\": must be between 0, for ever, and 365 days",
		"quorums[0].count: Invalid value: 0: must be at least 1", "quorums[1].group: Duplicate value: \"sre\"",
		"quorums[2].group", "begins or ends with a space", "quorums[3].group", "cannot be seen", "quorums[3].count",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

func TestValidateBoundsExpiry(t *testing.T) {
	if (approval.Policy{Expires: metav1.Duration{Duration: 365*24*time.Hour + 1}}).Validate() == nil {
		t.Error("more than a year is let through")
	}
}

func TestProblemsAreUnderTheGivenPath(t *testing.T) {
	errs := approval.Policy{Expires: metav1.Duration{Duration: -1}}.Problems(field.NewPath("stages").Index(2).Child("approval"))
	if len(errs) != 1 || errs[0].Field != "stages[2].approval.expires" {
		t.Error(errs)
	}
}
