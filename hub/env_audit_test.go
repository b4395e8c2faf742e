package hub_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// auditPolicy makes a server log all changes: on the hub with their authors only, elsewhere with
// their content.
const auditPolicy = `{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"omitManagedFields":true,"rules":[
{"level":"None","users":["system:apiserver","system:kube-controller-manager"]},
{"level":%q,"verbs":["create","update","patch","delete","deletecollection"]},{"level":"None"}]}`

func auditArgs(env *kubeenv.Env, name string) ([]string, error) {
	level := "RequestResponse"
	if strings.HasPrefix(name, "hub") {
		level = "Metadata"
	}
	policy := filepath.Join(env.Dir(), name+"-audit-policy.json")
	err := os.WriteFile(policy, fmt.Appendf(nil, auditPolicy, level), 0o600)
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + auditFile(env, name), "--audit-log-maxsize=1000"}, err
}

func auditFile(env *kubeenv.Env, name string) string {
	return filepath.Join(env.Dir(), name+"-audit.log")
}

// audit reads the audit log of a server since the test began. It knows every write that reached the
// server, from any process.
type audit struct {
	t    *testing.T
	file string
	from int64
}

func newAudit(t *testing.T, env *kubeenv.Env, server string) *audit {
	t.Helper()
	a := &audit{t: t, file: auditFile(env, server)}
	if info, err := os.Stat(a.file); err == nil {
		a.from = info.Size()
	}
	return a
}

// write is a request to change an object, with its outcome.
type write struct {
	// Agent is the sender: the name of a hub.
	Agent string `json:"userAgent"`
	Verb  string `json:"verb"`
	URI   string `json:"requestURI"`
	// Object is the target of the request.
	Object struct {
		Resource, Namespace, Name, Subresource string
	} `json:"objectRef"`
	Answer struct {
		Code    int
		Message string
	} `json:"responseStatus"`
	Body  json.RawMessage `json:"requestObject"`
	Live  json.RawMessage `json:"responseObject"`
	Begun time.Time       `json:"requestReceivedTimestamp"`
	Ended time.Time       `json:"stageTimestamp"`
}

// done reports whether something was changed.
func (w *write) done() bool {
	return w.Answer.Code >= 200 && w.Answer.Code < 300 && !strings.Contains(w.URI, "dryRun=All")
}

// live returns the object after the write.
func (w *write) live(t *testing.T) live {
	t.Helper()
	var obj struct {
		Metadata struct{ ResourceVersion string }
		Data     map[string]string
	}
	if err := json.Unmarshal(w.Live, &obj); err != nil {
		t.Fatalf("%s: %v", w, err)
	}
	return live{obj.Metadata.ResourceVersion, obj.Data}
}

// sent returns the data of the object that was sent, because the answers to some writes have only
// metadata.
func (w *write) sent(t *testing.T) map[string]string {
	t.Helper()
	var obj struct{ Data map[string]string }
	if err := json.Unmarshal(w.Body, &obj); err != nil {
		t.Fatalf("%s: %v", w, err)
	}
	return obj.Data
}

func (w *write) String() string {
	return fmt.Sprintf("%s %s %s %s/%s/%s: %d", w.Begun.Format("15:04:05.000"), w.Agent, w.Verb, w.Object.Resource, w.Object.Namespace, w.Object.Name, w.Answer.Code)
}

// writes returns the writes since the test began to the objects of a resource in a namespace, in
// the order of their ends. Empty arguments match everything.
func (a *audit) writes(resource, namespace string) (out []write) {
	a.t.Helper()
	file, err := os.Open(a.file)
	if err != nil {
		a.t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Seek(a.from, io.SeekStart); err != nil {
		a.t.Fatal(err)
	}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return out
		}
		var w write
		if err := json.Unmarshal(line, &w); err != nil {
			continue // a line that a killed server did not finish
		}
		if (resource == "" || w.Object.Resource == resource) && (namespace == "" || w.Object.Namespace == namespace) {
			out = append(out, w)
		}
	}
}
