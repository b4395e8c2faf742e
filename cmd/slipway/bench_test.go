package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// BenchmarkGetRuns is the whole command on a file with a thousand runs of twenty clusters that
// have completed: the file is opened, which reads and checks all of it, and the runs are listed.
// The goal is less than 300 ms.
func BenchmarkGetRuns(b *testing.B) {
	const runs, clusters = 1000, 20
	v := &env{t: b, file: filepath.Join(b.TempDir(), "state.db"), source: memory.NewSource(object("Namespace", "", "shop", ""), object("ConfigMap", "shop", "web", "v1"))}
	var members []placement.Cluster
	for i := range clusters {
		members = append(members, placement.Cluster{Name: fmt.Sprintf("eu-%d", i), Labels: map[string]string{"ring": []string{"canary", "rest"}[min(i, 1)]}})
	}
	v.members = memory.NewFleet(members...)
	fast := memory.NewStore()
	cfg := fleet.Config{Store: fast, Name: "engine"}
	v.must(v.connect(&cfg))
	e, err := fleet.New(cfg)
	v.must(err)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.Start(ctx) }()
	s := strategy()
	s.Stages[1].MaxConcurrency = new(intstr.FromInt32(clusters))
	for p := range 2 {
		name := fmt.Sprintf("shop-%d", p)
		v.must(e.PutPlacement(ctx, fleet.Placement{Name: name, RunHistory: runs / 2, AllowCoOwnership: true, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}}))
		for i := range runs / 2 {
			run := fmt.Sprintf("%s-%d", name, i)
			_, err := e.CreateRun(ctx, fleet.RunSpec{Name: run, Placement: name, Strategy: s})
			v.must(err)
			_, err = e.Run(run).Wait(ctx)
			v.must(err)
		}
	}
	cancel()
	<-ended
	v.must(copyTo(b.Context(), v.file, fast))
	for b.Loop() {
		var out strings.Builder
		if code := run(b.Context(), []string{"--store", v.file, "get", "runs"}, genericiooptions.IOStreams{Out: &out, ErrOut: &out}, v.connect); code != cli.ExitDone || strings.Count(out.String(), "\n") != runs+1 {
			b.Fatalf("exit code %d, %d lines\n%.500s", code, strings.Count(out.String(), "\n"), out.String())
		}
	}
}

// copyTo makes a file of the records of a store.
func copyTo(ctx context.Context, file string, from backend.Store) (err error) {
	var all []backend.Write
	for rec, err := range from.List(ctx, "") {
		if err != nil {
			return err
		}
		all = append(all, backend.Write{Key: rec.Key, Value: rec.Value})
	}
	store, err := bolt.Open(file, bolt.Options{})
	if err != nil {
		return err
	}
	_, err = store.WriteAll(ctx, all)
	return errors.Join(err, store.Close())
}
