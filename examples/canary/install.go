package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/snapshot"
)

// definitions are the CRDs of what is declared on the hub.
//
//go:embed crds/*.yaml
var definitions embed.FS

// establishing is how long an API server may take to serve a kind.
const establishing = time.Minute

// install applies the CRDs and returns when the API server serves them.
func install(ctx context.Context, config *rest.Config, out io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, establishing)
	defer cancel()
	crds, err := readDefinitions()
	if err != nil {
		return err
	}
	conn, err := member.NewConn(config, member.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, crd := range crds {
		if _, err := conn.Apply(ctx, crd, backend.ApplyOptions{Manager: "slipway-canary"}); err != nil {
			return fmt.Errorf("install: %w", err)
		}
	}
	for _, crd := range crds {
		if err := awaitEstablished(ctx, conn, snapshot.IDOf(crd)); err != nil {
			return fmt.Errorf("install: %w", err)
		}
		fmt.Fprintf(out, "installed %s\n", crd.GetName())
	}
	return nil
}

func readDefinitions() (crds []*unstructured.Unstructured, err error) {
	paths, err := fs.Glob(definitions, "crds/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := definitions.ReadFile(path)
		if err != nil {
			return nil, err
		}
		objs, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		crds = append(crds, objs...)
	}
	return crds, nil
}

// awaitEstablished returns when the kind of a definition is served.
func awaitEstablished(ctx context.Context, conn backend.Conn, id snapshot.ID) error {
	served := condition("", "Established")
	for {
		crd, err := conn.Get(ctx, id)
		if err == nil && served.cell(crd) == "True" {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s is not served after %s: %w", id.Name, establishing, errors.Join(ctx.Err(), err))
		}
		pause(ctx, moment)
	}
}
