package target_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
)

// configured returns the configuration of an engine by flags.
func configured(t *testing.T, args ...string) (cfg fleet.Config, err error) {
	t.Helper()
	var m target.Measures
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	m.AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return cfg, m.Configure(&cfg)
}

func TestHealthRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	for _, tt := range []struct{ text, want string }{
		{"- {kind: Rollout, group: argoproj.io, ready: self.status.phase == 'Healthy'}", ""},
		{"", ""},
		{"- {kind: Pod, ready: 'true'}\n- {kind: Node, ready: \"true &&\\n slef.ok\"}", `rules[1].ready: Invalid value: "true &&\n slef.ok": 2:2: undeclared reference to 'slef'`},
		{"- {kind: Pod}", "rules[0].ready: Required"},
		{"- {kind: Pod, raedy: 'true'}", `unknown field "raedy"`},
		{"kind: Pod", "cannot unmarshal object"},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := configured(t, "--health-rules", file)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "--health-rules: "+file+": ") || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %s", tt.text, err, tt.want)
		}
	}
	if _, err := configured(t, "--health-rules", file+"x"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestHealthRulesOfTheFlagReachTheEngine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte("- {group: argoproj.io, kind: Rollout, ready: self.status.phase == 'Healthy', message: self.status.phase}"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := configured(t, "--health-rules", file)
	if err != nil {
		t.Fatal(err)
	}
	rollout := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": map[string]any{"name": "shop"}, "status": map[string]any{"phase": "Paused"},
	}}
	if h, err := cfg.Prober.Probe(t.Context(), rollout); err != nil || h.Healthy || h.Message != "Paused" {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestPrometheusIsTheProviderOfMeasurements(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := "0"
		if r.Header.Get("Authorization") == "Bearer s3cret" {
			value = "5"
		}
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"`+value+`"]}}`)
	}))
	defer server.Close()
	cfg, err := configured(t, "--prometheus", server.URL, "--prometheus-token-file", token)
	if err != nil {
		t.Fatal(err)
	}
	got, err := cfg.Metrics["prometheus"].Measure(t.Context(), backend.MetricQuery{Text: "up", Window: time.Minute})
	if err != nil || len(got) != 1 || got[0].Value != 5 {
		t.Errorf("%+v, %v", got, err)
	}
	if cfg, err := configured(t); err != nil || cfg.Metrics != nil || cfg.Prober == nil {
		t.Errorf("without flags: %v, %v", cfg.Metrics, err)
	}
	for want, args := range map[string][]string{
		"--prometheus: ": {"--prometheus", "ftp://x"},
		"--prometheus-token-file is set without --prometheus": {"--prometheus-token-file", token},
	} {
		if _, err := configured(t, args...); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
