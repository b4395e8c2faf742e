package stages

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// claimed returns a cap after claims. A claim is "run uses/wants", "-run" for a run that left, or
// "=limit".
func claimed(t *testing.T, limit int, claims ...string) Cap {
	t.Helper()
	c := Cap{Name: "database"}.Resize(limit)
	for _, text := range claims {
		var run string
		var uses, wants, n int
		if name, ok := strings.CutPrefix(text, "-"); ok {
			c = c.Leave("uid-" + name)
			continue
		}
		if _, err := fmt.Sscanf(text, "=%d", &n); err == nil {
			c = c.Resize(n)
			continue
		}
		if _, err := fmt.Sscanf(strings.Replace(text, "/", " ", 1), "%s %d %d", &run, &uses, &wants); err != nil {
			t.Fatal(text, err)
		}
		next, ok := c.Claim(Claim{UID: "uid-" + run, Run: run, Epoch: 1, Uses: uses, Wants: wants})
		if !ok {
			t.Fatal(text)
		}
		c = next
	}
	return c
}

// The test checks the slots that runs hold, and the number of clusters that each run may have in
// flight when it starts more.
func TestCapShares(t *testing.T) {
	for name, tt := range map[string]struct {
		limit  int
		claims []string
		want   string
	}{
		"no run":                                      {5, nil, ""},
		"one run has all that it wants":               {5, []string{"a 0/3"}, "a 3/3"},
		"and no more than there is":                   {5, []string{"a 0/9"}, "a 5/5"},
		"the second has what is left":                 {5, []string{"a 0/3", "b 0/4"}, "a 3/3 b 2/2"},
		"nothing is left: all give back":              {2, []string{"a 0/5", "b 0/5"}, "a 2/0 b 0/0"},
		"what was given back goes to who has nothing": {2, []string{"a 0/5", "b 0/5", "a 1/5"}, "a 1/1 b 1/1"},
		"in the order in which they came":             {1, []string{"a 0/1", "b 0/1", "c 0/1", "a 0/1"}, "a 0/0 b 1/0 c 0/0"},
		"who had its turn is last":                    {1, []string{"a 0/1", "b 0/1", "c 0/1", "a 0/1", "b 0/1"}, "a 0/0 b 0/0 c 1/0"},
		"and comes again":                             {1, []string{"a 0/1", "b 0/1", "c 0/1", "a 0/1", "b 0/1", "c 0/1"}, "a 1/0 b 0/0 c 0/0"},
		"beyond a fair share is given back":           {6, []string{"a 0/6", "b 0/6", "a 5/6"}, "a 5/3 b 1/1"},
		"until all have a fair share":                 {6, []string{"a 0/6", "b 0/6", "a 5/6", "a 4/6", "a 3/6"}, "a 3/3 b 3/3"},
		"what cannot be divided stays where it is":    {3, []string{"a 0/3", "b 0/3", "a 2/3"}, "a 2/2 b 1/1"},
		"what is not wanted is for others":            {4, []string{"a 0/1", "b 0/9"}, "a 1/1 b 3/3"},
		"who wants nothing any more":                  {4, []string{"a 0/4", "b 0/4", "a 0/0"}, "b 4/4"},
		"who is done keeps what is in flight":         {4, []string{"a 0/4", "a 3/3"}, "a 3/3"},
		"who left holds nothing":                      {4, []string{"a 0/4", "b 0/4", "-a"}, "b 4/4"},
		"who was never there leaves nothing":          {4, []string{"a 0/4", "-x"}, "a 4/4"},
		"a limit of 0 lets nothing start":             {0, []string{"a 0/4"}, "a 0/0"},
		"a limit that rises":                          {1, []string{"a 0/4", "b 0/4", "=4"}, "a 2/2 b 2/2"},
		"a limit that falls ends nothing":             {4, []string{"a 0/4", "=1", "a 4/4"}, "a 4/4"},
		"but what is done is not replaced":            {4, []string{"a 0/4", "=1", "b 0/1", "a 3/4"}, "a 3/0 b 0/0"},
		"a run that is older than its cap":            {2, []string{"a 4/4", "b 0/1"}, "a 4/0 b 0/0"},
	} {
		c := claimed(t, tt.limit, tt.claims...)
		var got []string
		for _, s := range c.Shares {
			got = append(got, fmt.Sprintf("%s %d/%d", s.Run, s.Holds, c.Slots(s.UID)))
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A client that has an older epoch changes nothing, and no method changes its receiver.
func TestCapClaimsHaveAnEpoch(t *testing.T) {
	c := claimed(t, 5, "a 0/3", "b 0/1")
	c, _ = c.Claim(Claim{UID: "uid-a", Run: "a", Epoch: 2, Uses: 3, Wants: 3})
	before := fmt.Sprint(c)
	if next, ok := c.Claim(Claim{UID: "uid-a", Run: "a", Epoch: 1}); ok || fmt.Sprint(next.Held()) != "4" {
		t.Errorf("a claim of an older epoch gives %v", next)
	}
	c.Leave("uid-a")
	c.Resize(1)
	c.Claim(Claim{UID: "uid-b", Run: "b", Epoch: 7})
	if after := fmt.Sprint(c); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if got := c.InUse(); got != "4 of 5: run a 3, run b 1" {
		t.Error(got)
	}
	if got := (Cap{Limit: 3}).InUse(); got != "0 of 3" {
		t.Error(got)
	}
	err := Cap{Name: "A b", Limit: -1, Turns: 1, Shares: []Share{{UID: "x", Run: "x", Turn: 2}, {UID: "x"}}}.Validate()
	for _, want := range []string{`name: Invalid value: "A b"`, "limit: Invalid value: -1", "shares[0]", "shares[1]"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

// capRun is a run in the test of the law below: its clusters in flight and the clusters that are
// left.
type capRun struct {
	uid         string
	flying      int
	left, width int
	waited      int
	given       bool
}

func (r *capRun) wants() int { return min(r.flying+r.left, r.width) }

// Runs that come and go, crash between saving and claiming, and have clusters that
// take any time, never have more in flight than the cap, and everyone has a turn:
// no run waits with nothing while others are given slots more often than there are
// runs.
func TestCapIsFairAndKept(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 8))
		c := Cap{Name: "x"}.Resize(1 + r.IntN(6))
		var runs []*capRun
		for i := range 1 + r.IntN(6) {
			runs = append(runs, &capRun{uid: fmt.Sprint("r", i), left: 1 + r.IntN(30), width: 1 + r.IntN(5)})
		}
		for round := 0; ; round++ {
			live := slices.DeleteFunc(slices.Clone(runs), func(r *capRun) bool { return r.left+r.flying == 0 })
			if len(live) == 0 {
				break
			}
			if round > 5000 {
				t.Fatalf("seed %d: runs never end: %+v", seed, c)
			}
			if r.IntN(4) == 0 { // a run that waits checks for runs that are over
				for _, s := range c.Shares {
					if !slices.ContainsFunc(live, func(r *capRun) bool { return r.uid == s.UID }) {
						c = c.Leave(s.UID)
					}
				}
			}
			run := live[r.IntN(len(live))]
			before, _ := c.Share(run.uid)
			for range run.flying { // some clusters end
				if r.IntN(3) == 0 {
					run.flying--
				}
			}
			slots := c.Slots(run.uid)
			if run.given {
				slots = before.Holds
			}
			start := max(0, min(slots-run.flying, run.wants()-run.flying))
			run.flying, run.left = run.flying+start, run.left-start
			run.given = false
			if total := flyingOf(runs); total > c.Limit || total > c.Held() {
				t.Fatalf("seed %d: %d are in flight, %d are held, %d may be", seed, total, c.Held(), c.Limit)
			}
			if r.IntN(5) == 0 {
				continue // it was saved, and then it crashed
			}
			next, _ := c.Claim(Claim{UID: run.uid, Run: run.uid, Epoch: 1, Uses: run.flying, Wants: run.wants()})
			if next.Held() > next.Limit {
				t.Fatalf("seed %d: %d of %d are held", seed, next.Held(), next.Limit)
			}
			wait(t, seed, runs, c, next)
			c = next
		}
		if len(c.Shares) > 0 && !over(runs, c) {
			t.Errorf("seed %d: %+v is left", seed, c.Shares)
		}
	}
}

func flyingOf(runs []*capRun) (n int) {
	for _, r := range runs {
		n += r.flying
	}
	return n
}

// wait notes who was given slots, and counts how often others were while a run
// waited with nothing.
func wait(t *testing.T, seed uint64, runs []*capRun, c, next Cap) {
	t.Helper()
	given := 0
	for _, r := range runs {
		a, _ := c.Share(r.uid)
		b, _ := next.Share(r.uid)
		if b.Holds > r.flying {
			r.given = r.given || b.Holds > a.Holds || b.Holds > r.flying
		}
		if b.Holds > a.Holds {
			given++
		}
		if a.Holds > 0 || b.Holds > 0 || b.Wants == 0 {
			r.waited = 0
		}
	}
	for _, r := range runs {
		if s, ok := next.Share(r.uid); ok && s.Holds == 0 && s.Wants > 0 {
			if r.waited += given; r.waited > len(runs) {
				t.Fatalf("seed %d: run %s waits with nothing while others were given slots %d times: %+v", seed, r.uid, r.waited, next)
			}
		}
	}
}

// over reports whether only runs that are over have shares: they crashed before they
// could give them back.
func over(runs []*capRun, c Cap) bool {
	return !slices.ContainsFunc(c.Shares, func(s Share) bool {
		return slices.ContainsFunc(runs, func(r *capRun) bool { return r.uid == s.UID && r.left+r.flying > 0 })
	})
}
