package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// pollEvery is how often the directory is read.
const pollEvery = 5 * time.Second

// eachMember does something once with each member of which dir has a kubeconfig, with those that come
// too, until ctx ends or there is an error.
func eachMember(ctx context.Context, dir string, do func(ctx context.Context, name string) error) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for done := map[string]bool{}; ; {
		if err := lookAt(ctx, dir, done, do); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// lookAt does something with the members of which dir has a kubeconfig, but for those that are done.
func lookAt(ctx context.Context, dir string, done map[string]bool, do func(ctx context.Context, name string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("-members: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".kubeconfig")
		if !ok || done[name] {
			continue
		}
		if err := do(ctx, name); err != nil {
			return fmt.Errorf("-members: %s: %w", filepath.Join(dir, e.Name()), err)
		}
		done[name] = true
	}
	return nil
}
