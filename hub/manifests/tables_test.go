package manifests_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// ages matches the age of an object in a table, with the space up to the next column.
var ages = regexp.MustCompile(`\b\d+(s|m\d*s?)( +|$)`)

// kubectl runs a command against a server and returns its output.
func kubectl(t *testing.T, s *kubeenv.Server, stdin string, args ...string) string {
	t.Helper()
	program, err := kubeenv.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(config, s.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig", config, "--cache-dir", t.TempDir()}, args...)...)
	c.Stdin = strings.NewReader(stdin)
	var out, errors bytes.Buffer
	c.Stdout, c.Stderr = &out, &errors
	if err := c.Run(); err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, errors.String())
	}
	return out.String() + errors.String()
}

// TestKubectlPrintsTheColumnsOfTheTutorial prints every kind by its short name, and with -o wide.
func TestKubectlPrintsTheColumnsOfTheTutorial(t *testing.T) {
	s := olderServer(t) // no other test creates objects of these kinds there
	objects, err := os.ReadFile("testdata/tables.yaml")
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, s, string(objects), "create", "-f", "-")
	for _, document := range strings.SplitAfter(string(objects), "\n---\n") {
		if strings.Contains(document, "\nstatus:") {
			kubectl(t, s, strings.TrimSuffix(document, "---\n"), "apply", "--server-side", "--subresource=status", "-f", "-")
		}
	}
	var out strings.Builder
	for _, name := range []string{"crp", "crs", "csps", "csus", "csur", "careq", "cro", "cros", "clusterresourceenvelopes", "memberclusters"} {
		show(t, s, &out, "get", name)
		show(t, s, &out, "get", name, "-o", "wide")
	}
	for _, name := range []string{"rp", "rss", "sps", "sus", "sur", "areq", "ro", "ros", "resourceenvelopes"} {
		show(t, s, &out, "get", name, "-n", "default")
	}
	show(t, s, &out, "get", "clusterresourcesnapshots", "--show-labels")
	show(t, s, &out, "api-resources", "--categories=fleet", "--no-headers", "-o", "name")
	golden(t, "testdata/tables.txt", out.String())
}

// show adds a command and its output, without ages.
func show(t *testing.T, s *kubeenv.Server, out *strings.Builder, args ...string) {
	t.Helper()
	out.WriteString("$ kubectl " + strings.Join(args, " ") + "\n")
	for line := range strings.Lines(kubectl(t, s, "", args...)) {
		line = ages.ReplaceAllStringFunc(strings.TrimRight(line, " \n"), func(age string) string {
			return fmt.Sprintf("%-*s", len(age), "AGE")
		})
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	out.WriteString("\n")
}

// TestTheTutorialsHeadersAreInTheTables compares the golden file with the headers in the tutorial.
func TestTheTutorialsHeadersAreInTheTables(t *testing.T) {
	text, err := os.ReadFile("testdata/tables.txt")
	if err != nil {
		t.Fatal(err)
	}
	for command, line := range map[string]string{
		"crp":                                    "NAME GEN SCHEDULED SCHEDULED-GEN AVAILABLE AVAILABLE-GEN AGE",
		"crs":                                    "NAME GEN AGE",
		"clusterresourcesnapshots --show-labels": "NAME GEN AGE LABELS",
		"csur":                                   "NAME PLACEMENT RESOURCE-SNAPSHOT-INDEX POLICY-SNAPSHOT-INDEX INITIALIZED SUCCEEDED AGE",
		"careq":                                  "NAME UPDATE-RUN STAGE APPROVED APPROVALACCEPTED AGE",
	} {
		_, after, _ := strings.Cut(string(text), "$ kubectl get "+command+"\n")
		header, _, _ := strings.Cut(after, "\n")
		if got := strings.Join(strings.Fields(header), " "); got != line {
			t.Errorf("kubectl get %s prints %q, want %q", command, got, line)
		}
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
}
