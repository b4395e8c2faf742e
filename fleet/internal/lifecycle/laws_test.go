package lifecycle

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/stages"
)

// FuzzLaws plays random lives of a placement, with failing runs, dying engines and concurrent
// writes, and checks that Advance keeps the laws.
func FuzzLaws(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(lawBytes(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, v := range live(data[:min(len(data), 800)], Advance) { // a longer life tests nothing new
			t.Errorf("law %s: %s", v.law, v.text)
		}
	})
}

func TestLaws(t *testing.T) {
	n := uint64(1000)
	switch {
	case os.Getenv("SLIPWAY_SOAK") != "":
		n *= 20
	case testing.Short():
		n /= 20
	case underRace:
		n /= 25
	}
	for seed := range n {
		for _, v := range live(lawBytes(seed), Advance) {
			t.Errorf("law %s: %s", v.law, v.text)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// lawBytes returns the dice of a seed.
func lawBytes(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 29410))
	b := make([]byte, 200+r.IntN(600))
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b
}

// violation is a broken law: its number in the package documentation, and a text.
type violation struct{ law, text string }

// checker checks that the events in an env keep the laws. It has its own model of the runs.
type checker struct {
	w     *env
	epoch int64 // the newest epoch of a run that has changed clusters
	found []violation
}

func (c *checker) broken(law, format string, args ...any) {
	c.found = append(c.found, violation{law, fmt.Sprintf(format, args...)})
}

// pure returns an advancer that checks law 1 on another advancer.
func (c *checker) pure(advance advancer) advancer {
	calls := 0
	return func(s State, in Input, f Facts) (Outcome, error) {
		if calls++; calls%3 != 0 && c.w.revision > 20 { // it costs more than all the rest
			return advance(s, in, f)
		}
		before, bindings := encode(s), maps.Clone(f.Bindings)
		var again State
		if err := json.Unmarshal(before, &again); err != nil {
			c.broken("1", "%T: the state cannot be read again: %v", in, err)
		}
		out, err := advance(s, in, f)
		if !bytes.Equal(before, encode(s)) || !maps.Equal(bindings, f.Bindings) {
			c.broken("1", "%T changes its arguments", in)
		}
		first := encode(out.State)
		second, serr := advance(again, in, f)
		if (err == nil) != (serr == nil) || !reflect.DeepEqual(out.Events, second.Events) || !reflect.DeepEqual(out.Turn, second.Turn) ||
			!reflect.DeepEqual(out.Before, second.Before) || out.Changed != second.Changed || !bytes.Equal(first, encode(second.State)) {
			c.broken("1", "%T: the same arguments give another outcome: %s and %s", in, first, encode(second.State))
		}
		return out, err
	}
}

func encode(s State) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

// saved checks a saved outcome.
func (c *checker) saved(before State, in Input, f Facts, out Outcome) {
	s := out.State
	if err := s.Validate(); err != nil {
		c.broken("1", "%T: %v", in, err)
		c.broken("3", "%T: %v", in, err)
	}
	for _, g := range c.named(&s) {
		if _, ok := c.w.pages[g]; !ok && g.Pages > 0 {
			c.broken("10", "%T: bindings %d are named and not stored", in, g.Generation)
		}
	}
	_, emptied := in.(Emptied)
	if emptied {
		if !s.IsEmpty() || !reflect.DeepEqual(s.Queue, Queue{}) || len(s.InUse)+len(s.Irreversible) > 0 {
			c.broken("8", "the placement is emptied and refers to something: %s", encode(s))
		}
	} else {
		c.checkSnapshots(&before, &s, in)
		c.checkBindings(&before, &s, in, f)
	}
	c.checkRuns(&before, &s, in)
	c.checkOrder(&before, &s, in)
	c.checkDeletion(&before, &s, in)
	c.checkRollback(&before, &s, in)
	c.checkRepeated(in, f)
	for _, r := range c.w.runs {
		if had := before.Base != nil && before.Base.UID == r.UID; r.acting && had && (s.Base == nil || s.Base.UID != r.UID) {
			r.before = c.w.bindings(s.Bindings)
		}
	}
}

func (c *checker) named(s *State) []Generation {
	out := []Generation{s.Bindings}
	if s.Base != nil {
		out = append(out, s.Base.Bindings)
	}
	return out
}

// record returns the record of a run, even if the run was deleted.
func (c *checker) record(uid string) *record {
	for _, r := range c.w.runs {
		if r.UID == uid {
			return r
		}
	}
	for _, r := range c.w.deleted {
		if r.UID == uid {
			return r
		}
	}
	return nil
}

// starts checks a run that begins to change clusters.
func (c *checker) starts(r *record) {
	for _, other := range c.w.runs {
		if other.acting && other != r {
			c.broken("2", "run %s starts while run %s has the placement", r.Run, other.Run)
		}
	}
	if r.epoch <= c.epoch {
		c.broken("2", "run %s starts at epoch %d, and one has acted at %d", r.Run, r.epoch, c.epoch)
	}
	c.epoch, r.acted = r.epoch, r.epoch
	s := c.w.state()
	if known, ok := s.Run(r.UID); !ok || known.Ended != "" {
		c.broken("3", "run %s starts, and is %q", r.Run, known.Ended)
	}
	for _, other := range c.w.runs {
		if _, known := s.Run(other.UID); known && other.started && other.ended() && other.attempt > other.taken && other != r {
			c.broken("7", "run %s starts, and what run %s brought is not known", r.Run, other.Run)
		}
	}
	if s.superseder(r.UID) != "" {
		c.broken("6", "run %s starts, and was superseded", r.Run)
	}
	if s.Base == nil || s.Base.UID != r.UID {
		r.before = nil
	}
}

// checkRuns checks law 3: ended runs stay ended unless they are retried.
func (c *checker) checkRuns(before, s *State, in Input) {
	for _, r := range before.Runs {
		now, known := s.Run(r.UID)
		if _, retried := in.(RetryAsked); known && r.Ended != "" && now.Ended == "" && !retried {
			c.broken("3", "%T: run %s has ended and is under way again", in, r.Name)
		}
		if !known && !s.isRetired(r.UID) {
			c.broken("3", "%T: run %s is gone and not retired", in, r.Name)
		}
	}
	if a := s.Queue.Active; a != nil {
		if r, known := s.Run(a.UID); !known && !s.pending(a.UID) || r.Ended != "" {
			c.broken("3", "%T: run %s has the placement, and is %q", in, a.Run, r.Ended)
		}
	}
	for _, r := range c.w.runs {
		if _, known := s.Run(r.UID); known && r.acting && (s.Queue.Active == nil || s.Queue.Active.UID != r.UID) {
			c.broken("2", "%T: run %s loses the placement while it changes clusters", in, r.Run)
		}
	}
	if s.Epoch < before.Epoch {
		c.broken("2", "%T: the epoch falls", in)
	}
}

func (s *State) pending(uid string) bool { return s.Rollback != nil && s.Rollback.UID == uid }

// checkSnapshots checks law 4.
func (c *checker) checkSnapshots(before, s *State, in Input) {
	needed := map[int]string{}
	for _, g := range c.named(s) {
		for name, h := range c.w.pages[g] {
			needed[h.ProvenIndex], needed[h.Attempted] = "cluster "+name, "cluster "+name
		}
	}
	for _, e := range s.unended() {
		needed[e.Index] = "run " + e.Run
		if r := c.w.runs[e.Run]; r != nil && r.UID == e.UID {
			for _, cl := range r.clusters {
				needed[cl.Index] = "run " + e.Run
			}
		}
	}
	if n := len(before.Snapshots); n > 0 {
		if latest := before.Snapshots[n-1].Index; needed[latest] == "" {
			needed[latest] = "the latest"
		}
	}
	for _, kept := range before.Snapshots {
		why, is := needed[kept.Index]
		if _, taken := in.(SnapshotTaken); taken && why == "the latest" {
			continue
		}
		if is && !s.hasSnapshot(kept.Index) {
			c.broken("4", "%T: snapshot %d is dropped, which is needed by %s", in, kept.Index, why)
		}
	}
}

// checkBindings checks law 7: it derives the expected bindings from the runs.
func (c *checker) checkBindings(before, s *State, in Input, f Facts) {
	want, got := c.w.bindings(before.Bindings), c.w.bindings(s.Bindings)
	attempt := func(cluster string, index int) {
		h := want.Of(cluster)
		h.Attempted, h.Unproven = index, true
		want[cluster] = h
	}
	for _, old := range before.Runs {
		r := c.record(old.UID)
		if _, known := s.Run(old.UID); known || old.Ended != "" || r == nil {
			continue
		}
		for _, cl := range r.clusters { // for a deleted run, perhaps only the plan is known
			h := got.Of(cl.Cluster)
			if cl.Index != None && (cl.Got != Untouched || h.Attempted == cl.Index && h.Unproven) {
				attempt(cl.Cluster, cl.Index)
			}
		}
	}
	for _, now := range s.Runs {
		old, known := before.Run(now.UID)
		r := c.record(now.UID)
		if !known || old.Ended != "" || now.Ended == "" || r == nil || r.attempt <= r.taken {
			continue
		}
		r.taken = r.attempt
		c.expect(before, want, got, r, f)
	}
	for _, now := range s.Runs { // the clusters of admitted and retried runs have bindings from now on
		old, known := before.Run(now.UID)
		r := c.record(now.UID)
		retried := now.Restart != old.Restart || old.Ended != "" && now.Ended == ""
		if r == nil || known && (!retried || r.noPages) {
			continue
		}
		for _, cl := range c.planned(now.UID) {
			want[cl] = want.Of(cl)
		}
	}
	if !maps.Equal(want, got) {
		c.broken("7", "%T: the bindings are%s, want%s", in, bindingsText(got), bindingsText(want))
	}
	for _, e := range s.unended() {
		if known, _ := s.Run(e.UID); known.Restart > 0 && c.w.runs[e.Run] != nil && c.w.runs[e.Run].noPages {
			continue // the plan of a retried run is unreadable, so the run changes nothing
		}
		for _, cl := range c.planned(e.UID) {
			if _, known := got[cl]; !known && !c.w.lost {
				c.broken("7", "%T: run %s is to update cluster %s, which is not among the bindings", in, e.Run, cl)
			}
		}
	}
	if !slices.Equal(s.InUse, got.InUse()) {
		c.broken("7", "%T: the indexes in use are %v, want %v", in, s.InUse, got.InUse())
	}
}

// planned returns the clusters that a run updates.
func (c *checker) planned(uid string) (out []string) {
	if r := c.record(uid); r != nil {
		for _, cl := range r.clusters {
			if cl.Index != None {
				out = append(out, cl.Cluster)
			}
		}
	}
	return out
}

// isPlanned reports whether an unfinished run other than but may update a cluster.
func (c *checker) isPlanned(before *State, cluster string, but *record) bool {
	s := c.w.state()
	for _, e := range s.unended() {
		if old, known := before.Run(e.UID); known && old.Ended != "" {
			continue // this input retries it
		}
		r, plan := c.w.runs[e.Run], c.w.plans[e.UID]
		updates := func(cl Reached) bool { return cl.Cluster == cluster && cl.Index != None }
		switch {
		case e.UID == but.UID:
		case r == nil && plan != nil && !slices.ContainsFunc(plan, updates): // the plan is known without the record
		case r == nil, r.noPages, slices.Contains(c.planned(e.UID), cluster):
			return true
		}
	}
	return false
}

// expect changes bindings as the end of a run should.
func (c *checker) expect(before *State, want, got Bindings, r *record, f Facts) {
	planned := map[string]bool{}
	for _, cl := range r.clusters {
		planned[cl.Cluster] = true
		h := want.Of(cl.Cluster)
		switch _, known := want[cl.Cluster]; {
		case cl.Got == Gone && (known || cl.Index != None):
			want[cl.Cluster] = Binding{ProvenIndex: None, Attempted: None}
		case cl.Got == Gone, cl.Got == Untouched:
		case cl.Index == None && cl.Got == Proven && known && c.isPlanned(before, cl.Cluster, r):
			want[cl.Cluster] = Binding{ProvenIndex: None, Attempted: None}
		case cl.Index == None && cl.Got == Proven:
			delete(want, cl.Cluster)
		case cl.Index == None:
		case cl.Got == Proven:
			want[cl.Cluster] = Binding{cl.Index, cl.Index, cl.Revision, 0, false}
		default:
			h.Attempted, h.Unproven = cl.Index, true
			want[cl.Cluster] = h
		}
	}
	for name := range want {
		if !planned[name] && f.Inventory != nil && !f.Inventory[name] && !r.catchUp && got.Of(name).HasNothing() {
			want[name] = Binding{ProvenIndex: None, Attempted: None}
		}
	}
}

// checkOrder checks law 6.
func (c *checker) checkOrder(before, s *State, in Input) {
	old, now := queued(before), queued(s)
	last, fresh := -1, false
	for _, uid := range now {
		at := slices.Index(old, uid)
		switch {
		case at < 0:
			fresh = true
		case at < last || fresh:
			c.broken("6", "%T: the queue was %v and is %v", in, old, now)
		default:
			last = at
		}
	}
	for _, e := range s.Queue.Superseded {
		if e.Evicts {
			c.broken("6", "%T: run %s evicts and was superseded by run %s", in, e.Run, e.By)
		}
	}
	for _, e := range before.Queue.Superseded {
		at := slices.Contains(now, e.UID)
		if active := before.Queue.Active; at && s.superseder(e.UID) == "" && (active == nil || active.UID != e.UID) {
			c.broken("6", "%T: run %s was superseded and waits again", in, e.Run)
		}
	}
}

// queued returns the UIDs of the runs in the queue, in order.
func queued(s *State) (out []string) {
	if s.Queue.Active != nil {
		out = append(out, s.Queue.Active.UID)
	}
	for _, e := range s.Queue.Waiting {
		out = append(out, e.UID)
	}
	return out
}

// checkDeletion checks law 8.
func (c *checker) checkDeletion(before, s *State, in Input) {
	if before.Deleting == nil {
		return
	}
	for _, r := range s.Runs {
		if _, known := before.Run(r.UID); !known && r.Name != before.Deleting.Run {
			c.broken("8", "%T: run %s is admitted while the placement is being deleted", in, r.Name)
		}
	}
	switch {
	case s.Deleting == nil || !reflect.DeepEqual(*s.Deleting, *before.Deleting):
		c.broken("8", "%T: the deletion has changed", in)
	case s.NextIndex != before.NextIndex, before.Rollback == nil && s.Rollback != nil, before.Selection == nil && s.Selection != nil:
		c.broken("8", "%T: the placement takes something new while it is being deleted", in)
	}
}

// checkRollback checks law 9.
func (c *checker) checkRollback(before, s *State, in Input) {
	b := s.Rollback
	if b == nil {
		return
	}
	for _, r := range s.Runs {
		if r.RollbackOf == b.Of && r.Ended == "" {
			c.broken("9", "%T: run %s is taken back by %s and by %s", in, b.OfRun, r.Name, b.Run)
		}
	}
	if old := before.Rollback; old != nil {
		if old.UID != b.UID {
			c.broken("9", "%T: a rollback of run %s replaces that of run %s", in, b.OfRun, old.OfRun)
		}
		return
	}
	r := c.record(b.Of)
	if s.Base == nil || s.Base.UID != b.Of || r == nil {
		c.broken("9", "%T: run %s is to be taken back, and what the clusters had before is not known", in, b.OfRun)
		return
	}
	base := c.w.bindings(s.Base.Bindings)
	for _, cl := range r.clusters {
		if had, want := base.Of(cl.Cluster), r.before.Of(cl.Cluster); had.ProvenIndex != want.ProvenIndex || had.Revision != want.Revision {
			c.broken("9", "%T: before run %s cluster %s had %d, and goes to %d", in, r.Run, cl.Cluster, want.ProvenIndex, had.ProvenIndex)
		}
	}
}

// checkRepeated checks law 5.
func (c *checker) checkRepeated(in Input, f Facts) {
	again := f
	again.ID, again.Bindings, again.Runs = f.ID+"-again", nil, maps.Clone(f.Runs)
	out, err := c.w.settle(c.w.state(), &in, &again)
	if err == nil && out.Changed {
		c.broken("5", "%T: repeated it changes %s to %s", in, c.w.stored, encode(out.State))
	}
}

// live plays a life of a placement and returns the laws that it broke.
func live(data []byte, advance advancer) []violation {
	w := newEnv()
	c := &checker{w: w}
	w.advance = c.pure(advance)
	l := &life{env: w, checker: c, dice: &dice{data: data}}
	w.watch = c.saved
	w.fault = l.fault
	for !l.dice.out() && len(c.found) == 0 {
		l.act()
	}
	l.calm = true
	l.drain()
	return c.found
}

// dice takes its rolls from bytes, so that the fuzzer can search. When the bytes run out, every
// roll is 0.
type dice struct {
	data []byte
	next int
}

func (d *dice) out() bool { return d.next >= len(d.data) }

func (d *dice) n(k int) int {
	if d.out() {
		return 0
	}
	d.next++
	return int(d.data[d.next-1]) % k
}

// one returns true with a probability of one in k.
func (d *dice) one(k int) bool { return !d.out() && d.n(k) == k-1 }

// errDied is the error of a driver that died.
var errDied = errors.New("the engine died")

// isOf reports whether an error matches one of kinds.
func isOf(err error, kinds ...error) bool {
	return slices.ContainsFunc(kinds, func(k error) bool { return errors.Is(err, k) })
}

// isFinal reports whether a run cannot be admitted.
func isFinal(err error) bool {
	rejected, deleting := (*stages.RejectedError)(nil), (*DeletingError)(nil)
	return errors.As(err, &rejected) || errors.As(err, &deleting) || isOf(err, ErrDeleted, ErrIncomplete)
}

func clusterName(i int) string { return "m" + string(rune('0'+i)) }

func isRollback(name string) bool { return strings.Contains(name, "back") }
