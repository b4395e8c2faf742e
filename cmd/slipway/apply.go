package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/declare"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/hubapi"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// fileFlag adds -f.
func fileFlag(cmd *cobra.Command, files *[]string) {
	cmd.Flags().StringSliceVarP(files, "filename", "f", nil, cli.FileFlag)
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
}

// newApply declares the documents of files.
func newApply(o *options) *cobra.Command {
	var files []string
	var dry, force bool
	var empty emptyStages
	var how applying
	cmd := o.command("apply -f FILE", "Declare the placements, overrides, strategies and runs of files",
		"slipway apply -f web.yaml\nslipway apply -f fleet/ --dry-run\nslipway get placements -o yaml | slipway apply -f -",
		func(ctx context.Context, c call) error {
			switch {
			case c.Hub != nil:
				return o.applyToHub(ctx, c, files, hubapi.ApplyOptions{Force: force, DryRun: dry})
			case force:
				return cli.Usagef("--force-conflicts: leave it out, because only the objects of a hub have field managers")
			}
			return o.apply(ctx, c, files, &how)
		}, &dry)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		how = applying{dry: dry, empty: empty}
		o.target.Create, o.target.Scratch = !dry, false
		if o.target.LacksFile() { // nothing is created before everything is checked
			o.target.Scratch, how.rehearsal = true, !dry
			if err := run(cmd, args); err != nil || dry {
				return err
			}
			o.target.Scratch, how.rehearsal = false, false
		}
		return run(cmd, args)
	}
	cmd.Long = `Declare the placements, overrides, strategies and runs of files, in the documents that a hub takes as objects:
ClusterResourcePlacement, ClusterResourceOverride, ClusterStagedUpdateStrategy, ClusterStagedUpdateRun, and their twins in a
namespace. A missing file of --store is created. If a document has a problem, nothing is created or changed, and all problems are
shown with their lines. A run that exists is started or stopped if its spec.state asks for it; nothing else of a run changes. On a hub the
objects are applied on the server, and all kinds are accepted.`
	fileFlag(cmd, &files)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only show what would change; placements, strategies and plans are checked by the engine")
	empty.addFlag(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force-conflicts", false, "on a hub: take fields from other field managers, such as kubectl")
	return cmd
}

// applying says how apply declares documents.
type applying struct {
	dry   bool
	empty emptyStages
	// rehearsal means that the changes are made in a store that is thrown away, and not shown.
	rehearsal bool
	// docs are the documents, once they have been read: the standard input is read only once.
	docs *kubefleet.Documents
}

// apply carries out or shows the changes that documents ask for.
func (o *options) apply(ctx context.Context, c call, files []string, how *applying) error {
	if how.docs == nil {
		docs, err := o.Documents(files)
		if err != nil {
			return err
		}
		how.docs = &docs
	}
	changes, err := o.planned(ctx, c, *how.docs, true, declare.Plan)
	if err == nil {
		err = o.check(ctx, c, changes, how.empty)
	}
	if err != nil {
		return err
	}
	if how.rehearsal {
		quiet := *o
		quiet.Out, quiet.ErrOut = io.Discard, io.Discard
		o = &quiet
	}
	return o.carryOut(c, changes, carrying{dry: how.dry, rehearsal: how.rehearsal, do: func(i int) (string, error) { return o.declare(ctx, c, changes, &changes[i], *how) }})
}

// check lets the engine check the placements and strategies, and plan the runs, before the first
// change is written. A run whose placement changes is planned after that, because the engine plans
// the placement that it has.
func (o *options) check(ctx context.Context, c call, changes []declare.Change, empty emptyStages) error {
	var errs []error
	for i := range changes {
		change, err := &changes[i], error(nil)
		switch {
		case change.Placement != nil, change.Strategy != nil:
			_, err = o.declare(ctx, c, changes, change, applying{dry: true})
		case change.Run != nil && change.Run.Index == nil && c.CanCapture() != nil:
			err = fmt.Errorf("%s: %w", change.Object(), c.CanCapture())
		case change.Run != nil && !placementDiffers(changes, change.Run.Placement):
			var p *stages.Plan
			if p, err = c.Preview(ctx, *change.Run); err == nil {
				err = empty.checkPlan(ctx, c, change.Run, p)
			}
		}
		errs = append(errs, inDocument(change, err))
	}
	return errors.Join(errs...)
}

// placementDiffers reports whether a placement is one of the changes.
func placementDiffers(changes []declare.Change, name string) bool {
	return slices.ContainsFunc(changes, func(p declare.Change) bool { return p.Kind == "placement" && p.Name == name && p.Differs() })
}

// inDocument adds the place of the document to an error.
func inDocument(change *declare.Change, err error) error {
	if err == nil || change.Place == (kubefleet.Place{}) {
		return err
	}
	return fmt.Errorf("%s: %w", change.Place, err)
}

// planned reads the present state, and plans the changes of documents, which may be applied.
func (o *options) planned(ctx context.Context, c call, docs kubefleet.Documents, isApplied bool, plan func(kubefleet.Documents, declare.State) ([]declare.Change, error)) ([]declare.Change, error) {
	have, err := present(ctx, c, docs, isApplied)
	if err != nil {
		return nil, err
	}
	changes, err := plan(docs, have)
	if err == nil && len(changes) == 0 {
		err = errors.New("-f: there is no document")
	}
	return changes, err
}

// present returns the part of the store that documents are compared with. Documents that are
// applied may have a run that the caller has no right to read: the server then refuses its creation
// if it exists.
func present(ctx context.Context, c call, docs kubefleet.Documents, isApplied bool) (have declare.State, err error) {
	have = declare.State{
		Placements: map[string]httpapi.PlacementSummary{}, Strategies: map[string]httpapi.DeclaredStrategy{}, Runs: map[string]fleet.Status{}, InProgress: map[string]fleet.RunSummary{},
	}
	placements, err := c.Placements(ctx)
	if err != nil {
		return have, err
	}
	for _, p := range placements {
		have.Placements[p.Name] = p
	}
	for name := range strategiesOf(docs) {
		s, err := c.Strategy(ctx, name)
		switch {
		case errors.Is(err, backend.ErrNotFound):
		case isForbidden(err) && !declares(docs, name):
			// The creation of a run resolves the name, which takes no right to read the strategy.
			have.Strategies[name] = httpapi.DeclaredStrategy{Strategy: stages.Strategy{Name: name}}
		case err != nil:
			return have, err
		default:
			have.Strategies[name] = s
		}
	}
	for _, r := range docs.Runs {
		name := r.EngineName()
		s, err := c.Run(name).Status(ctx)
		switch {
		case errors.Is(err, backend.ErrNotFound), isApplied && isForbidden(err):
		case err != nil:
			return have, err
		default:
			have.Runs[name] = s
		}
	}
	return have, nil
}

// isForbidden reports whether a server refused a request because of the rights of the caller.
func isForbidden(err error) bool {
	refusal, is := errors.AsType[*httpapi.Error](err)
	return is && refusal.Code == http.StatusForbidden
}

// declares reports whether documents declare a strategy.
func declares(docs kubefleet.Documents, strategy string) bool {
	return slices.ContainsFunc(docs.Strategies, func(s stages.Strategy) bool { return s.Name == strategy })
}

// strategiesOf returns the names of the strategies that documents declare or name. The damaged
// record of another strategy does not matter.
func strategiesOf(docs kubefleet.Documents) map[string]bool {
	names := map[string]bool{}
	for _, s := range docs.Strategies {
		names[s.Name] = true
	}
	for _, r := range docs.Runs {
		names[kubefleet.EngineName(r.Namespace, r.StrategyName)] = true
	}
	return names
}

// carrying says how to carry out changes.
type carrying struct {
	dry bool
	// inOrder means that nothing changes any more after a failure.
	inOrder bool
	// rehearsal means that no change stays.
	rehearsal bool
	// do carries out the change of an index, and returns a note for people.
	do func(int) (string, error)
}

// carryOut carries out changes one after the other, and reports each. A failure ends neither the
// changes of objects that do not need the failed one nor their reports, unless how says so.
func (o *options) carryOut(c call, changes []declare.Change, how carrying) error {
	failed := map[string]bool{}
	first := ""
	var errs []error
	var done []string
	for i := range changes {
		change := &changes[i]
		note, err := change.Note, error(nil)
		if change.Differs() {
			why := first
			if at := slices.IndexFunc(change.Needs, func(object string) bool { return failed[object] }); at >= 0 {
				why = change.Needs[at]
			}
			if why != "" {
				failed[change.Object()] = true
				errs = append(errs, inDocument(change, notDone(change, why)))
				continue
			}
			var more string
			more, err = how.do(i)
			note = strings.TrimPrefix(note+", "+more, ", ")
		}
		if err != nil {
			if failed[change.Object()] = true; how.inOrder && first == "" {
				first = change.Object()
			}
			errs = append(errs, inDocument(change, err))
			continue
		}
		if change.Differs() && !how.dry {
			done = append(done, change.Object())
		}
		if err := o.report(c, change, note, how.dry); err != nil {
			return err
		}
	}
	if len(errs) > 0 && len(done) > 0 && !how.rehearsal {
		errs = append(errs, fmt.Errorf("these changes were made, and stay: %s", strings.Join(done, ", ")))
	}
	return errors.Join(errs...)
}

// report reports a change that was carried out, or would be.
func (o *options) report(c call, change *declare.Change, note string, dry bool) error {
	done := string(change.Action)
	if note = strings.Trim(note, ", "); note != "" {
		done += ", " + note
	}
	if dry && change.Differs() {
		done += " (dry run)"
	}
	if change.Kind == "run" && change.Action != declare.Deleted && change.Differs() && !dry {
		return o.recorded(c, nil, change.Object(), "%s", done)
	}
	return o.Recorded(change.Object(), "%s", done)
}

// notDone returns the error of a change that was left out because another object failed.
func notDone(change *declare.Change, failed string) error {
	verb := "applied"
	if change.Action == declare.Deleted {
		verb = "deleted"
	}
	return fmt.Errorf("%s: not %s: %s failed", change.Object(), verb, failed)
}

// declare carries out one change of apply, or only checks it. It returns a note for people.
func (o *options) declare(ctx context.Context, c call, all []declare.Change, change *declare.Change, a applying) (string, error) {
	how := httpapi.Declaring{Version: change.Version, New: change.Version == "", DryRun: a.dry}
	switch {
	case change.Placement != nil:
		return "", c.PutPlacement(ctx, *change.Placement, how)
	case change.Strategy != nil:
		return "", c.PutStrategy(ctx, *change.Strategy, how)
	case change.Command != "" && !a.dry:
		return "", c.Run(change.Name).Command(ctx, stages.Command{Verb: change.Command, At: time.Now()})
	case change.Run == nil:
		return "", nil
	case !a.dry:
		if placementDiffers(all, change.Run.Placement) { // it could not be planned before
			if err := a.empty.check(ctx, c, *change.Run); err != nil {
				return "", err
			}
		}
		s, err := c.CreateRun(ctx, *change.Run)
		return o.runNote(s.Plan, err)
	case placementDiffers(all, change.Run.Placement):
		return "not planned, because its placement changes, too", nil
	}
	return o.runNote(c.Preview(ctx, *change.Run))
}

// runNote describes a plan, and prints its warnings.
func (o *options) runNote(p *stages.Plan, err error) (string, error) {
	if err != nil || p == nil {
		return "", err
	}
	for _, w := range p.Warnings {
		o.Warn("%s", w)
	}
	return fmt.Sprintf("stages %d, clusters %d", len(p.Stages), p.Len()), nil
}

// diffFiles shows the fields that apply would change.
func (o *options) diffFiles(ctx context.Context, c call, files []string) error {
	if c.Hub != nil {
		return o.diffWithHub(ctx, c, files)
	}
	docs, err := o.Documents(files)
	if err != nil {
		return err
	}
	changes, err := o.planned(ctx, c, docs, false, declare.Plan)
	if err != nil {
		return err
	}
	return o.printChanges(changes)
}

// printChanges shows the changes of documents, a row for each field. The error is cli.ErrDiffers if
// there is one.
func (o *options) printChanges(changes []declare.Change) error {
	l := &cli.List{Kind: "object", Columns: []string{"Object", "Change", "Field", "Now", "File"}}
	for i := range changes {
		change := &changes[i]
		if !change.Differs() || change.Kind == "override" && len(change.Through) > 0 && change.Action == declare.Configured {
			continue // the field of the placement shows it
		}
		if len(change.Fields) == 0 {
			l.Add(change.Object(), changed{change.Object(), change.Action, change.Note, nil}, change.Action, "", "", "")
		}
		for _, f := range change.Fields {
			l.Add(change.Object(), changed{change.Object(), change.Action, change.Note, []declare.Field{f}}, change.Action, f.Path, f.Now, f.Then)
		}
	}
	if l.Len() == 0 {
		return nil
	}
	if err := o.Print(l); err != nil {
		return err
	}
	return cli.ErrDiffers
}

// changed is a change in the output of diff -f.
type changed struct {
	Object string          `json:"object"`
	Change declare.Action  `json:"change"`
	Note   string          `json:"note,omitempty"`
	Fields []declare.Field `json:"fields,omitempty"`
}

// deletion are the flags of delete -f.
type deletion struct {
	files      []string
	dry, force bool
	sure       cli.Confirmation
	placed     fleet.DeleteOptions
}

// deleteFiles deletes the objects in files. It shows them, and asks first on a terminal.
func (o *options) deleteFiles(ctx context.Context, c call, d deletion) error {
	if err := checkPolicy(d.placed.Policy); err != nil {
		return err
	}
	if c.Hub != nil {
		return o.deleteOnHub(ctx, c, d)
	}
	docs, err := o.Documents(d.files)
	if err != nil {
		return err
	}
	changes, err := o.planned(ctx, c, docs, false, func(docs kubefleet.Documents, have declare.State) ([]declare.Change, error) {
		if err := readInProgress(ctx, c, docs, have.InProgress); err != nil {
			return nil, err
		}
		return declare.Delete(docs, have, d.force)
	})
	if err == nil && !d.dry {
		err = o.askToDelete(ctx, c, changes, d.sure, d.placed)
	}
	if err != nil {
		return err
	}
	d.placed.Force = d.force
	return o.carryOut(c, changes, carrying{dry: d.dry, inOrder: true, do: func(i int) (string, error) {
		change := &changes[i]
		switch {
		case d.dry, change.Kind == "override":
			return "", nil
		case change.Placement != nil:
			return "", c.PutPlacement(ctx, *change.Placement, httpapi.Declaring{Version: change.Version})
		case change.Kind == "strategy":
			return "", c.DeleteStrategy(ctx, change.Name)
		case change.Kind == "run":
			return "", c.Run(change.Name).Delete(ctx, d.force)
		}
		gone, err := deletePlacement(ctx, c, change.Name, d.placed)
		if err != nil || gone {
			return "", err
		}
		change.Action = declare.Deleting
		return byAnEngine(c), nil
	}})
}

// readInProgress adds the runs in progress of the placements of documents.
func readInProgress(ctx context.Context, c call, docs kubefleet.Documents, to map[string]fleet.RunSummary) error {
	for _, p := range docs.Placements {
		r, err := c.inProgress(ctx, p.Name)
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		if r != nil {
			to[p.Name] = *r
		}
	}
	return nil
}

// deletePlacement deletes a placement, and reports whether it is gone already, because it was never
// rolled out. Otherwise an engine removes its objects from the clusters.
func deletePlacement(ctx context.Context, c call, name string, how fleet.DeleteOptions) (gone bool, err error) {
	if err := c.Placement(name).Delete(ctx, how); err != nil || c.Hub != nil {
		return false, err
	}
	d, err := c.Placement(name).Deletion(ctx)
	if errors.Is(err, backend.ErrNotFound) { // it was declared again
		return false, nil
	}
	return err == nil && !d.Ended.IsZero(), err
}

// byAnEngine names the remover of the objects of a placement from its clusters.
func byAnEngine(c call) string {
	if c.Live {
		return "an engine removes its objects from the clusters"
	}
	return "the engine that runs on this store next removes its objects from the clusters"
}

// askToDelete describes deletions and asks for the confirmation.
func (o *options) askToDelete(ctx context.Context, c call, changes []declare.Change, sure cli.Confirmation, placed fleet.DeleteOptions) error {
	if !slices.ContainsFunc(changes, func(c declare.Change) bool { return c.Differs() }) {
		return nil
	}
	for i := range changes {
		if !changes[i].Differs() {
			continue
		}
		if err := o.announce(ctx, c, &changes[i], placed); err != nil {
			return err
		}
	}
	return o.Confirm(ctx, sure, "delete", notDeleted)
}

// announce describes a deletion on standard error.
func (o *options) announce(ctx context.Context, c call, change *declare.Change, placed fleet.DeleteOptions) error {
	var l loss
	if change.Kind == "placement" && change.Action == declare.Deleted {
		var err error
		if l, err = o.lossOf(ctx, c, change.Name); err != nil {
			return err
		}
		l.policy = cmp.Or(placed.Policy, l.policy, placement.DeleteCreated)
	}
	_, err := fmt.Fprintln(o.ErrOut, willDelete(change, &l))
	return err
}

// loss is the data that a deleted placement loses.
type loss struct {
	policy placement.DeletePolicy
	// clusters is the number of clusters with objects of the placement, -1 if it is not known.
	clusters int
	runs     int
}

// lossOf returns the loss of a placement. Without the right to the records of a hub, the number
// of clusters is not known.
func (o *options) lossOf(ctx context.Context, c call, name string) (loss, error) {
	p, err := c.Placement(name).Get(ctx)
	if err != nil {
		return loss{}, err
	}
	l := loss{policy: p.DeletePolicy, runs: p.Runs}
	if c.Hub != nil {
		l.policy = cmp.Or(l.policy, placement.DeleteAll) // the default of its API
	}
	clusters, err := c.Placement(name).Placed(ctx)
	switch {
	case o.isUnreadable(err):
		l.clusters = -1
	case errors.Is(err, backend.ErrNotFound): // a hub has no record of it
	case err != nil:
		return loss{}, err
	default:
		l.clusters = len(clusters)
	}
	return l, nil
}

// willDelete returns the announcement of a deletion.
func willDelete(change *declare.Change, l *loss) string {
	switch {
	case change.Action == declare.Configured:
		return change.Object() + " will change, and its next run brings the objects without the overrides"
	case change.Kind == "placement":
		return l.of(change.Object())
	case change.Kind == "run":
		return change.Object() + " will be deleted, with its events"
	}
	return change.Object() + " will be deleted"
}

// of announces the loss of a placement.
func (l *loss) of(object string) string {
	clusters := "its clusters"
	if l.clusters >= 0 {
		clusters = numberOf(l.clusters, "cluster")
	}
	text := map[placement.DeletePolicy]string{
		placement.DeleteCreated: "Objects of %s will be DELETED from %s (policy DeleteCreated: objects that were there before it stay).",
		placement.DeleteAll:     "Objects of %s will be DELETED from %s (policy Delete: also objects that were there before it).",
		placement.Abandon:       "Objects of %s will stay on %s (policy Abandon).",
	}[l.policy]
	if text = fmt.Sprintf(text, object, clusters); l.clusters == 0 {
		text = object + " will be deleted; no cluster has objects of it."
	}
	switch l.runs {
	case 0:
		return text
	case 1:
		return text + " Its run and the events of this run go, too."
	default:
		return fmt.Sprintf("%s Its %d runs and their events go, too.", text, l.runs)
	}
}
