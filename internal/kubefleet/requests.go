package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// counted gives a server an audit log of the requests of all accounts in a namespace, and of no
// others.
func counted(namespace string) func(env *kubeenv.Env, server string) (kubeenv.ServerOptions, error) {
	return func(env *kubeenv.Env, server string) (o kubeenv.ServerOptions, err error) {
		policy := filepath.Join(env.Dir(), server+"-audit-policy.json")
		text := fmt.Sprintf(`{"apiVersion":"audit.k8s.io/v1","kind":"Policy","omitStages":["RequestReceived"],"rules":[`+
			`{"level":"Metadata","userGroups":["system:serviceaccounts:%s"]},{"level":"None"}]}`, namespace)
		if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
			return o, err
		}
		o.Args = []string{"--audit-policy-file=" + policy, "--audit-log-path=" + auditLog(env, server), "--audit-log-maxsize=4000"}
		return o, nil
	}
}

func auditLog(env *kubeenv.Env, server string) string {
	return filepath.Join(env.Dir(), server+"-audit.log")
}

// requests returns the number of requests to a server in a past interval, in total and by verb
// and resource.
func requests(env *kubeenv.Env, server string, from, to time.Time) (n int, about map[string]int, err error) {
	file, err := os.Open(auditLog(env, server))
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = file.Close() }()
	about = map[string]int{}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return n, about, nil
		}
		if err != nil {
			return 0, nil, err
		}
		var r request
		if err := json.Unmarshal(line, &r); err != nil {
			return 0, nil, fmt.Errorf("the audit log of %s: %w", server, err)
		}
		if r.counts() && !r.Begun.Before(from) && r.Begun.Before(to) {
			n++
			about[r.Verb+" "+r.Object.Resource]++
		}
	}
}

type request struct {
	Verb, Stage string
	Object      struct{ Resource string } `json:"objectRef"`
	Begun       time.Time                 `json:"requestReceivedTimestamp"`
}

// counts reports whether this is the one entry of a request that is counted: a watch has one when
// it begins and one when it ends.
func (r *request) counts() bool {
	if r.Verb == "watch" {
		return r.Stage == "ResponseStarted"
	}
	return r.Stage == "ResponseComplete" || r.Stage == "Panic"
}
