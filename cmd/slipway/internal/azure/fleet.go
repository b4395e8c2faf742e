package azure

import (
	"bytes"
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

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// record is what is kept of a fleet in a file beside the store, which every process reads; the one that has the store
// open writes it.
type record struct {
	Format        int                 `json:"format"`
	ResourceGroup string              `json:"resourceGroup"`
	Fleet         string              `json:"fleet"`
	Members       map[string]member   `json:"members"`
	Strategies    map[string]strategy `json:"strategies"`
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
func (s *session) open(ctx context.Context) (err error) {
	makes := s.verb.use == "create"
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) && makes {
		made, err := bolt.Open(s.path, bolt.Options{})
		if err == nil {
			err = made.Close()
		}
		if err != nil {
			return err
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no file %s: begin with member create, or name another one with --store", s.path)
	}
	o := target.Options{Options: s.Options, Store: s.path, Connect: func(c *fleet.Config) error {
		if err := s.load(makes); err != nil {
			return err
		}
		s.clusters = &provider{Provider: embedded.New(s.record.Simulated, nil), record: s.record, path: s.path}
		c.Name, c.Inventory, c.Updater = "updaterun", s.clusters, upgrade.NewUpdater(s.clusters)
		s.config = *c
		return nil
	}}
	if s.Target, err = o.Open(ctx, false); err != nil || !s.Live {
		return err
	}
	if s.verb.writes {
		return fmt.Errorf("another process has %s open and drives its runs: %s when that has ended", s.path, s.verb.use)
	}
	return s.load(false)
}

// load reads the record, which is refused if it is of another fleet or another version.
func (s *session) load(makes bool) error {
	s.record = &record{
		Format: recordFormat, ResourceGroup: s.group, Fleet: s.fleet,
		Members: map[string]member{}, Strategies: map[string]strategy{}, Targets: map[string]upgrade.Target{},
		Simulated: embedded.State{Regions: map[string]*embedded.Region{}, Clusters: map[string]*embedded.Cluster{}},
	}
	text, err := os.ReadFile(s.path + recordSuffix)
	if errors.Is(err, fs.ErrNotExist) && makes {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, s.record)
	}
	switch r := s.record; {
	case err != nil:
		return fmt.Errorf("the fleet of %s: %w", s.path, err)
	case r.Format != recordFormat:
		return fmt.Errorf("the fleet of %s: it has format %d, and this program knows %d", s.path, r.Format, recordFormat)
	case r.ResourceGroup != s.group || r.Fleet != s.fleet:
		return fmt.Errorf("%s has the fleet %s of the resource group %s: name another file with --store", s.path, r.Fleet, r.ResourceGroup)
	}
	return nil
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

// Clusters yields the members by name.
func (p *provider) Clusters(context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		for _, name := range slices.Sorted(maps.Keys(p.record.Members)) {
			if !yield(p.record.Members[name].cluster(), nil) {
				return
			}
		}
	}
}

// member is a member of the fleet, as az shows it.
type member struct {
	ID            string            `json:"clusterResourceId"`
	Group         *string           `json:"group"`
	Labels        map[string]string `json:"labels,omitempty"`
	Name          string            `json:"name"`
	ResourceGroup string            `json:"resourceGroup"`
	// Cluster is how the simulated cluster is.
	Cluster struct {
		Region    string         `json:"region"`
		Version   string         `json:"kubernetesVersion"`
		Pools     []upgrade.Pool `json:"nodePools"`
		Operation string         `json:"operation,omitempty"`
	} `json:"cluster"`
}

// cluster returns the member as the engine knows it. Its identity is its resource id.
func (m member) cluster() placement.Cluster {
	labels := map[string]string{"topology.kubernetes.io/region": m.Cluster.Region}
	maps.Copy(labels, m.Labels)
	if m.Group != nil {
		labels[azure.UpdateGroupLabel] = *m.Group
	}
	return placement.Cluster{Name: m.Name, UID: m.ID, Labels: labels}
}

const (
	// family is the kind of all nodes, and firstNode what the nodes of a new member were made from.
	family    = "AKSUbuntu-2204gen2containerd"
	firstNode = family + "-202408.12.0"
)

// images are what a region offers, newest first. It takes a while until a new image is everywhere.
func images(region string) []string {
	all := []string{family + "-202410.15.0", family + "-202409.30.0", family + "-202409.09.0"}
	newest, known := map[string]int{"eastus": 0, "westeurope": 1, "southeastasia": 1}[region]
	if !known {
		newest = 2
	}
	return all[newest:]
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
	}, recordVerbs("member", func(r *record) map[string]member { return r.Members }, printMembers)...)
}

func createMember(ctx context.Context, s *session) error {
	if _, there := s.record.Members[s.name]; there {
		return fmt.Errorf("member %s is there already: update it, or delete it first", s.name)
	}
	takes, err := time.ParseDuration(s.text("takes"))
	if err != nil {
		return err
	}
	fail, err := strconv.Atoi(s.text("fail"))
	if err != nil {
		return err
	}
	m, version := member{Name: s.name, ID: s.text("member-cluster-id"), ResourceGroup: s.group}, s.text("from-version")
	m.Cluster.Region = s.text("region")
	s.clusters.Edit(func(w *embedded.State) {
		w.Regions[m.Cluster.Region] = &embedded.Region{Images: map[string][]string{family: images(m.Cluster.Region)}}
		w.Clusters[m.Name] = &embedded.Cluster{
			UID: m.ID, Region: m.Cluster.Region, ControlPlane: version, Takes: takes, Fail: fail,
			Pools: []upgrade.Pool{{Name: "nodepool1", Version: version, Image: firstNode, Family: family}},
		}
	})
	s.record.Members[s.name] = m
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
	for i, label := range s.list("labels") {
		if i == 0 {
			m.Labels = map[string]string{}
		}
		key, value, _ := strings.Cut(label, "=")
		m.Labels[key] = value
	}
	s.record.Members[s.name] = m
	if err := s.clusters.save(); err != nil {
		return err
	}
	return printMembers(s, m)
}

// printMembers shows members with how their clusters are now.
func printMembers(s *session, list ...member) error {
	table := &cli.List{Kind: "member", Columns: []string{"Name", "Group", "Region", "Version", "Nodes", "Operation"}, Narrow: 6}
	clusters := embedded.New(s.record.Simulated, nil)
	for i := range list {
		m := &list[i]
		c, there := clusters.Cluster(m.Name)
		if !there {
			return fmt.Errorf("the fleet of %s: there is no simulated cluster %s", s.path, m.Name)
		}
		m.Cluster.Version, m.Cluster.Pools = c.ControlPlane, c.Pools
		if c.Operation != nil {
			m.Cluster.Operation = string(c.Operation.State)
		}
		nodes := c.Pools[0].Version + " " + strings.TrimPrefix(c.Pools[0].Image, family+"-")
		table.Add(m.Name, m, text(m.Group), m.Cluster.Region, c.ControlPlane, nodes, m.Cluster.Operation)
	}
	return show(s, list, table)
}

// text is the text at p, if any.
func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

// strategy is an update strategy, stages that runs are made from, as az shows it.
type strategy struct {
	ID            string          `json:"id"`
	Name          string          `json:"name"`
	ResourceGroup string          `json:"resourceGroup"`
	Stages        json.RawMessage `json:"strategy"`
}

func strategyVerbs() []verb {
	create := verb{use: "create", short: "Store stages for runs to come", needs: "name stages", writes: true, do: createStrategy}
	return append([]verb{create}, recordVerbs("update strategy", func(r *record) map[string]strategy { return r.Strategies }, printStrategies)...)
}

func createStrategy(_ context.Context, s *session) error {
	if _, there := s.record.Strategies[s.name]; there {
		return fmt.Errorf("update strategy %s is there already: delete it first, or choose another name", s.name)
	}
	read, err := readStages(s.text("stages"))
	if err != nil {
		return err
	}
	st := strategy{ID: s.id("updateStrategies", s.name), Name: s.name, ResourceGroup: s.group}
	if st.Stages, err = azure.Write(read); err != nil {
		return err
	}
	s.record.Strategies[s.name] = st
	if err := s.clusters.save(); err != nil {
		return err
	}
	return printStrategies(s, st)
}

func printStrategies(s *session, list ...strategy) error {
	table := &cli.List{Kind: "updatestrategy", Columns: []string{"Name", "Stages"}, Narrow: 2}
	for _, st := range list {
		var form azure.Strategy
		if err := json.Unmarshal(st.Stages, &form); err != nil {
			return fmt.Errorf("update strategy %s: %w", st.Name, err)
		}
		var names []string
		for _, stage := range form.Stages {
			names = append(names, stage.Name)
		}
		table.Add(st.Name, st, strings.Join(names, ", "))
	}
	return show(s, list, table)
}

// readStages reads a file of stages.
func readStages(path string) (stages.Strategy, error) {
	f, err := os.Open(path)
	if err != nil {
		return stages.Strategy{}, fmt.Errorf("--stages: %w", err)
	}
	s, err := azure.Read(f, path)
	if err == nil && azure.CheckUpgrade(&s) != nil {
		err = fmt.Errorf("%s: %w", path, azure.CheckUpgrade(&s))
	}
	return s, errors.Join(err, f.Close())
}

// stagesOfRun returns the stages of a run: those of a file, a copy of those of a strategy, or one member after the
// other. The waits after stages are as many times shorter as --speed says.
func (s *session) stagesOfRun() (out stages.Strategy, err error) {
	path, name := s.text("stages"), s.text("update-strategy-name")
	st, there := s.record.Strategies[name]
	switch {
	case path != "" && name != "":
		err = cli.Usagef("--stages and --update-strategy-name exclude each other: take one")
	case path != "":
		out, err = readStages(path)
	case there:
		out, err = azure.Read(bytes.NewReader(st.Stages), "update strategy "+name)
		out.Name = name
	case name != "":
		err = missing("update strategy", name)
	default:
		out = azure.OneByOne()
	}
	if err != nil {
		return out, err
	}
	speed, err := strconv.Atoi(s.text("speed"))
	for i := range out.Stages {
		for j := range out.Stages[i].After {
			t := &out.Stages[i].After[j]
			t.Wait = (t.Wait/time.Duration(speed) + time.Second - 1).Truncate(time.Second)
		}
	}
	return out, err
}
