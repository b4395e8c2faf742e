package planner

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// CatchUp returns the target of a run that follows the run of p. It takes the skipped or failed
// clusters in missed to the snapshot and the revisions that p froze for them. It takes the clusters
// that joined since, the keys of joined, to the digests in joined.
//
// A cluster that was in a stage of a share or of the rest in p is in that stage again. Clusters
// that joined are in no share of less than 100%, because such shares were taken when p was made.
//
// A cluster that p should have removed is removed. A cluster that p removes and that has been
// picked again belongs in joined. The follow-up plan is Plan(p.Strategy, target, clusters), with
// exactly the clusters that target.Revision names; they may have other places in it if their labels
// have changed. Set target.Selection if a newer selection picked the clusters that joined.
//
// The error names every cluster in missed that p does not have, and every cluster in joined that p
// updates.
func CatchUp(p *stages.Plan, missed []string, joined map[string]string) (stages.Target, error) {
	t := stages.Target{
		Placement: p.Placement, Index: p.Index, Snapshot: p.Snapshot, Selection: p.Selection,
		Revision: make(map[string]string, len(missed)+len(joined)), Remove: map[string]string{}, Part: true,
	}
	if p.Rollback != nil {
		return stages.Target{}, fmt.Errorf("plan %s rolls back run %s, and no run catches up with a rollback: if clusters are left, roll that run back once more", p.Digest, p.Rollback.Run)
	}
	var unknown, known []string
	for _, name := range missed {
		if pos, ok := p.Position(name); !ok {
			unknown = append(unknown, name)
		} else if c := &p.Clusters[pos]; c.Revision < 0 {
			t.Remove[name] = c.UID
		} else {
			t.Revision[name] = p.Revisions[c.Revision]
			stage, _ := p.StageOf(pos)
			keepStage(&t, name, &p.Strategy, p.Stages[stage].Name)
		}
	}
	for _, name := range sortedKeys(joined) {
		if pos, ok := p.Position(name); ok && p.Clusters[pos].Revision >= 0 {
			known = append(known, name)
			continue
		}
		delete(t.Remove, name)
		t.Revision[name] = joined[name]
	}
	return t, values.ProblemsOf(fmt.Sprintf("run after plan %s", p.Digest), missedProblems(unknown, known))
}

// keepStage records the stage of a cluster if the stage takes a share or the rest.
func keepStage(t *stages.Target, cluster string, s *stages.Strategy, stage string) {
	if !slices.ContainsFunc(s.Stages, func(st stages.Stage) bool { return st.Name == stage && isShare(&st) }) {
		return
	}
	if t.Stages == nil {
		t.Stages = map[string]string{}
	}
	t.Stages[cluster] = stage
}

func missedProblems(unknown, known []string) field.ErrorList {
	var errs field.ErrorList
	if len(unknown) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("missed"), unknown, "is not in the plan"))
	}
	if len(known) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("joined"), known, "is in the plan already"))
	}
	return errs
}
