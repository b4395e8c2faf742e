package clusterapi_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/backend"
	kubemember "github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/snapshot"
)

type tree = map[string]any

// clusters are the API servers that the tests of this package share.
var clusters kubeenv.Shared

// management are the management clusters by version of Cluster API. A server of this test serves
// only one version, because it has none of Cluster API's conversion webhooks.
var management = map[string]*managed{"v1beta1": {}, "v1beta2": {}}

type managed struct {
	once sync.Once
	api  *api
	err  error
}

func TestMain(m *testing.M) { os.Exit(clusters.Run(m)) }

// api is a client of a management cluster with all permissions, and the connection of providers.
type api struct {
	server  *kubeenv.Server
	version string
	client  *http.Client
	conn    backend.Conn
	source  snapshot.Source
}

// serve returns the management cluster that serves a version of Cluster API.
func serve(t *testing.T, version string) *api {
	t.Helper()
	m := management[version]
	m.once.Do(func() {
		server := clusters.Server(t, version)
		m.api = newAPI(t, server, version)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		m.err = m.api.define(ctx)
	})
	if m.err != nil {
		t.Fatal(m.err)
	}
	return m.api
}

func newAPI(t *testing.T, s *kubeenv.Server, version string) *api {
	t.Helper()
	conn, err := kubemember.NewConn(s.Config(), kubemember.Options{QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	source, err := source.New(s.Config(), source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &api{server: s, version: version, client: clientOf(t, s), conn: conn, source: source}
}

func clientOf(t *testing.T, s *kubeenv.Server) *http.Client {
	t.Helper()
	cfg := s.Config()
	pair, err := tls.X509KeyPair(cfg.CertData, cfg.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cfg.CAData)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}
}

// definitions returns the files of the required kinds in the module of Cluster API.
func definitions() []string {
	return []string{
		"config/crd/bases/cluster.x-k8s.io_clusters.yaml",
		"config/crd/bases/cluster.x-k8s.io_machinedeployments.yaml",
		"config/crd/bases/cluster.x-k8s.io_machines.yaml",
		"controlplane/kubeadm/config/crd/bases/controlplane.cluster.x-k8s.io_kubeadmcontrolplanes.yaml",
	}
}

// template defines a kind of machine template of an invented infrastructure provider. Its objects
// are immutable.
const template = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boxmachinetemplates.infrastructure.cluster.x-k8s.io}
spec:
  group: infrastructure.cluster.x-k8s.io
  scope: Namespaced
  names: {kind: BoxMachineTemplate, listKind: BoxMachineTemplateList, plural: boxmachinetemplates, singular: boxmachinetemplate}
  versions:
  - name: v1alpha7
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            x-kubernetes-validations: [{rule: self == oldSelf, message: a template cannot be changed}]
            properties:
              template:
                type: object
                properties:
                  spec:
                    type: object
                    properties:
                      size: {type: string}
                      image: {type: string}
`

// define creates the definitions of the kinds.
func (a *api) define(ctx context.Context) error {
	dir, err := schemas(ctx)
	if err != nil {
		return err
	}
	documents := [][]byte{[]byte(template)}
	for _, file := range definitions() {
		body, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		documents = append(documents, body)
	}
	for _, body := range documents {
		if err := a.defineOne(ctx, body); err != nil {
			return err
		}
	}
	return a.discover(ctx)
}

// schemas returns the directory of the module of Cluster API.
func schemas(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", "sigs.k8s.io/cluster-api")
	cmd.Dir = filepath.Join("testdata", "schemas")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.Output()
	var module struct{ Dir, Error string }
	if json.Unmarshal(out, &module) != nil || module.Dir == "" {
		return "", fmt.Errorf("the module of testdata/schemas/go.mod, which has the schemas of Cluster API, cannot be had: %v %s", err, module.Error)
	}
	return module.Dir, nil
}

// defineOne creates a definition that has only the version of the server.
func (a *api) defineOne(ctx context.Context, body []byte) error {
	var crd tree
	if err := yaml.Unmarshal(body, &crd); err != nil {
		return err
	}
	spec := crd["spec"].(tree)
	var kept []any
	for _, v := range spec["versions"].([]any) {
		if v := v.(tree); v["name"] == a.version || v["name"] == "v1alpha7" {
			v["storage"] = true
			kept = append(kept, v)
		}
	}
	spec["versions"] = kept
	_, err := a.call(ctx, http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
	return err
}

// discover waits until the server serves all kinds, and until discovery lists them.
func (a *api) discover(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		missing, err := a.untold(ctx)
		if err == nil && missing == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("kind %s is not told of: %v", missing, err)
		case <-tick.C:
		}
	}
}

// untold returns a kind that is missing in the server: it is not served yet, or one form of
// discovery does not list it.
func (a *api) untold(ctx context.Context) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server.URL()+"/apis", nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	all, err := a.answer(r)
	if err != nil {
		return "", err
	}
	for _, kind := range []string{"Cluster", "MachineDeployment", "Machine", "KubeadmControlPlane", "BoxMachineTemplate"} {
		path := a.path(kind, "default")
		if _, err := a.call(ctx, http.MethodGet, path, nil); err != nil {
			return kind, err
		}
		of, err := a.call(ctx, http.MethodGet, path[:strings.Index(path, "/namespaces")], nil)
		if err != nil {
			return kind, err
		}
		plural := fmt.Sprintf("%q", strings.ToLower(kind)+"s")
		if text, _ := json.Marshal(of["resources"]); !bytes.Contains(text, []byte(plural)) || !bytes.Contains(all, []byte(plural)) {
			return kind, nil
		}
	}
	return "", nil
}

// call sends a request; the answer is JSON.
func (a *api) call(ctx context.Context, method, path string, body any) (tree, error) {
	content, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, a.server.URL()+path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	text, err := a.answer(r)
	if err != nil {
		return nil, err
	}
	out := tree{}
	return out, json.Unmarshal(text, &out)
}

// answer returns the body of the answer to a request.
func (a *api) answer(r *http.Request) ([]byte, error) {
	answer, err := a.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s %s", r.Method, r.URL.Path, answer.Status, text)
	}
	return text, err
}

// path returns the path of the objects of a kind.
func (a *api) path(kind, namespace string, name ...string) string {
	group, version := "cluster.x-k8s.io", a.version
	switch kind {
	case "KubeadmControlPlane":
		group = "controlplane." + group
	case "BoxMachineTemplate":
		group, version = "infrastructure."+group, "v1alpha7"
	}
	return strings.Join(append([]string{"/apis", group, version, "namespaces", namespace, strings.ToLower(kind) + "s"}, name...), "/")
}
