package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// registrar makes a ManagedCluster for each kubeconfig that has none, and says whether it can be reached.
type registrar struct {
	clusters dynamic.ResourceInterface
	dialer   backend.Dialer
	dir      string
	out      io.Writer
	log      *slog.Logger
	// joined are those that there were, so that one which a user deletes is not
	// made again while the program runs; with whether it could be reached.
	joined map[string]bool
}

// How often the directory and the members are read, and how long a member may take to answer.
const (
	pollEvery = 5 * time.Second
	answering = 3 * time.Second
)

// run registers what is there, and what comes, until ctx ends. What is wrong at the beginning is the
// operator's mistake; later on it is tried again.
func (r *registrar) run(ctx context.Context) error {
	if err := r.look(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := r.look(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("members cannot be seen to, and are tried again", "error", err)
		}
	}
}

// reconcile sees to every member of which the directory has a kubeconfig.
func (r *registrar) look(ctx context.Context) error {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return fmt.Errorf("-members: %w", err)
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".kubeconfig")
		if !ok {
			continue
		}
		if err := r.register(ctx, name); err != nil {
			return fmt.Errorf("-members: %s: %w", filepath.Join(r.dir, e.Name()), err)
		}
	}
	return nil
}

// register makes the ManagedCluster if it is new, and writes down whether the cluster can be reached if that
// has changed.
func (r *registrar) register(ctx context.Context, name string) error {
	was, known := r.joined[name]
	if !known {
		_, err := r.clusters.Create(ctx, managedCluster(name, nil), metav1.CreateOptions{FieldManager: "slipway-canary"})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err == nil {
			fmt.Fprintf(r.out, "registered member %s\n", name)
		}
	}
	reached := r.reach(ctx, name)
	if ctx.Err() != nil {
		return ctx.Err() // what was not waited for tells nothing
	}
	if known && was == reached {
		return nil
	}
	r.joined[name] = reached
	return r.report(ctx, name, reached)
}

// reach reports whether a member answers.
func (r *registrar) reach(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	conn, err := r.dialer.Dial(ctx, placement.Cluster{Name: name})
	if err != nil {
		return false
	}
	_, err = conn.Get(ctx, namespaces.id("", "kube-system"))
	return errors.Join(err, conn.Close()) == nil
}

// report writes down whether a member can be reached. One that was deleted, or that is changed at the
// same moment, is left alone until that changes.
func (r *registrar) report(ctx context.Context, name string, reached bool) error {
	obj, err := r.clusters.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		obj.Object["status"] = joinedStatus(time.Now(), reached)
		_, err = r.clusters.UpdateStatus(ctx, obj, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) {
		delete(r.joined, name) // it is read again
	}
	return ignore(err, apierrors.IsNotFound, apierrors.IsConflict)
}

// ignore returns no error where it is one of some kinds.
func ignore(err error, kinds ...func(error) bool) error {
	for _, is := range kinds {
		if is(err) {
			return nil
		}
	}
	return err
}
