package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

//go:embed members.yaml
var membersText string

const (
	// others is the number of placements besides the measured one, all the number of placements of
	// an idle hub.
	others, all = 9, 25
	// windows is the number of minutes for which requests are counted.
	windows = 3
	// patience is the maximum duration of every step, and calm is the pause before an idle hub is
	// measured.
	patience, calm = 3 * time.Minute, time.Minute
)

// The rows of the table.
const (
	stagedRun   = "staged run of 3 members, canary before the rest: created to Succeeded"
	oldContent  = "of these runs, those that brought the content of before the last change"
	changeThere = "rolling change: edited to on all 3 members"
	changeTold  = "rolling change: edited to told as available"
	driftBack   = "change by hand on a member, placement without applyStrategy: made to put back"
	initialized = "run, beside nine other placements: created to Initialized"
	accepted    = "approval, beside nine other placements: patched to ApprovalAccepted"
	processor   = "processor time of all of the above"
	idleTime    = "processor time a minute, idle with 25 placements"
	mostMemory  = "memory, the most of all processes together"
	idleHub     = "requests a minute to the hub's API server, idle with 25 placements"
	idleMember  = "requests a minute to each member, idle with 25 placements"
	stuckHub    = "requests a minute to the hub's API server, with five placements besides that are stuck"
	stuckMember = "requests a minute to each member, with these"
)

// beside measures KubeFleet and Slipway, one after the other, and prints the table of both. Logs
// go to a directory. SAMPLES sets the number of samples for each time, and ONLY selects a single
// measurement.
func beside(ctx context.Context, w io.Writer, build, command, logs string) error {
	samples := 5
	if text := os.Getenv("SAMPLES"); text != "" {
		var err error
		if samples, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("SAMPLES: %w", err)
		}
	}
	t := &table{rows: []row{
		{name: stagedRun},
		{name: oldContent, unit: failures},
		{name: changeThere},
		{name: changeTold},
		{name: driftBack},
		{name: initialized, reason: "a run here has its content, its plan and its record by then; KubeFleet has no content yet, and its first run after a change brings the old one"},
		{name: accepted, reason: "the answer is in the record of the run by then, and the policies that vouch for who answered have been compared; KubeFleet does neither"},
		{name: processor},
		{name: idleTime},
		{name: mostMemory, unit: mebibytes},
		{name: idleHub, unit: requestsPerMinute, atMost: 80},
		{name: idleMember, unit: requestsPerMinute},
		{name: stuckHub, unit: requestsPerMinute, atMost: 160, reason: "the hub is what tries again here, each minute at the slowest; KubeFleet's agents do so on the members, more often at first and every 15 minutes in the end"},
		{name: stuckMember, unit: requestsPerMinute},
	}}
	for _, p := range []*peer{kubefleet(build), slipway(command)} {
		if only := os.Getenv("ONLY"); only != "" && only != p.name {
			continue
		}
		t.systems = append(t.systems, p.name)
		dir := filepath.Join(logs, strings.ToLower(p.name))
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
			return err
		}
		if err := measure(ctx, p, t, samples, dir); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return t.print(w)
}

// bench is a running system with the state of its measurements.
type bench struct {
	servers  *servers
	system   string
	programs []*exec.Cmd
	table    *table
	samples  int
	dir      string

	hub     dynamic.Interface
	members []dynamic.Interface
	// content is the value in the ConfigMap of each placement.
	content map[string]int
}

func measure(ctx context.Context, p *peer, t *table, samples int, dir string) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s, err := startServers(ctx, counted(p.namespace))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	b := &bench{servers: s, system: p.name, table: t, samples: samples, dir: dir, content: map[string]int{}}
	if b.hub, err = dynamic.NewForConfig(s.hub.Config()); err != nil {
		return err
	}
	for _, m := range s.members {
		client, err := dynamic.NewForConfig(m.Config())
		if err != nil {
			return err
		}
		b.members = append(b.members, client)
	}
	if b.programs, err = p.install(ctx, s, dir); err != nil {
		return err
	}
	wait, err := begin(b.programs, dir, stop) // if one program ends, the others are stopped
	defer wait()
	defer stop(nil)
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{b.join, b.changes, b.idle, b.stuck} {
		if err := part(ctx); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
	}
	most, err := memory(b.programs)
	b.table.add(b.system, mostMemory, most)
	return err
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s: %s\n", time.Now().Format("15:04:05"), b.system, fmt.Sprintf(format, args...))
}

// gone is a member that cannot be reached.
const gone = "gone"

// join registers the members, with the heartbeats that they have by default, and waits for them.
func (b *bench) join(ctx context.Context) error {
	// Drop the comment, and the heartbeat period, which only the suites need.
	text := membersText[strings.Index(membersText, "apiVersion"):]
	text = strings.ReplaceAll(text, ", heartbeatPeriodSeconds: 15", "")
	if err := b.retried(ctx, func() error { return create(ctx, b.hub, text) }); err != nil {
		return err
	}
	for _, name := range memberNames() {
		o := object{on: b.hub, resource: "memberclusters", name: contextPrefix + name}
		if err := o.await(ctx, patience, "Joined", func(u *unstructured.Unstructured) bool { return condition(u, "Joined", "True") }); err != nil {
			return err
		}
	}
	if err := create(ctx, b.hub, `
apiVersion: cluster.kubernetes-fleet.io/v1beta1
kind: MemberCluster
metadata: {name: `+gone+`, labels: {env: none}}
spec: {identity: {kind: ServiceAccount, name: `+gone+`, namespace: fleet-system}}`); err != nil && !apierrors.IsAlreadyExists(err) {
		return err // slipway hub registers it of its kubeconfig
	}
	b.say("three members have joined")
	return pause(ctx, calm+10*time.Second) // until it is known that the fourth does not
}

// retried retries a request that definitions and policies refuse in the first seconds.
func (b *bench) retried(ctx context.Context, try func() error) (err error) {
	for range 20 {
		if err = try(); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return err
}

// changes measures runs, changes and drift, and their resource usage.
func (b *bench) changes(ctx context.Context) error {
	before, err := processorTime(b.programs)
	if err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{b.stagedRuns, b.rollingChanges, b.approvals} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	after, err := processorTime(b.programs)
	b.table.took(b.system, processor, after-before)
	b.say("processor time of all of these %v", after-before)
	return err
}
