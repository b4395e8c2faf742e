package member_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// kubectl runs kubectl on a server, with a manifest on its standard input.
func kubectl(t *testing.T, s *kubeenv.Server, manifest string, args ...string) string {
	t.Helper()
	program, err := kubeenv.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, s.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig", file}, args...)...)
	cmd.Stdin = strings.NewReader(manifest)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v: %s", args, err, out)
	}
	return string(out)
}

// portsOf are the names of the ports of a Service.
func portsOf(service *unstructured.Unstructured) (names []string) {
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	for _, p := range ports {
		p, _ := p.(map[string]any)
		name, _ := p["name"].(string)
		names = append(names, name)
	}
	return names
}

// TestTakeoverOfObjectsThatKubectlApplied has objects on a member that kubectl created in each of
// its ways. A placement adopts them, and then the hub drops a field and a port, which the member
// must drop. Fields that only kubectl owns stay.
func TestTakeoverOfObjectsThatKubectlApplied(t *testing.T) {
	s := clusters.Server(t, "two")
	for name, args := range map[string][]string{
		"apply":              {"apply", "-f", "-"},
		"create":             {"create", "-f", "-"},
		"server-side apply":  {"apply", "--server-side", "-f", "-"},
		"Terraform":          {"apply", "--server-side", "--field-manager=Terraform", "-f", "-"},
		"helm":               {"create", "--field-manager=helm", "-f", "-"},
		"a controller stays": {"create", "--field-manager=some-operator", "-f", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := s.Namespace(t)
			manifest := `
apiVersion: v1
kind: ConfigMap
metadata: {name: cfg, namespace: ` + ns + `}
data: {keep: "1", old: "x", theirs: "y"}
---
apiVersion: v1
kind: Service
metadata: {name: svc, namespace: ` + ns + `}
spec: {selector: {app: a}, ports: [{name: http, port: 80}, {name: debug, port: 9999}]}
`
			kubectl(t, s, manifest, args...)
			service := func(ports ...any) *unstructured.Unstructured {
				return &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "svc", "namespace": ns},
					"spec": map[string]any{"selector": map[string]any{"app": "a"}, "ports": ports},
				}}
			}
			http, debug := map[string]any{"name": "http", "port": int64(80)}, map[string]any{"name": "debug", "port": int64(9999)}
			r := newRollout(t, ns, s.Config(), placement.Cluster{Name: "one"})
			r.start()
			run := func(name string, objects ...*unstructured.Unstructured) {
				t.Helper()
				r.put(objects...)
				if status := r.run(name); status.Run.State != stages.Completed {
					t.Fatalf("%s is %s: %s", name, status.Run.State, r.explain(name))
				}
			}
			run("first", configMap(ns, "cfg", "keep", "1", "old", "x"), service(http, debug))
			next := []*unstructured.Unstructured{configMap(ns, "cfg", "keep", "1"), service(http)}
			r.put(next...)
			want, stale := map[string]string{"keep": "1", "theirs": "y"}, 2
			if strings.Contains(name, "stays") {
				want["old"], stale = "x", 0
			}
			preview, err := r.engine.Preview(t.Context(), fleet.RunSpec{Name: "second", Placement: ns, Strategy: allClusters()})
			if err != nil {
				t.Fatal(err)
			}
			for c, err := range preview.Diff(t.Context()) {
				n := 0
				for _, o := range c.Objects {
					for _, d := range o.Differences {
						if d.Class == drift.Stale {
							n++
						}
					}
				}
				if err != nil || n != stale {
					t.Errorf("a preview shows %d fields that are dropped, want %d: %+v %v", n, stale, c.Objects, err)
				}
			}
			run("second", next...)
			c := connTo(t, s)
			cfg, err := c.Get(t.Context(), snapshot.IDOf(next[0]))
			if err != nil {
				t.Fatal(err)
			}
			if got := dataOf(t, cfg); !maps.Equal(got, want) {
				t.Errorf("the ConfigMap has %v, want %v: %v", got, want, cfg.GetManagedFields())
			}
			svc, err := c.Get(t.Context(), snapshot.IDOf(next[1]))
			if err != nil {
				t.Fatal(err)
			}
			if got := portsOf(svc); len(got) != 1 && stale > 0 {
				t.Errorf("the Service has ports %v: %v", got, svc.GetManagedFields())
			}
		})
	}
}
