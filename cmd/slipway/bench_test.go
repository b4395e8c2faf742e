package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// BenchmarkGetRuns is the whole command on a file with a thousand runs of a hundred clusters that have completed: the
// file is opened, which reads and checks all of it, and the runs are listed. It is to take less than 300 ms.
func BenchmarkGetRuns(b *testing.B) {
	const runs, clusters = 1000, 100
	v := &env{t: b, file: filepath.Join(b.TempDir(), "state.db"), source: memory.NewSource(object("Namespace", "", "shop", ""), object("ConfigMap", "shop", "web", "v1"))}
	var fleets []placement.Cluster
	for i := range clusters {
		ring := "rest"
		if i < 5 {
			ring = "canary"
		}
		fleets = append(fleets, placement.Cluster{Name: fmt.Sprintf("eu-%d", i), Labels: map[string]string{"ring": ring}})
	}
	v.members = memory.NewFleet(fleets...)
	store, err := bolt.Open(v.file, bolt.Options{})
	v.must(err)
	cfg := fleet.Config{Store: store, Name: "engine"}
	v.must(v.connect(&cfg))
	e, err := fleet.New(cfg)
	v.must(err)
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.Run(ctx) }()
	s := strategy()
	for p := range 2 {
		name := fmt.Sprintf("shop-%d", p)
		v.must(e.PutPlacement(ctx, fleet.Placement{Name: name, RunHistory: 500, AllowCoOwnership: true, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}}))
		for i := range runs / 2 {
			run := fmt.Sprintf("%s-%d", name, i)
			_, err := e.CreateRun(ctx, fleet.RunSpec{Name: run, Placement: name, Strategy: s})
			v.must(err)
			_, err = e.Wait(ctx, run)
			v.must(err)
		}
	}
	cancel()
	<-ended
	v.must(store.Close())
	for b.Loop() {
		var out strings.Builder
		if code := run(b.Context(), []string{"--store", v.file, "get", "runs"}, genericiooptions.IOStreams{Out: &out, ErrOut: &out}, v.connect); code != cli.ExitDone || strings.Count(out.String(), "\n") != runs+1 {
			b.Fatalf("exit code %d, %d lines", code, strings.Count(out.String(), "\n"))
		}
	}
}
