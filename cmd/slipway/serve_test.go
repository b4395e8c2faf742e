package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
)

// start runs the command concurrently with the test until its context ends. lines is its output.
func (v *env) start(args ...string) (lines *bufio.Scanner, end func() (code int, errOut string)) {
	v.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	var errOut bytes.Buffer
	code := make(chan int, 1)
	go func() {
		c := run(ctx, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: w, ErrOut: &errOut}, v.connect)
		_ = w.CloseWithError(io.EOF)
		code <- c
	}()
	end = func() (int, string) {
		cancel()
		go func() { _, _ = io.Copy(io.Discard, r) }()
		c := <-code
		code <- c
		return c, errOut.String()
	}
	v.t.Cleanup(func() { end() })
	return bufio.NewScanner(r), end
}

// serve serves the file of the store by the command, and returns its address.
func (v *env) serve(args ...string) (address string, end func() (int, string)) {
	v.t.Helper()
	lines, end := v.start(append([]string{"serve", "--store", v.file}, args...)...)
	if !lines.Scan() {
		_, errOut := end()
		v.t.Fatalf("serve: %s", errOut)
	}
	_, address, _ = strings.Cut(lines.Text(), " served at ")
	return address, end
}

// until scans lines until one contains a word.
func until(t *testing.T, lines *bufio.Scanner, word string) string {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), word) {
			return lines.Text()
		}
	}
	t.Fatalf("no line has %q", word)
	return ""
}

// The case to try: the first terminal follows a run, and the second one approves.
func TestSecondTerminalApprovesAFollowedRun(t *testing.T) {
	v := newEnv(t)
	_, end := v.serve()
	followed, _ := v.start("--store", v.file, "history", "run/shop-2", "--follow")
	until(t, followed, string(stages.ApprovalRequested))
	watched, endWatch := v.start("--store", v.file, "get", "runs", "--watch", "-o", "name")
	until(t, watched, "run/shop-2")
	out := v.shows(cli.ExitDone, "approve shop-2 --as ann --comment fine --yes", "after stage canary, attempt 1", "2 clusters: eu-2, eu-3", "approval/shop-2-after-canary: approve by ann is recorded")
	if strings.Contains(out, "next") {
		t.Errorf("an engine runs on the store: %s", out)
	}
	if line := until(t, followed, string(stages.ApprovalAccepted)); !strings.Contains(line, "ann") {
		t.Errorf("approved: %s", line)
	}
	until(t, followed, string(stages.RunCompleted))
	for followed.Scan() { // it ends with the run
	}
	until(t, watched, "run/shop-2")
	if code, errOut := endWatch(); code != cli.ExitInterrupted || errOut != "" {
		t.Errorf("a watch that is interrupted ends with %d: %s", code, errOut)
	}
	v.shows(cli.ExitDone, "wait shop-2 --timeout 10s", "run/shop-2: Completed")
	if code, errOut := end(); code != cli.ExitDone || errOut != "" {
		t.Errorf("serve that is interrupted ends with %d: %s", code, errOut)
	}
	if _, err := os.Stat(v.file + ".serve"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was announced is left: %v", err)
	}
	v.shows(cli.ExitDone, "get runs", "shop-2", "3/3") // of the file itself
}

// A host's program is reached in the same way.
func TestAHostIsReachedThroughTheFileOfItsStore(t *testing.T) {
	v := newEnv(t)
	v.engine(func(ctx context.Context, e *fleet.Engine) {
		ctx, cancel := context.WithCancel(ctx)
		ready, ended := make(chan string), make(chan error)
		go func() {
			ended <- httpapi.Serve(ctx, e, httpapi.ServeOptions{Store: v.file, Ready: func(a string) { ready <- a }})
		}()
		<-ready
		v.shows(cli.ExitDone, "stop shop-2", "run/shop-2: stop is recorded\n")
		v.until(ctx, e, stages.Stopped)
		v.shows(cli.ExitDone, "describe run shop-2", "State:", "Stopped", "stopped by")
		cancel()
		v.must(<-ended)
	})
}

func TestStaleServeFileIsIgnored(t *testing.T) {
	v := newEnv(t)
	dir := t.TempDir()
	v.must(os.Chmod(dir, 0o700))
	text := fmt.Sprintf(`{"address":"unix:%s/api","pid":1}`, dir)
	v.must(os.WriteFile(v.file+".serve", []byte(text), 0o600))
	v.shows(cli.ExitDone, "get runs", "shop-2")
	v.engine(func(context.Context, *fleet.Engine) {
		v.shows(cli.ExitFailed, "get runs", "in use", "has ended")
	})
}

func TestAServerIsReachedWithAToken(t *testing.T) {
	v := newEnv(t)
	tokens, token := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "token")
	v.must(os.WriteFile(tokens, []byte("s3cret,bob,1001,\"ops,release\"\n"), 0o600))
	v.must(os.WriteFile(token, []byte("s3cret\n"), 0o600))
	address, _ := v.serve("--listen", "localhost:0", "--token-file", tokens)
	for _, tt := range []struct {
		code       int
		args, want string
	}{
		{cli.ExitDone, "get runs --server " + address + " --token-file " + token, "shop-2"},
		{cli.ExitDone, "get runs --store " + v.file + " --token-file " + token, "shop-2"},
		{cli.ExitFailed, "get runs --server " + address, "a token is missing"},
		{cli.ExitFailed, "get runs --server " + address + " --token-file " + tokens, "the token and nothing else"},
		{cli.ExitUsage, "approve shop-2 --as ann --yes --server " + address + " --token-file " + token, "takes the identity from the token"},
		{cli.ExitUsage, "get runs --server " + address + " --store " + v.file, "both set"},
		{cli.ExitUsage, "get runs --server nonsense", "want http://"},
		{cli.ExitUsage, "get runs --as-group ops --store " + v.file, "without --as"},
		{cli.ExitDone, "approve shop-2 --yes --server " + address + " --token-file " + token, "is recorded"},
		{cli.ExitDone, "wait shop-2 --timeout 10s --server " + address + " --token-file " + token, "Completed"},
		{cli.ExitDone, "history run/shop-2 --server " + address + " --token-file " + token, "bob"},
	} {
		code, out, errOut := v.run(strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(out+errOut, tt.want) || strings.Contains(out+errOut, "s3cret") {
			t.Errorf("%s: %d, want %d and %q\n%s%s", tt.args, code, tt.code, tt.want, out, errOut)
		}
	}
}

// certificate creates files with a certificate for localhost and its key, and returns a pool that
// trusts it.
func certificate(t *testing.T) (cert, key string, trusted *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trusted = x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed}))
	return cert, key, trusted
}

func TestAServerIsReachedByTLS(t *testing.T) {
	v := newEnv(t)
	tokens, token := filepath.Join(t.TempDir(), "tokens"), filepath.Join(t.TempDir(), "token")
	v.must(os.WriteFile(tokens, []byte("s3cret,bob,1001\n"), 0o600))
	v.must(os.WriteFile(token, []byte("s3cret\n"), 0o600))
	cert, key, trusted := certificate(t)
	address, end := v.serve("--listen", "127.0.0.1:0", "--token-file", tokens, "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(address, "https://127.0.0.1:") {
		t.Errorf("served at %s", address)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}
	defer transport.CloseIdleConnections()
	client, err := httpapi.NewClient(address, httpapi.ClientOptions{Token: "s3cret", Transport: transport})
	v.must(err)
	if runs, err := client.Runs(t.Context()); err != nil || len(runs) != 2 {
		t.Errorf("runs: %v, %v", runs, err)
	}
	for _, args := range []string{"--store " + v.file, "--server " + address} { // the file names the same address
		code, out, errOut := v.run(strings.Fields("get runs --token-file " + token + " " + args)...)
		if code != cli.ExitFailed || !strings.Contains(errOut, "certificate") {
			t.Errorf("%s: a certificate that the system does not trust: %d\n%s%s", args, code, out, errOut)
		}
	}
	if code, errOut := end(); code != cli.ExitDone || strings.Contains(errOut, "in clear") {
		t.Errorf("%d, %s", code, errOut)
	}
	v.shows(cli.ExitFailed, "serve --listen 127.0.0.1:0 --token-file "+tokens+" --tls-cert "+cert, "--tls-cert and --tls-key")
	v.shows(cli.ExitFailed, "serve --listen 127.0.0.1:0 --token-file "+tokens+" --tls-cert "+cert+" --tls-key "+cert, "--tls-cert and --tls-key")
}

// serve answers probes and has the metrics of its engine at another address than its API.
func TestServeHasHealthAndMetrics(t *testing.T) {
	v := newEnv(t)
	lines, end := v.start("serve", "--store", v.file, "--health-listen", "127.0.0.1:0")
	_, base, _ := strings.Cut(until(t, lines, "health and metrics: "), "health and metrics: ")
	get := func(path string) (int, string) {
		t.Helper()
		resp, err := http.Get(base + path)
		v.must(err)
		defer func() { v.must(resp.Body.Close()) }()
		text, err := io.ReadAll(resp.Body)
		v.must(err)
		return resp.StatusCode, string(text)
	}
	for _, path := range []string{"healthz", "readyz"} {
		if code, text := get(path); code != http.StatusOK || text != "ok\n" {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	if code, text := get("metrics"); code != http.StatusOK || !strings.Contains(text, `slipway_`) || !strings.Contains(text, `queue`) {
		t.Errorf("metrics: %d %s", code, text)
	}
	if code, _ := get("v1/runs"); code != http.StatusNotFound {
		t.Errorf("the API is there: %d", code)
	}
	if code, errOut := end(); code != cli.ExitDone || errOut != "" {
		t.Errorf("%d, %s", code, errOut)
	}
	v.shows(cli.ExitFailed, "serve --health-listen nonsense", "--health-listen: ")
}

// If serve has a policy, a token has the rights of its identity. A change of the file takes effect
// without a restart. A refusal names the verb and the object, and is in the log of the server.
func TestAPolicyLimitsTokens(t *testing.T) {
	v := newEnv(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		v.must(os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	tokens := file("tokens", "s3cret,bob,1001\n0ther,eve,1002,ops\nth1rd,deb,1003\n")
	bob, eve, deb := file("bob", "s3cret\n"), file("eve", "0ther\n"), file("deb", "th1rd\n")
	v.shows(cli.ExitDone, "apply -f "+file("strategy.yaml", strategyFile), "strategy/careful: created")
	const viewer = "- {role: viewer, users: [bob], placements: [shop]}\n"
	policy := file("policy.yaml", "rules:\n"+viewer+"- {role: operator, users: [deb], placements: [shop]}\n")
	_, end := v.serve("--listen", "127.0.0.1:0", "--token-file", tokens, "--policy", policy)
	at := func(token string) string { return " --token-file " + token }
	v.shows(cli.ExitDone, "get runs"+at(bob), "shop-2")
	v.shows(cli.ExitFailed, "abort shop-2 --yes"+at(bob), "bob may not operate run shop-2: the policy gives no such right")
	v.shows(cli.ExitFailed, "apply -f "+filepath.Join(dir, "strategy.yaml")+at(deb), "deb may not get strategy careful")
	again := file("run.yaml", strings.NewReplacer("name: shop-2", "name: shop-9").Replace(runOf))
	for _, verb := range []string{"diff", "delete --yes"} { // the run may exist
		v.shows(cli.ExitFailed, verb+" -f "+again+at(deb), "deb may not get run shop-9: the policy gives no such right")
	}
	v.shows(cli.ExitDone, "apply -f "+again+at(deb), "run/shop-9: created")
	v.shows(cli.ExitFailed, "explain shop-2"+at(eve), "eve may not get run shop-2: the policy gives no such right")
	v.shows(cli.ExitFailed, "explain none"+at(eve), "eve may not get run none: the policy gives no such right")
	file("policy.yaml", "rules:\n"+viewer+"- {role: operator, groups: [ops], placements: [\"*\"]}\n")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if code, _, _ := v.run(strings.Fields("explain shop-2 --store " + v.file + at(eve))...); code == cli.ExitDone {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the policy is not read again")
		}
	}
	v.shows(cli.ExitDone, "abort shop-2 --yes"+at(eve), "")
	if code, errOut := end(); code != cli.ExitDone || !strings.Contains(errOut, "a request is forbidden") || !strings.Contains(errOut, "object=\"run shop-2\"") {
		t.Errorf("%d, %s", code, errOut)
	}
	v.shows(cli.ExitUsage, "serve --policy "+policy, "--policy: leave them out without --listen ADDRESS")
	v.shows(cli.ExitFailed, "serve --listen 127.0.0.1:0 --token-file "+tokens+" --policy "+bob, "--policy: "+bob+": ")
}

func TestServeReadsItsLimitsFromFlags(t *testing.T) {
	v := newEnv(t)
	tokens := filepath.Join(t.TempDir(), "tokens")
	v.must(os.WriteFile(tokens, []byte("s3cret\n"), 0o600))
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	v.must(os.WriteFile(rules, []byte("- {kind: Pod, ready: slef.ok}\n"), 0o600))
	open := filepath.Join(t.TempDir(), "open")
	v.must(errors.Join(os.WriteFile(open, []byte("s3cret,bob,1001\n"), 0o600), os.Chmod(open, 0o644)))
	for _, tt := range []struct {
		code       int
		args, want string
	}{
		{cli.ExitUsage, "serve", "--store is not set"},
		{cli.ExitUsage, "serve --listen localhost:0 --store " + v.file, "--token-file is not set"},
		{cli.ExitUsage, "serve --token-file x --store " + v.file, "--listen ADDRESS"},
		{cli.ExitUsage, "serve --tls-cert x --store " + v.file, "--listen ADDRESS"},
		{cli.ExitFailed, "serve --listen localhost:0 --token-file " + tokens + " --store " + v.file, "line 1"},
		{cli.ExitFailed, "serve --listen localhost:0 --token-file " + tokens + "x --store " + v.file, "no such file"},
		{cli.ExitFailed, "serve --listen localhost:0 --token-file " + open + " --store " + v.file, open + " has mode 0644, so other users can access the token: its mode must be 0600"},
		{cli.ExitFailed, "serve --prometheus http://localhost:9090 --prometheus-token-file " + open + " --store " + v.file, open + " has mode 0644"},
		{cli.ExitFailed, "get runs --server http://localhost:1 --token-file " + open, open + " has mode 0644"},
		{cli.ExitFailed, "serve --health-rules " + rules + " --store " + v.file, "--health-rules: " + rules + `: celhealth: rules[0].ready: Invalid value: "slef.ok": 1:1: `},
		{cli.ExitUsage, "serve --prometheus-token-file x --store " + v.file, "--prometheus-token-file is set without --prometheus"},
	} {
		if code, out, errOut := v.run(strings.Fields(tt.args)...); code != tt.code || !strings.Contains(errOut, tt.want) || strings.Contains(errOut, "s3cret") {
			t.Errorf("%s: %d, want %d and %q\n%s%s", tt.args, code, tt.code, tt.want, out, errOut)
		}
	}
}

// A check needs the provider that --prometheus names, and evaluates its answers.
func TestServeMeasuresChecks(t *testing.T) {
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.FormValue("query")
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`)
	}))
	defer server.Close()
	v := newEnv(t)
	v.shows(cli.ExitDone, "abort shop-2 --yes")
	strategy := filepath.Join(t.TempDir(), "strategy.yaml")
	v.must(os.WriteFile(strategy, []byte("stages: [{name: all, labelSelector: {}, clusterChecks: [{name: errors, query: 'errors{c=\"{{cluster}}\"}', max: 0, interval: 1s}]}]\n"), 0o600))
	create := "create run shop-3 --placement shop --index 1 --strategy " + strategy
	_, end := v.serve()
	v.shows(cli.ExitFailed, create, "no metric provider is configured")
	end()
	v.serve("--prometheus", server.URL)
	v.shows(cli.ExitDone, create)
	v.shows(cli.ExitDone, "wait shop-3 --timeout 20s", "run/shop-3: Completed")
	select {
	case query := <-asked:
		if !strings.HasPrefix(query, `errors{c="eu-`) {
			t.Errorf("it asked %s", query)
		}
	default:
		t.Error("nothing was measured")
	}
}

// The exit codes of wait are for CI.
func TestExitCodesOfWait(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "wait shop-1", "run/shop-1: Completed")
	v.shows(cli.ExitFailed, "wait shop-2", "no engine runs on the store")
	v.shows(cli.ExitFailed, "wait other", "other")
	v.serve()
	v.shows(cli.ExitTimeout, "wait shop-2 --timeout 50ms", "--timeout has passed")
	v.shows(cli.ExitDone, "reject run/shop-2 --as ann --yes")
	v.shows(cli.ExitUnsuccessful, "wait shop-2 --timeout 10s", "run/shop-2: Failed")
	v.shows(cli.ExitUsage, "wait shop-2 --timeout -1s", "not negative")
}

func TestFollowWithoutAnEngineFails(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitFailed, "get runs --watch", "shop-2", "no engine runs on the store")
	v.shows(cli.ExitFailed, "history run/shop-2 --follow", "ApprovalRequested", "no engine runs on the store")
}

func TestFollowPrintsOneLinePerEvent(t *testing.T) {
	v := newEnv(t)
	v.serve()
	lines, _ := v.start("--store", v.file, "history", "run/shop-1", "--follow", "-o", "json")
	n := 0
	for ; lines.Scan(); n++ {
		var ev stages.Event
		v.must(json.Unmarshal(lines.Bytes(), &ev))
		if ev.Run != "shop-1" {
			t.Errorf("event %d: %+v", n, ev)
		}
	}
	if n < 5 {
		t.Errorf("%d lines", n)
	}
}

func TestARequestIsShownBeforeItIsDecided(t *testing.T) {
	v := newEnv(t)
	for _, args := range []string{"approve shop-2 shop-2-after-canary --as ann --yes", "describe approval shop-2-after-canary"} {
		out := v.shows(cli.ExitDone, args, "Placement:", "after stage canary, attempt 1", "clusters updated: eu-1", "2 clusters: eu-2, eu-3", "Missing:", "Plan:")
		if strings.Contains(args, "approve") && strings.Contains(out, "Plan:") {
			t.Errorf("it is shown on the other stream: %s", out)
		}
	}
	v.shows(cli.ExitFailed, "approve shop-1 --as ann --yes", "run shop-1 has no open request")
	v.shows(cli.ExitFailed, "approve shop-2 other --as ann --yes", "run shop-2 has no open request other")
}

func TestDescribeShowsAllOfAnObject(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "describe run shop-2", "Name:", "Plan:", "Stages:", "canary", "after Approval Pending", "Waits for:", "shop-2-after-canary", "Events:", "ApprovalRequested")
	v.shows(cli.ExitDone, "describe run run/shop-2 -o json", `"plan"`)
	v.shows(cli.ExitDone, "describe placement shop", "Snapshots:", "Runs:", "Clusters:", "shop-1", "eu-1")
	v.shows(cli.ExitDone, "describe cluster eu-1", "Placement:", "shop-2")
	v.shows(cli.ExitDone, "describe cluster eu-2 --run shop-2", "Stage:", "rest", "NotStarted")
	v.shows(cli.ExitDone, "set cap all 7")
	v.shows(cli.ExitDone, "describe cap all", "Limit:", "7")
	v.shows(cli.ExitDone, "describe lease shop-2", "Engine:")
	v.shows(cli.ExitFailed, "describe run other", "other")
	v.shows(cli.ExitFailed, "describe placement other", "placement other")
	v.shows(cli.ExitFailed, "describe approval other", "approval other")
	v.shows(cli.ExitUsage, "describe nonsense x", "there is no kind")
}

func TestGetClustersOfPlacementsAndRuns(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "get clusters", "eu-1", "eu-3", "shop")
	v.shows(cli.ExitDone, "get clusters eu-1 --run shop-2", "canary", "Completed")
	v.shows(cli.ExitFailed, "get clusters --placement other", "placement other")
	v.shows(cli.ExitFailed, "get clusters other", "cluster other")
	v.shows(cli.ExitDone, "leases", "shop-2")
}

func TestAForecastIsOfAnExistingOrAnImaginaryRun(t *testing.T) {
	v := newEnv(t)
	file := filepath.Join(t.TempDir(), "strategy.yaml")
	v.must(os.WriteFile(file, []byte("stages:\n- {name: all, labelSelector: {}}\n"), 0o600))
	v.shows(cli.ExitDone, "forecast shop --strategy "+file, "STATE THEN", "all", "the run ends", "as Completed")
	if out := v.shows(cli.ExitDone, "forecast shop-2", "canary", "rest", "the run ends as Completed, about ", " after the approval"); strings.Contains(out, "the run ends 20") {
		t.Errorf("a run without its approval ends at a time:\n%s", out)
	}
	v.shows(cli.ExitDone, "forecast shop-2 --approve-after -1s", "does not end", "shop-2-after-canary")
	v.shows(cli.ExitDone, "forecast shop-2 -o json", `"ends"`, `"stages"`)
	v.shows(cli.ExitDone, "forecast shop -o svg --strategy "+file, "<svg")
	v.shows(cli.ExitDone, "forecast shop-2 -o text", "canary")
	soon, late := v.shows(cli.ExitDone, "forecast shop-2 -o text"), v.shows(cli.ExitDone, "forecast shop-2 -o text --approve-after 720h")
	if day := time.Now().UTC().Add(720 * time.Hour).Format(time.DateOnly); strings.Contains(soon, day) || !strings.Contains(late, day) {
		t.Errorf("the picture is not of what is assumed:\n%s%s", soon, late)
	}
	v.shows(cli.ExitFailed, "forecast other", "other")
	v.shows(cli.ExitUsage, "forecast shop-2 -o nonsense", "want table")
}

func TestATimelineIsDrawn(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "timeline shop-1", "canary", "eu-1")
	v.shows(cli.ExitDone, "timeline shop-2 -o svg", "<svg", "canary")
	v.shows(cli.ExitUsage, "timeline shop-1 -o json", "want text, svg or table")
	v.shows(cli.ExitFailed, "timeline other", "other")
}

func TestNamesAreCompleted(t *testing.T) {
	v := newEnv(t)
	for args, want := range map[string]string{
		"approve ":            "shop-1\nshop-2\n",
		"approve shop-2 ":     "shop-2-after-canary\n",
		"explain shop-2 eu-":  "eu-1\neu-2\neu-3\n",
		"preview ":            "shop\n",
		"get ":                "placements\nstrategies\nruns\nclusters\napprovals\nsnapshots\ncaps\nleases\n",
		"describe run shop-2": "shop-2\n",
		"delete run shop-1":   "shop-1\n",
		"create run shop":     "",
		"wait shop-1 ":        "",
	} {
		words := strings.Split(args, " ")
		code, out, _ := v.run(append([]string{"__complete", "--store", v.file}, words...)...)
		if got, _, _ := strings.Cut(out, ":"); code != cli.ExitDone || got != want {
			t.Errorf("%q: %d %q, want %q", args, code, out, want)
		}
	}
	if code, out, _ := v.run("completion", "bash"); code != cli.ExitDone || !strings.Contains(out, "slipway") {
		t.Errorf("completion: %d %.80s", code, out)
	}
}

// The exit codes are in one table of the documentation.
func TestTheDocumentationHasTheExitCodes(t *testing.T) {
	text, err := os.ReadFile("../../docs/command.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{cli.ExitDone, cli.ExitFailed, cli.ExitUsage, cli.ExitDiffers, cli.ExitUnsuccessful, cli.ExitTimeout, cli.ExitInterrupted} {
		if !strings.Contains(string(text), fmt.Sprintf("\n| %d |", want)) {
			t.Errorf("exit code %d is not in the table", want)
		}
	}
}
