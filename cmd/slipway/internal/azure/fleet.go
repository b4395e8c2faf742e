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
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/internal/versioned"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// record is what is kept of a fleet in a file beside the store, which every process reads; the one that has the store
// open writes it.
type record struct {
	Format        int                                  `json:"format"`
	ResourceGroup string                               `json:"resourceGroup"`
	Fleet         string                               `json:"fleet"`
	Members       map[string]azure.FleetMember         `json:"members"`
	Strategies    map[string]azure.FleetUpdateStrategy `json:"strategies"`
	// Targets are what runs do, as it was resolved.
	Targets map[string]upgrade.Target `json:"targets"`
	// Simulated is how the members are, so that what was begun goes on while no process is there.
	Simulated embedded.State `json:"simulated"`
}

const (
	recordFormat = 1
	recordSuffix = ".fleet"
)

// open opens the store of the fleet, which create makes, or reaches the process that has it open.
func (s *session) open(ctx context.Context) error {
	makes := s.verb.use == "create"
	t, err := (&target.Options{Options: s.Options, Store: s.path, Create: makes, Connect: func(c *fleet.Config) error {
		if err := s.load(makes); err != nil {
			return err
		}
		c.Name, c.Inventory, c.Updater = "updaterun", s.clusters, upgrade.NewUpdater(s.clusters)
		s.config = *c
		return nil
	}}).Open(ctx, false)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: begin with member create, or name another file with --store", err)
	case err != nil:
		return err
	case t.Live && s.verb.writes:
		return fmt.Errorf("another process has %s open and drives its runs: %s when that has ended", s.path, s.verb.use)
	case t.Live:
		err = s.load(false)
	}
	s.Target = t
	return err
}

// load reads the record, which is refused if it is of another fleet or another version.
func (s *session) load(makes bool) error {
	s.record = &record{
		Format: recordFormat, ResourceGroup: s.group, Fleet: s.fleet,
		Members: map[string]azure.FleetMember{}, Strategies: map[string]azure.FleetUpdateStrategy{}, Targets: map[string]upgrade.Target{},
	}
	text, err := os.ReadFile(s.path + recordSuffix)
	switch {
	case err == nil:
		err = versioned.Decode("the fleet of "+s.path, recordFormat, text, s.record)
	case makes && errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if r := s.record; err == nil && (r.ResourceGroup != s.group || r.Fleet != s.fleet) {
		err = fmt.Errorf("%s has the fleet %s of the resource group %s: name another file with --store", s.path, r.Fleet, r.ResourceGroup)
	}
	if err == nil {
		s.clusters = &provider{Provider: embedded.New(s.record.Simulated, nil), record: s.record, path: s.path}
	}
	return err
}

// provider lists and upgrades the members, and keeps how they are.
type provider struct {
	*embedded.Provider
	record *record
	path   string
	mu     sync.Mutex // one write at a time
}

var _ upgrade.Watcher = (*provider)(nil)

// save writes the record.
func (p *provider) save() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.record.Simulated = p.State()
	path := p.path + recordSuffix
	text, err := json.Marshal(p.record)
	if err == nil {
		err = os.WriteFile(path+"~", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+"~", path)
	}
	return err
}

// Begin begins a change, and keeps that it did.
func (p *provider) Begin(ctx context.Context, c placement.Cluster, change upgrade.Change) error {
	if err := p.Provider.Begin(ctx, c, change); err != nil {
		return err
	}
	return p.save()
}

// Clusters yields the members by name, with their regions as labels.
func (p *provider) Clusters(context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(p.record.Members)) {
			c := p.record.Members[name].Cluster()
			simulated, _ := p.Cluster(name)
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
	}, recordVerbs("member", func(r *record) map[string]azure.FleetMember { return r.Members }, printMembers)...)
}

func createMember(ctx context.Context, s *session) error {
	if _, there := s.record.Members[s.name]; there {
		return fmt.Errorf("member %s is there already: update it, or delete it first", s.name)
	}
	takes, wrong := time.ParseDuration(s.text("takes"))
	fail, err := strconv.Atoi(s.text("fail"))
	if err = errors.Join(wrong, err); err != nil {
		return err
	}
	id := s.text("member-cluster-id")
	s.clusters.Edit(func(w *embedded.State) {
		c := w.AddSample(s.name, s.text("region"), s.text("from-version"))
		c.UID, c.Takes, c.Fail = id, takes, fail
	})
	s.record.Members[s.name] = azure.FleetMember{Name: s.name, ClusterResourceID: id, ResourceGroup: s.group}
	return updateMember(ctx, s)
}

// updateMember stores a member with the update group and the labels that the flags say, and shows it.
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
	if err := s.clusters.save(); err != nil {
		return err
	}
	return printMembers(s, m)
}

// shownMember is a member as az shows it, with how its simulated cluster is.
type shownMember struct {
	azure.FleetMember
	Cluster simulated `json:"cluster"`
}

type simulated struct {
	Region    string                 `json:"region"`
	Version   string                 `json:"kubernetesVersion"`
	Pools     []upgrade.Pool         `json:"nodePools"`
	Operation upgrade.OperationState `json:"operation,omitempty"`
}

// printMembers shows members with how their clusters are now.
func printMembers(s *session, list ...azure.FleetMember) error {
	table := &cli.List{Kind: "member", Columns: []string{"Name", "Group", "Region", "Version", "Nodes", "Operation"}, Narrow: 6}
	var shown []shownMember
	for _, m := range list {
		c, there := s.clusters.Cluster(m.Name)
		if !there || len(c.Pools) == 0 {
			return fmt.Errorf("the fleet of %s: there is no simulated cluster %s", s.path, m.Name)
		}
		is := simulated{Region: c.Region, Version: c.ControlPlane, Pools: c.Pools}
		if c.Operation != nil {
			is.Operation = c.Operation.State
		}
		shown = append(shown, shownMember{m, is})
		nodes := c.Pools[0].Version + " " + strings.TrimPrefix(c.Pools[0].Image, embedded.SampleFamily+"-")
		table.Add(m.Name, nil, text(m.Group), c.Region, c.ControlPlane, nodes, is.Operation)
	}
	return show(s, shown, table)
}

func strategyVerbs() []verb {
	create := verb{use: "create", short: "Store stages for runs to come", needs: "name stages", writes: true, do: createStrategy}
	return append([]verb{create}, recordVerbs("update strategy", func(r *record) map[string]azure.FleetUpdateStrategy { return r.Strategies }, printStrategies)...)
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
	if err := s.clusters.save(); err != nil {
		return err
	}
	return printStrategies(s, st)
}

func printStrategies(s *session, list ...azure.FleetUpdateStrategy) error {
	table := &cli.List{Kind: "updatestrategy", Columns: []string{"Name", "Stages"}, Narrow: 2}
	for _, st := range list {
		var names []string
		for _, stage := range st.Strategy.Stages {
			names = append(names, stage.Name)
		}
		table.Add(st.Name, nil, strings.Join(names, ", "))
	}
	return show(s, list, table)
}

// stages returns those that the flags say: of a file, a copy of those of a strategy, or one member after the other.
// The waits after stages are as many times shorter as --speed says.
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
			wait := &stage.After[i].Wait
			*wait = (*wait/time.Duration(speed) + time.Second - 1).Truncate(time.Second)
		}
	}
	return out, err
}
