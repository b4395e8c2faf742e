package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// A host that keeps its state in a file serves the API beside the file, so that slipway --store
// state.db can reach it from another terminal.
func ExampleServe() {
	dir, err := os.MkdirTemp("", "example-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "state.db")
	store, err := bolt.Open(file, bolt.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	members := memory.NewFleet(placement.Cluster{Name: "eu-1"})
	engine, err := fleet.New(fleet.Config{Store: store, Inventory: members, Dialer: members})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ready, ended := make(chan string), make(chan error)
	go func() {
		ended <- httpapi.Serve(ctx, engine, httpapi.ServeOptions{Store: file, Ready: func(address string) { ready <- address }})
	}()
	<-ready

	// Another process:
	address, err := httpapi.Find(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := httpapi.NewClient(address, httpapi.ClientOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(client.SetCap(ctx, "all", 5), client.Run("web-1").Delete(ctx, true))
	stop()
	fmt.Println(<-ended)
	// Output:
	// <nil> run web-1 does not exist
	// <nil>
}

// A host mounts the API on its own server and authenticates callers with its own means.
func ExampleNewHandler() {
	members := memory.NewFleet(placement.Cluster{Name: "eu-1"})
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := httpapi.NewHandler(engine, httpapi.Options{Authenticate: func(r *http.Request) (approval.Identity, error) {
		user, _, ok := r.BasicAuth() // the host checks the password
		if !ok {
			return approval.Identity{}, fmt.Errorf("sign in first")
		}
		return approval.Identity{Name: user}, nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/v1/", handler)

	ctx := context.Background()
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}); err != nil {
		fmt.Println(err)
		return
	}
	client, err := httpapi.NewClient("http://web", httpapi.ClientOptions{Transport: httpapi.InProcess(mux)})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.Placements(ctx)
	fmt.Println(err)
	// Output: sign in first
}

// A client reads the objects of a snapshot that the engine has captured.
func ExamplePlacementHandle_SnapshotObjects() {
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"},
	}}
	members := memory.NewFleet(placement.Cluster{Name: "eu-1"})
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource(namespace)})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}}); err != nil {
		fmt.Println(err)
		return
	}
	taken, err := engine.Placement("web").Capture(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := httpapi.NewHandler(engine, httpapi.Options{Authenticate: func(*http.Request) (approval.Identity, error) {
		return approval.Identity{Name: "ann"}, nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := httpapi.NewClient("http://web", httpapi.ClientOptions{Transport: httpapi.InProcess(handler)})
	if err != nil {
		fmt.Println(err)
		return
	}
	objects, err := client.Placement("web").SnapshotObjects(ctx, taken.Index)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range objects {
		fmt.Println(o.Kind, o.Name)
	}
	// Output: Namespace web
}
