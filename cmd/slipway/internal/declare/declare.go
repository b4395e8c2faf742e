// Package declare compares documents with the declarations of a store, and lists the changes that
// make them equal. It decides for the verbs apply, diff and delete, and for their dry runs; it does
// no I/O, and the verbs carry the changes out.
package declare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/formats/problem"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// State is the part of a store that documents are compared with.
type State struct {
	Placements map[string]httpapi.PlacementSummary
	Strategies map[string]httpapi.DeclaredStrategy
	// Runs are the existing runs among the runs of the documents.
	Runs map[string]fleet.Status
	// InProgress are the runs that are running or stopping, by their placement. Only [Delete] reads
	// it.
	InProgress map[string]fleet.RunSummary
}

// Action is the effect of a change.
type Action string

// The actions.
const (
	Created    Action = "created"
	Configured Action = "configured"
	Unchanged  Action = "unchanged"
	Started    Action = "started"
	Stopped    Action = "stopped"
	Deleted    Action = "deleted"
	// Deleting is the action of a deletion that an engine carries out.
	Deleting Action = "deleting"
	// Missing is the action of a deletion of something that does not exist.
	Missing Action = "not found"
)

// Change is the change of one object of a store. At most one of Placement, Strategy, Run and
// Command is set.
type Change struct {
	// Kind is placement, override, strategy or run, and Name the name of the object.
	Kind, Name string
	// Place is the place of its document; zero if there is none.
	Place  kubefleet.Place
	Action Action
	// Note is an explanation for people; it may be empty.
	Note string
	// Fields are the fields of its document that change.
	Fields []Field
	// Placement, Strategy and Run are the new declaration. Version is the version that it replaces,
	// empty for none.
	Placement *fleet.Placement
	Strategy  *stages.Strategy
	Run       *fleet.RunSpec
	Version   string
	// Command is the command to an existing run.
	Command stages.Verb
	// Through are the placements that an override is stored in.
	Through []string
	// Needs are the objects, KIND/NAME, whose changes must succeed before this one.
	Needs []string
}

// Object returns KIND/NAME.
func (c *Change) Object() string { return c.Kind + "/" + c.Name }

// Differs reports whether the change is one.
func (c *Change) Differs() bool { return c.Action != Unchanged && c.Action != Missing }

// Field is a field of a document with two values, as JSON; a missing value is empty.
type Field struct {
	Path string `json:"path"`
	Now  string `json:"now,omitempty"`
	Then string `json:"then,omitempty"`
}

// planner collects the changes and the problems of documents.
type planner struct {
	docs     kubefleet.Documents
	have     State
	changes  []Change
	problems problem.List
}

// Plan returns the changes that the documents ask for: placements and overrides first, then
// strategies, then runs. The error is a [problem.List] with all documents that a store does
// not take; then there are no changes.
func Plan(docs kubefleet.Documents, have State) ([]Change, error) {
	p := &planner{docs: docs, have: have}
	p.others()
	p.placements()
	p.strategies()
	for _, r := range docs.Runs {
		p.run(r)
	}
	return p.result()
}

func (p *planner) result() ([]Change, error) {
	if len(p.problems) > 0 {
		return nil, p.problems
	}
	return p.changes, nil
}

// refuse reports a problem of a document.
func (p *planner) refuse(kind, namespace, name, field, format string, args ...any) {
	at := p.docs.PlaceOf(kind, namespace, name)
	p.problems = append(p.problems, problem.Problem{File: at.File, Line: at.Line, Kind: kind, Name: name, Field: field, Text: fmt.Sprintf(format, args...)})
}

// kindOf returns a kind, or its cluster-scoped twin if the namespace is empty.
func kindOf(kind, namespace string) string {
	if namespace != "" {
		return kind
	}
	return "Cluster" + kind
}

// others refuses the documents of kinds that a store does not keep.
func (p *planner) others() {
	for _, c := range p.docs.Clusters {
		p.refuse("MemberCluster", "", c.Name, "", "the clusters of a store are the contexts of --clusters; --cluster-labels FILE gives them labels and taints; leave the document out")
	}
	for _, o := range p.docs.Objects {
		group, _, grouped := strings.Cut(o.GetAPIVersion(), "/")
		text := "only placements, overrides, strategies and runs are declared; snapshots take this object from the cluster of --source: apply it there with kubectl"
		if grouped && group == "core.oam.dev" {
			text = "slipway workflow delivers applications; leave the document out"
		}
		p.refuse(o.GetKind(), o.GetNamespace(), o.GetName(), "", "%s", text)
	}
}

// placements plans the placements of the documents, and the placements whose overrides change.
func (p *planner) placements() {
	want := map[string]fleet.Placement{}
	for name, have := range p.have.Placements {
		want[name] = have.Placement
	}
	for _, doc := range p.docs.Placements {
		kind, namespace, name := identity("ResourcePlacement", doc.Name)
		for _, e := range p.docs.Rollouts[doc.Name].OnlyOnHub() {
			p.refuse(kind, namespace, name, e.Field, "%s", e.ErrorBody())
		}
		have, exists := p.have.Placements[doc.Name]
		if exists && have.Owner != "" {
			p.refuse(kind, namespace, name, "", "the placement belongs to %q, a program that declares it: change it there", have.Owner)
		}
		if !have.DeletingSince.IsZero() {
			p.refuse(kind, namespace, name, "", "the placement is being deleted, and cannot be applied before that has ended: an engine deletes it from its clusters, "+
				"for example slipway serve with --clusters; slipway get placements shows it until then")
		}
		if exists {
			want[doc.Name] = kubefleet.Declare(have.Placement, doc)
			continue
		}
		doc.Overrides = nil
		want[doc.Name] = doc
	}
	through := p.overrides(want)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		p.placement(name, want[name])
	}
	for i, o := range p.docs.Overrides {
		p.override(o, through[i])
	}
}

// identity returns the kind, the namespace and the name of the document with an engine name.
func identity(kind, engineName string) (of, namespace, name string) {
	namespace, name, ok := kubefleet.ObjectName(engineName)
	if !ok {
		name = engineName
	}
	return kindOf(kind, namespace), namespace, name
}

// closed returns why no document changes a placement of the store, or "".
func (p *planner) closed(name string) string {
	switch have := p.have.Placements[name]; {
	case have.Owner != "":
		return fmt.Sprintf("belongs to %q, a program that declares it: change it there", have.Owner)
	case !have.DeletingSince.IsZero():
		return "is being deleted"
	}
	return ""
}

// isOfClosed reports whether an override is for one placement, which no document changes.
func (p *planner) isOfClosed(o kubefleet.Override) bool {
	for name, have := range p.have.Placements {
		if o.Placement != "" && p.closed(name) != "" && o.Concerns(have.Placement) {
			return true
		}
	}
	return false
}

// overrides adds the overrides of the documents to the placements that they concern, and removes
// them from others. Placements of programs and placements that are being deleted keep theirs. It
// returns the placements of each override.
func (p *planner) overrides(want map[string]fleet.Placement) [][]string {
	through := make([][]string, len(p.docs.Overrides))
	for name, now := range want {
		now.Overrides = slices.Clone(now.Overrides)
		for i, o := range p.docs.Overrides {
			if why := p.closed(name); why != "" {
				if o.Placement != "" && o.Concerns(now) {
					p.refuse(kindOf("ResourceOverride", o.Namespace), o.Namespace, o.Name, "spec.placement", "placement %s %s", name, why)
				}
				continue // an override of all placements is one of the others
			}
			at := slices.IndexFunc(now.Overrides, func(x placement.Override) bool { return x.Namespace == o.Namespace && x.Name == o.Name })
			switch concerned := o.Concerns(now); {
			case concerned && at >= 0:
				now.Overrides[at] = o.Override
			case concerned:
				now.Overrides = append(now.Overrides, o.Override)
			case at >= 0:
				now.Overrides = slices.Delete(now.Overrides, at, at+1)
			default:
				continue
			}
			through[i] = append(through[i], name)
		}
		want[name] = now
	}
	for i := range through {
		slices.Sort(through[i])
	}
	return through
}

// placement plans a placement unless it is neither in the documents nor changed by their overrides.
func (p *planner) placement(name string, want fleet.Placement) {
	have, exists := p.have.Placements[name]
	inDocs := slices.ContainsFunc(p.docs.Placements, func(d fleet.Placement) bool { return d.Name == name })
	kind, namespace, short := identity("ResourcePlacement", name)
	c := Change{Kind: "placement", Name: name, Place: p.docs.PlaceOf(kind, namespace, short), Action: Created, Placement: &want, Version: have.Version}
	if !exists {
		c.Note = p.lacking(want)
	} else {
		c.Action = Configured
		if equal(have.Placement, want) {
			if c.Action, c.Placement = Unchanged, nil; !inDocs {
				return
			}
		} else {
			c.Fields = Differences(documentsOf(have.Placement), documentsOf(want))
		}
	}
	p.changes = append(p.changes, c)
}

// lacking says which cluster-scoped overrides of several placements of the store a new placement
// does not get. On a hub such an override would be for all placements.
func (p *planner) lacking(want fleet.Placement) string {
	count := map[string]int{}
	for _, have := range p.have.Placements {
		for _, o := range have.Overrides {
			if o.Namespace == "" && !slices.ContainsFunc(want.Overrides, func(x placement.Override) bool { return x.Namespace == "" && x.Name == o.Name }) {
				count[o.Name]++
			}
		}
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n == 1 })
	if len(count) == 0 {
		return ""
	}
	return "without override " + strings.Join(slices.Sorted(maps.Keys(count)), ", ") + " of other placements: apply its file, too, if it is for all"
}

// documentsOf returns the document of a placement with its overrides by name, or the placement
// if it has no document.
func documentsOf(p fleet.Placement) any {
	o, err := kubefleet.ObjectOf(p)
	if err != nil {
		return p
	}
	overrides := map[string]placement.Override{}
	for _, x := range p.Overrides {
		overrides[x.String()] = x
	}
	return struct {
		kubefleet.Object
		Overrides map[string]placement.Override `json:"overrides"`
	}{o, overrides}
}

// override reports the effect of an override, which is stored in the placements that it concerns.
func (p *planner) override(o kubefleet.Override, through []string) {
	if len(through) == 0 {
		if p.isOfClosed(o) { // which is a problem already
			return
		}
		p.refuse(kindOf("ResourceOverride", o.Namespace), o.Namespace, o.Name, "",
			"it concerns no placement of the store: a store keeps overrides with their placements, so apply it with its placement or after it")
		return
	}
	c := Change{
		Kind: "override", Name: strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), Action: Unchanged,
		Through: through, Needs: placementsOf(through), Note: "in placement " + strings.Join(through, ", "),
	}
	had := false
	for _, name := range through {
		for _, x := range p.have.Placements[name].Overrides {
			had = had || x.Namespace == o.Namespace && x.Name == o.Name
		}
		changed := slices.ContainsFunc(p.changes, func(c Change) bool { return c.Kind == "placement" && c.Name == name && c.Placement != nil })
		if changed && !slices.ContainsFunc(p.have.Placements[name].Overrides, func(x placement.Override) bool { return equal(x, o.Override) }) {
			c.Action = Configured
		}
	}
	if c.Action == Configured && !had {
		c.Action = Created
	}
	p.changes = append(p.changes, c)
}

// placementsOf returns names of placements as objects.
func placementsOf(names []string) (out []string) {
	for _, name := range names {
		out = append(out, "placement/"+name)
	}
	return out
}

func (p *planner) strategies() {
	for _, s := range p.docs.Strategies {
		have, exists := p.have.Strategies[s.Name]
		kind, namespace, name := identity("StagedUpdateStrategy", s.Name)
		c := Change{Kind: "strategy", Name: s.Name, Place: p.docs.PlaceOf(kind, namespace, name), Action: Created, Strategy: &s, Version: have.Version}
		inDoc, lost := InDocument(have.Strategy)
		switch {
		case exists && (equal(have.Strategy, s) || len(lost) > 0 && equal(inDoc, s)):
			if c.Action, c.Strategy = Unchanged, nil; len(lost) > 0 {
				c.Note = "no document has its " + Paths(lost)
			}
		case exists && len(lost) > 0:
			p.refuse(kind, namespace, name, "", "the document would remove %s from the strategy, because no document has these fields: change the strategy where it is declared, or delete it first", Paths(lost))
			continue
		case exists:
			c.Action, c.Fields = Configured, Differences(strategyOf(have.Strategy), strategyOf(s))
		}
		p.changes = append(p.changes, c)
	}
}

// InDocument returns the strategy that its document would declare, and the fields that no document
// has. A strategy that no document can have is returned itself, without fields.
func InDocument(s stages.Strategy) (stages.Strategy, []Field) {
	doc, err := kubefleet.StrategyObject(s)
	if err != nil {
		return s, nil
	}
	var read stages.Strategy
	obj, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&doc)
	if err == nil {
		read, err = kubefleet.StrategyOf(&unstructured.Unstructured{Object: obj})
	}
	if err != nil {
		return s, Differences(s, stages.Strategy{Name: s.Name})
	}
	// A field that only the document has is a default.
	return read, slices.DeleteFunc(Differences(s, read), func(f Field) bool { return f.Now == "" })
}

// Paths returns the paths of fields, at most five.
func Paths(fields []Field) string {
	const most = 5
	var out []string
	for _, f := range fields[:min(len(fields), most)] {
		out = append(out, f.Path)
	}
	if more := len(fields) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more fields", more))
	}
	return strings.Join(out, ", ")
}

func strategyOf(s stages.Strategy) any {
	o, err := kubefleet.StrategyObject(s)
	if err != nil {
		return s
	}
	return o
}

// run plans a run: it is created, or it exists with the same spec and may be started or stopped.
func (p *planner) run(r kubefleet.Run) {
	kind, name := kindOf("StagedUpdateRun", r.Namespace), r.EngineName()
	if r.State == v1beta1.StateRollback {
		p.refuse(kind, r.Namespace, r.Name, "spec.state", "only a hub is told so; slipway rollback rolls a run back")
		return
	}
	have, exists := p.have.Runs[name]
	if !exists {
		p.create(r)
		return
	}
	strategy := kubefleet.EngineName(r.Namespace, r.StrategyName)
	for _, f := range []struct{ field, have, want string }{
		{"spec.placementName", have.Run.Placement, r.PlacementName()},
		{"spec.stagedRolloutStrategyName", have.Plan.Strategy.Name, strategy},
		{"spec.resourceSnapshotIndex", fmt.Sprint(have.Plan.Index), indexOf(r, have.Plan.Index)},
	} {
		if f.have != f.want {
			p.refuse(kind, r.Namespace, r.Name, f.field, "the run exists with %q, and a run does not change: choose another name, or delete the run first", f.have)
		}
	}
	c := Change{Kind: "run", Name: name, Place: p.docs.PlaceOf(kind, r.Namespace, r.Name), Action: Unchanged}
	switch state := have.Run.State; {
	case r.State == v1beta1.StateRun && state == stages.Stopped: // a run that waited for another one is also on hold then
		c.Note = "it is Stopped, and slipway start continues it"
	case r.State == v1beta1.StateRun && have.Run.Hold && (state == stages.NotStarted || state == stages.Pending):
		c.Action, c.Command = Started, stages.Start
	case r.State == v1beta1.StateStop && state == stages.NotStarted && !have.Run.Hold:
		c.Note = "it has not started, and can be stopped when it is Running or Pending"
	case r.State == v1beta1.StateStop && (state == stages.Running || state == stages.Pending):
		c.Action, c.Command = Stopped, stages.Stop
	}
	p.changes = append(p.changes, c)
}

// indexOf returns the index that a run names, or otherwise if it names none.
func indexOf(r kubefleet.Run, otherwise int) string {
	if r.Index == nil {
		return fmt.Sprint(otherwise)
	}
	return fmt.Sprint(*r.Index)
}

// create plans a new run.
func (p *planner) create(r kubefleet.Run) {
	kind, name := kindOf("StagedUpdateRun", r.Namespace), kubefleet.EngineName(r.Namespace, r.StrategyName)
	placed := func(x fleet.Placement) bool { return x.Name == r.PlacementName() }
	now, there := p.have.Placements[r.PlacementName()]
	if latest := now.Latest; latest != nil && r.Index != nil && *r.Index < latest.Index {
		p.refuse(kind, r.Namespace, r.Name, "spec.resourceSnapshotIndex", "there is no run of this name, and snapshot %d is older than the latest one, %d: if the run has ended and was deleted or forgotten, remove its file; "+
			"otherwise slipway create run NAME --index %[1]d rolls an older snapshot out", *r.Index, latest.Index)
	}
	if !there && !slices.ContainsFunc(p.docs.Placements, placed) {
		p.refuse(kind, r.Namespace, r.Name, "spec.placementName", "placement %s is not declared: apply its document, too", r.Placement)
	}
	declared, there := p.have.Strategies[name]
	strategy := declared.Strategy
	for _, s := range p.docs.Strategies {
		if s.Name == name {
			strategy, there = s, true
		}
	}
	if !there {
		p.refuse(kind, r.Namespace, r.Name, "spec.stagedRolloutStrategyName", "strategy %s is not declared: apply its document, too", r.StrategyName)
	}
	spec := r.Spec(strategy)
	p.changes = append(p.changes, Change{
		Kind: "run", Name: spec.Name, Place: p.docs.PlaceOf(kind, r.Namespace, r.Name), Action: Created, Run: &spec,
		Needs: []string{"placement/" + spec.Placement, "strategy/" + name},
	})
}

// equal compares two declarations by their JSON.
func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// Differences returns the fields that differ between two documents.
func Differences(now, then any) []Field {
	var out []Field
	compare(&out, "", tree(now), tree(then))
	return out
}

// tree returns the JSON of a document as values.
func tree(v any) (out any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return nil
	}
	return out
}

func compare(out *[]Field, path string, now, then any) {
	switch a := now.(type) {
	case map[string]any:
		if b, is := then.(map[string]any); is {
			keys := maps.Clone(a)
			maps.Copy(keys, b)
			for _, k := range slices.Sorted(maps.Keys(keys)) {
				compare(out, strings.TrimPrefix(path+"."+k, "."), a[k], b[k])
			}
			return
		}
	case []any:
		if b, is := then.([]any); is {
			for i := range max(len(a), len(b)) {
				compare(out, fmt.Sprintf("%s[%d]", path, i), at(a, i), at(b, i))
			}
			return
		}
	}
	if f := (Field{path, text(now), text(then)}); f.Now != f.Then {
		*out = append(*out, f)
	}
}

func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

// text returns a value as JSON; a missing one is empty.
func text(v any) string {
	if v == nil {
		return ""
	}
	out, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(out)
}

// Delete returns the deletions of everything in the documents that exists: runs first, then
// placements, then overrides of placements that stay, then strategies. A run that is running or
// stopping, and a placement with such a run, is a problem unless force is set.
func Delete(docs kubefleet.Documents, have State, force bool) ([]Change, error) {
	p := &planner{docs: docs, have: have}
	p.others()
	add := func(kind, name string, exists bool) {
		action := Missing
		if exists {
			action = Deleted
		}
		p.changes = append(p.changes, Change{Kind: kind, Name: name, Action: action})
	}
	runs := map[string]bool{}
	for _, r := range docs.Runs {
		now, exists := have.Runs[r.EngineName()]
		runs[r.EngineName()] = true
		if state := now.Run.State; !force && (state == stages.Running || state == stages.Stopping) {
			p.refuse(kindOf("StagedUpdateRun", r.Namespace), r.Namespace, r.Name, "", "the run is %s: stop it first, or force its deletion with --force", state)
		}
		add("run", r.EngineName(), exists)
	}
	gone := map[string]bool{}
	for _, d := range docs.Placements {
		now, exists := have.Placements[d.Name]
		if kind, namespace, name := identity("ResourcePlacement", d.Name); exists && now.Owner != "" {
			p.refuse(kind, namespace, name, "", "the placement belongs to %q, a program that declares it: delete it there", now.Owner)
		}
		if r, is := have.InProgress[d.Name]; is && !force && !runs[r.Name] {
			kind, namespace, name := identity("ResourcePlacement", d.Name)
			p.refuse(kind, namespace, name, "", "the placement %s", HasRun(&r))
		}
		gone[d.Name] = true
		add("placement", d.Name, exists)
	}
	p.withoutOverrides(gone)
	for _, s := range docs.Strategies {
		_, exists := have.Strategies[s.Name]
		add("strategy", s.Name, exists)
	}
	return p.result()
}

// HasRun returns why a placement with a run in progress is not deleted, as a predicate.
func HasRun(r *fleet.RunSummary) string {
	return fmt.Sprintf("has run %s, which is %s, %d of %d clusters done: stop it first, or set --force", r.Name, r.State, r.Completed, r.Clusters)
}

// withoutOverrides removes the overrides of the documents from the placements that are not gone.
// The others are deleted with their placement.
func (p *planner) withoutOverrides(gone map[string]bool) {
	in, with := map[string][]string{}, map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(p.have.Placements)) {
		have := p.have.Placements[name]
		rest := slices.DeleteFunc(slices.Clone(have.Overrides), func(x placement.Override) bool {
			return slices.ContainsFunc(p.docs.Overrides, func(o kubefleet.Override) bool { return o.Namespace == x.Namespace && o.Name == x.Name })
		})
		if len(rest) == len(have.Overrides) || !gone[name] && p.closed(name) != "" {
			continue
		}
		of := in
		if gone[name] {
			of = with
		}
		for _, x := range have.Overrides {
			if !slices.ContainsFunc(rest, func(y placement.Override) bool { return y.Namespace == x.Namespace && y.Name == x.Name }) {
				of[x.String()] = append(of[x.String()], name)
			}
		}
		if gone[name] {
			continue
		}
		want := have.Placement
		want.Overrides = rest
		p.changes = append(p.changes, Change{
			Kind: "placement", Name: name, Action: Configured, Placement: &want, Version: have.Version,
			Fields: Differences(documentsOf(have.Placement), documentsOf(want)),
		})
	}
	for _, o := range p.docs.Overrides {
		c := Change{Kind: "override", Name: strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"), Action: Missing, Through: in[o.String()]}
		var notes []string
		if len(c.Through) > 0 {
			notes = append(notes, "from placement "+strings.Join(c.Through, ", "))
		}
		if all := with[o.String()]; len(all) > 0 {
			notes = append(notes, "with placement "+strings.Join(all, ", "))
		}
		if len(notes) > 0 {
			c.Action, c.Note = Deleted, strings.Join(notes, " and ")
		}
		p.changes = append(p.changes, c)
	}
}
