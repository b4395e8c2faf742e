package azure

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/versioned"
)

// record is the data of a fleet in a file beside the store. Every process reads it; the process
// that has the store open writes it. It is the inventory of the members, and upgrades them.
type record struct {
	Format        int                                  `json:"format"`
	ResourceGroup string                               `json:"resourceGroup"`
	Fleet         string                               `json:"fleet"`
	Members       map[string]azure.FleetMember         `json:"members"`
	Strategies    map[string]azure.FleetUpdateStrategy `json:"strategies"`
	// Targets are the resolved targets of runs.
	Targets map[string]upgrade.Target `json:"targets"`
	// Simulated is the state of the members, so that operations proceed even while no process is
	// running.
	Simulated embedded.State `json:"simulated"`

	*embedded.Provider `json:"-"`
	path               string
	mu                 sync.Mutex // one write at a time
}

const recordFormat = 1

// open opens the store of the fleet, which create makes, or reaches the process that has it open.
func (s *session) open(ctx context.Context) error {
	makes := s.verb.use == "create"
	r := &record{
		Format: recordFormat, ResourceGroup: s.group, Fleet: s.fleet, path: s.path + ".fleet",
		Members: map[string]azure.FleetMember{}, Strategies: map[string]azure.FleetUpdateStrategy{}, Targets: map[string]upgrade.Target{},
	}
	t, err := (&target.Options{Options: s.Options, Store: s.path, Create: makes, Connect: func(c *fleet.Config) error {
		c.Name, c.Inventory, c.Updater = "updaterun", r, upgrade.NewUpdater(r)
		c.Source = snapshot.SourceFunc(func(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
			return upgrade.Source(s.fleet, r.Targets[s.name]).Objects(ctx, q) // the source of a new run
		})
		return nil
	}}).Open(ctx, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: begin with member create, or name another file with --store", err)
	case err != nil:
		return err
	case t.Live && s.verb.writes:
		return fmt.Errorf("another process has %s open and drives its runs: %s when that has ended", s.path, s.verb.use)
	}
	if err := r.load(s, makes); err != nil {
		return errors.Join(err, t.Close())
	}
	s.Target, s.record = t, r
	return nil
}

// load reads the record, which may be missing if the verb makes it. It refuses the record of
// another fleet.
func (r *record) load(s *session, makes bool) error {
	text, err := os.ReadFile(r.path)
	switch {
	case err == nil:
		err = versioned.Decode("the fleet of "+s.path, recordFormat, text, r)
	case makes && errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err == nil && (r.ResourceGroup != s.group || r.Fleet != s.fleet) {
		err = fmt.Errorf("%s has the fleet %s of the resource group %s: name another file with --store", s.path, r.Fleet, r.ResourceGroup)
	}
	r.Provider = embedded.New(r.Simulated, nil)
	return err
}

// save writes the record.
func (r *record) save() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Simulated = r.State()
	text, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(r.path+"~", text, 0o600)
	}
	if err == nil {
		err = os.Rename(r.path+"~", r.path)
	}
	return err
}

// Begin begins a change, and saves that.
func (r *record) Begin(ctx context.Context, c placement.Cluster, change upgrade.Change) error {
	if err := r.Provider.Begin(ctx, c, change); err != nil {
		return err
	}
	return r.save()
}

// Clusters yields the members, with their regions as labels.
func (r *record) Clusters(context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		for name, m := range r.Members {
			c := m.Cluster()
			simulated, _ := r.Cluster(name)
			c.Labels[corev1.LabelTopologyRegion] = simulated.Region
			if !yield(c, nil) {
				return
			}
		}
	}
}

func memberVerbs() []verb {
	return append([]verb{
		{
			use: "create", short: "Add a member", needs: "name member-cluster-id",
			takes: "update-group labels region from-version takes fail", writes: true, do: createMember,
		},
		{
			use: "update", short: "Move a member to another update group, or give it other labels",
			needs: "name", takes: "update-group labels", writes: true, do: updateMember,
		},
	}, recordVerbs("member", func(r *record) map[string]azure.FleetMember { return r.Members }, listMembers)...)
}

func createMember(ctx context.Context, s *session) error {
	if _, there := s.record.Members[s.name]; there {
		return fmt.Errorf("member %s is there already: update it, or delete it first", s.name)
	}
	id := s.text("member-cluster-id")
	s.record.Edit(func(w *embedded.State) {
		c := w.AddSample(s.name, s.text("region"), s.text("from-version"))
		c.UID = id
		c.Takes.Duration, _ = time.ParseDuration(s.text("takes")) // the flags were checked
		c.Fail, _ = strconv.Atoi(s.text("fail"))
	})
	s.record.Members[s.name] = azure.FleetMember{Name: s.name, ClusterResourceID: id, ResourceGroup: s.group}
	return updateMember(ctx, s)
}

// updateMember stores a member with the update group and the labels in the flags, and shows it.
func updateMember(_ context.Context, s *session) error {
	m, there := s.record.Members[s.name]
	if !there {
		return missing("member", s.name)
	}
	if group := s.text("update-group"); group != "" {
		m.Group = &group
	}
	if labels := s.list("labels"); len(labels) > 0 {
		m.Labels = map[string]string{}
		for _, label := range labels {
			key, value, _ := strings.Cut(label, "=")
			m.Labels[key] = value
		}
	}
	s.record.Members[s.name] = m
	if err := s.record.save(); err != nil {
		return err
	}
	t := listMembers(s, m)
	return s.show(t, t.Values()[0])
}

// shownMember is a member in the form of az, with the state of its simulated cluster.
type shownMember struct {
	azure.FleetMember
	Cluster embedded.Cluster `json:"cluster"`
}

func listMembers(s *session, list ...azure.FleetMember) *cli.List {
	table := &cli.List{Kind: "member", Columns: []string{"Name", "Group", "Region", "Version", "Nodes", "Operation"}, Narrow: 6}
	for _, m := range list {
		c, _ := s.record.Cluster(m.Name)
		nodes, operation := "", upgrade.OperationState("")
		for _, pool := range c.Pools {
			nodes = pool.Version + " " + strings.TrimPrefix(pool.Image, embedded.SampleFamily+"-")
		}
		if c.Operation != nil {
			operation = c.Operation.State
		}
		table.Add(m.Name, shownMember{m, c}, m.Group, c.Region, c.ControlPlane, nodes, operation)
	}
	return table
}

func strategyVerbs() []verb {
	create := verb{use: "create", short: "Store stages for later runs", needs: "name stages", writes: true, do: createStrategy}
	return append([]verb{create}, recordVerbs("update strategy", func(r *record) map[string]azure.FleetUpdateStrategy { return r.Strategies }, listStrategies)...)
}

func createStrategy(_ context.Context, s *session) error {
	if _, there := s.record.Strategies[s.name]; there {
		return fmt.Errorf("update strategy %s is there already: delete it first, or choose another name", s.name)
	}
	read, err := s.stages()
	if err != nil {
		return err
	}
	st := azure.FleetUpdateStrategy{ID: s.id("updateStrategies", s.name), Name: s.name, ResourceGroup: s.group}
	if st.Strategy, err = azure.Form(read); err != nil {
		return err
	}
	s.record.Strategies[s.name] = st
	if err := s.record.save(); err != nil {
		return err
	}
	return s.show(listStrategies(s, st), st)
}

func listStrategies(_ *session, list ...azure.FleetUpdateStrategy) *cli.List {
	table := &cli.List{Kind: "updatestrategy", Columns: []string{"Name", "Stages"}, Narrow: 2}
	for _, st := range list {
		var names []string
		for _, stage := range st.Strategy.Stages {
			names = append(names, stage.Name)
		}
		table.Add(st.Name, st, strings.Join(names, ", "))
	}
	return table
}

// stages returns the stages in the flags: from a file, copied from a strategy, or one member
// after the other. --speed divides the waits after stages.
func (s *session) stages() (out stages.Strategy, err error) {
	from, name := s.text("stages"), s.text("update-strategy-name")
	st, there := s.record.Strategies[name]
	var text []byte
	switch {
	case from != "" && name != "":
		return out, cli.Usagef("--stages and --update-strategy-name exclude each other: take one")
	case from != "":
		text, err = os.ReadFile(from)
	case there:
		from = "update strategy " + name
		text, err = json.Marshal(st.Strategy)
	case name != "":
		return out, missing("update strategy", name)
	default:
		return azure.OneByOne(), nil
	}
	if err != nil {
		return out, fmt.Errorf("--stages: %w", err)
	}
	if out, err = azure.Read(bytes.NewReader(text), from); err != nil {
		return out, err
	}
	if err := azure.CheckUpgrade(&out); err != nil {
		return out, fmt.Errorf("%s: %w", from, err)
	}
	out.Name = name
	speed, err := strconv.Atoi(cmp.Or(s.text("speed"), "1"))
	for _, stage := range out.Stages {
		for i := range stage.After {
			wait := &stage.After[i].Wait.Duration
			*wait = (*wait/time.Duration(speed) + time.Second - 1).Truncate(time.Second)
		}
	}
	return out, err
}
