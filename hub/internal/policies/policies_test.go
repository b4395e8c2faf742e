package policies

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/hub/manifests"
)

// The installed policies and the policies that were once in force decide whether answers count. If
// a policy was removed or changed, no answer counts. Only a hub cluster that never had policies
// accepts answers of unknown authors.
func TestAnswersCountOnlyUnderThePoliciesThatWereInstalled(t *testing.T) {
	const none, partial, complete = manifests.None, manifests.Partial, manifests.Complete
	for name, tc := range map[string]struct {
		validating, mutating manifests.Extent
		known                policyRecord
		counts, identity     bool
	}{
		"everything is there":                        {complete, complete, policyRecord{}, true, true},
		"everything is there, as before":             {complete, complete, policyRecord{Validating: true, Mutating: true}, true, true},
		"nothing was ever installed":                 {none, none, policyRecord{}, true, false},
		"a server before 1.36":                       {complete, none, policyRecord{}, true, false},
		"a server before 1.36, as before":            {complete, none, policyRecord{Validating: true}, true, false},
		"all were taken away":                        {none, none, policyRecord{Validating: true, Mutating: true}, false, false},
		"all were taken away before 1.36":            {none, none, policyRecord{Validating: true}, false, false},
		"a validating one was taken away":            {partial, complete, policyRecord{Validating: true, Mutating: true}, false, false},
		"a validating one is missing at first sight": {partial, complete, policyRecord{}, false, false},
		"one of those before 1.36 is missing":        {partial, none, policyRecord{}, false, false},
		"all validating ones were taken away":        {none, complete, policyRecord{Validating: true, Mutating: true}, false, false},
		"the validating ones are missing":            {none, complete, policyRecord{}, false, false},
		"a mutating one was taken away":              {complete, partial, policyRecord{Validating: true, Mutating: true}, false, false},
		"a mutating one is missing at first sight":   {complete, partial, policyRecord{}, false, false},
		"all mutating ones were taken away":          {complete, none, policyRecord{Validating: true, Mutating: true}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			now := manifests.Standing{Validating: tc.validating, Mutating: tc.mutating, Problems: []string{"Policy p is missing"}}
			at := time.Now()
			got := tc.known.learn(now, at).judge(now, at)
			if got.Lost == "" != tc.counts || got.Identity != tc.identity {
				t.Errorf("got %+v", got)
			}
			if !tc.counts && (!strings.Contains(got.Lost, "Policy p is missing") || !strings.Contains(got.Lost, "install")) {
				t.Errorf("%q does not say what is wrong and what helps", got.Lost)
			}
		})
	}
}

// The creator of a run is known if the run is younger than the policies. Policies that were
// changed after their creation count from the time at which the hub first saw their current form.
// Under new policies the hub requests nothing until the API servers have loaded them.
func TestPoliciesCountSinceTheyAreInForce(t *testing.T) {
	created, seen := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
	run := func(at time.Time) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at)}
	}
	now := manifests.Standing{Validating: manifests.Complete, Mutating: manifests.Complete, Version: "v", Created: created}
	first := policyRecord{}.learn(now, seen)
	v := first.judge(now, seen)
	if v.Settling != 0 || v.VouchesFor(run(created)) || !v.VouchesFor(run(created.Add(time.Second))) {
		t.Errorf("policies that were never changed: %+v", v)
	}
	if later := seen.Add(time.Hour); first.learn(now, later) != first || first.judge(now, later).Settling != 0 {
		t.Error("policies that stay are new again")
	}
	for clock, want := range map[time.Duration]time.Duration{
		0: policySettle, time.Second: policySettle - time.Second, policySettle: 0, time.Hour: 0, -time.Hour: policySettle,
	} {
		at := created.Add(clock)
		if got := (policyRecord{}).learn(now, at).judge(now, at).Settling; got != want {
			t.Errorf("policies that are %v old by the clock of the hub settle for %v, want %v", clock, got, want)
		}
	}
	now.Version, now.Changed = "w", true
	second := first.learn(now, seen.Add(time.Hour))
	if v := second.judge(now, seen.Add(time.Hour)); v.Settling != policySettle || v.VouchesFor(run(seen.Add(time.Hour))) || !v.VouchesFor(run(seen.Add(time.Hour+time.Second))) {
		t.Errorf("policies that were changed: %+v", v)
	}
}
