package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
)

const seedCopies = "../../../../formats/kubefleet/testdata/tutorial"

// filesIn returns a directory with copies of the tutorial's files, and with the given files in
// place of the originals.
func filesIn(t *testing.T, other map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("tutorial")); err != nil {
		t.Fatal(err)
	}
	for name, text := range other {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func tutorialDocuments(t *testing.T) kubefleet.Documents {
	t.Helper()
	docs, err := documents("")
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

func TestTheFilesAreTheTutorials(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("tutorial/*.yaml")
	if err != nil || len(names) != 6 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(seedCopies, filepath.Base(name)))
		if diff := cmp.Diff(string(want), string(got)); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestDirReplacesTheBuiltInFiles(t *testing.T) {
	t.Parallel()
	extra := "apiVersion: cluster.kubernetes-fleet.io/v1beta1\nkind: MemberCluster\nmetadata: {name: member0, labels: {environment: staging}}\n" +
		"spec: {identity: {kind: ServiceAccount, name: member0, namespace: fleet-system}}\n"
	p := playWith(t, "", "-o=json", "--dir", filesIn(t, map[string]string{"more.yml": extra, "README": "not: read"}))
	p.want(t, cli.ExitDone, "")
	if n := strings.Count(p.out, `"type":"Member"`); n != 8 {
		t.Errorf("%d members in two runs of four", n)
	}
}

func TestFilesThatAreWrong(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none")
	for name, c := range map[string]struct{ dir, want string }{
		"missing": {missing, "--dir " + missing},
		"empty":   {t.TempDir(), "no file ends in .yaml, .yml or .json\n"},
		"every problem with its line": {
			filesIn(t, map[string]string{"run.yaml": "apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateRun\nmetadata: {name: x}\nspec: {}\n", "workload.yaml": "a: [\n"}),
			"run.yaml:4: ClusterStagedUpdateRun/x: spec.placementName: is required\nrun.yaml:4:",
		},
		"no ConfigMap": {
			filesIn(t, map[string]string{"workload.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: test-namespace}\n"}),
			"there is no ConfigMap",
		},
		"twice": {
			filesIn(t, map[string]string{"workload-2.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: test-namespace}\n"}),
			"is there already",
		},
		"an edit that changes nothing": {
			filesIn(t, map[string]string{"workload.yaml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: test-namespace}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: test-cm, namespace: test-namespace}\ndata: {key: value2}\n"}),
			"example-placement-1-snapshot does not exist",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := playWith(t, "", "--dir", c.dir)
			p.want(t, cli.ExitFailed, c.want)
		})
	}
}

func TestShortenedWaitsAreReported(t *testing.T) {
	t.Parallel()
	strategies := func() []stages.Strategy {
		return []stages.Strategy{{Name: "s", Stages: []stages.Stage{{
			Name: "a", Before: []stages.Task{{Type: stages.Approval}}, After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}},
		}}}}
	}
	var out strings.Builder
	show := &printer{Options: &cli.Options{IOStreams: genericiooptions.IOStreams{Out: &out}, Output: "text"}}
	kept := strategies()
	if (&flags{}).shortenWaits(kept, show); out.Len() > 0 || !cmp.Equal(kept, strategies()) {
		t.Errorf("--wait 0 changed something: %q, %+v", out.String(), kept)
	}
	short := strategies()
	(&flags{wait: 3 * time.Second}).shortenWaits(short, show)
	if want := "# s, stage a: waits 3s, the file says 1m0s (see --wait)\n"; show.err != nil || out.String() != want {
		t.Errorf("%v, %q, want %q", show.err, out.String(), want)
	}
	if w := short[0].Stages[0].After[0].Wait.Duration; w != 3*time.Second {
		t.Errorf("waits %v", w)
	}
}
