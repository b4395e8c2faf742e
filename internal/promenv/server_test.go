package promenv_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/promenv"
)

func TestAServerScrapesAnExporter(t *testing.T) {
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "# TYPE answer gauge\nanswer 42\n")
	}))
	defer exporter.Close()
	server := promenv.ForTest(t, exporter.URL)
	deadline, tick := time.After(30*time.Second), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := http.Get(server.URL + "/api/v1/query?query=answer")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.Body.Close() != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), `"42"`) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("the exporter was not scraped: %s", b)
		}
	}
}

func TestAServerThatIsMissingIsNamed(t *testing.T) {
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	t.Chdir(t.TempDir())
	said := &fatal{TB: t}
	func() {
		defer func() { _ = recover() }()
		promenv.ForTest(said)
	}()
	if !strings.Contains(said.text, "no program prometheus") || !strings.Contains(said.text, "make kube") {
		t.Errorf("it said %q", said.text)
	}
}

// fatal is a test that keeps why it failed.
type fatal struct {
	testing.TB
	text string
}

func (f *fatal) Fatal(args ...any) {
	f.text = fmt.Sprint(args...)
	panic(f)
}
