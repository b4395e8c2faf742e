package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// peer is a system that is measured, on servers of its own.
type peer struct {
	// name is the heading of its column.
	name string
	// namespace is where its programs have their accounts, whose requests are counted.
	namespace string
	// install installs the system's objects on the servers and returns its programs without starting
	// them. It writes files in dir.
	install func(ctx context.Context, s *servers, dir string) ([]*exec.Cmd, error)
}

// kubefleet has its agents in a build, with the values of its charts but for these: no webhooks
// and no admission policies of its own, which slipway hub has on, less to log, and no ports.
func kubefleet(build string) *peer {
	k := &kubefleetPeer{build: build}
	return &peer{name: "KubeFleet", namespace: "fleet-system", install: k.install}
}

type kubefleetPeer struct{ build string }

func (k *kubefleetPeer) install(ctx context.Context, s *servers, dir string) ([]*exec.Cmd, error) {
	definitions, err := filepath.Glob(filepath.Join(k.build, "fleet", "config", "crd", "bases", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var ofHub, ofMember []string
	for _, file := range definitions {
		if strings.Contains(file, "appliedworks") {
			ofMember = append(ofMember, "-f", file)
		} else {
			ofHub = append(ofHub, "-f", file)
		}
	}
	if err := kubectl(ctx, s.hub, "", append([]string{"create"}, ofHub...)...); err != nil {
		return nil, err
	}
	hub, err := account(ctx, s.hub, "fleet-system", "hub-agent")
	if err != nil {
		return nil, err
	}
	agent := exec.CommandContext(ctx, filepath.Join(k.build, "hubagent"), "--leader-elect=true", "--enable-webhook=false",
		"--enable-admission-policy-manager=false", "--enable-workload=false", "--metrics-bind-address=0", "--health-probe-bind-address=0", "--v=2",
		"--cluster-unhealthy-threshold=3m0s", "--force-delete-wait-time=15m0s", "--resource-snapshot-creation-minimum-interval=30s", "--resource-changes-collection-duration=15s")
	if agent.Env, err = withKubeconfig(dir, "hub", hub); err != nil {
		return nil, err
	}
	agent.Env = append(agent.Env, "POD_NAMESPACE=fleet-system")
	programs := []*exec.Cmd{agent}
	for i, name := range memberNames() {
		if err := kubectl(ctx, s.members[i], "", append([]string{"create"}, ofMember...)...); err != nil {
			return nil, err
		}
		agent, err := k.memberAgent(ctx, s, i, name, dir)
		if err != nil {
			return nil, err
		}
		programs = append(programs, agent)
	}
	return programs, nil
}

func (k *kubefleetPeer) memberAgent(ctx context.Context, s *servers, i int, name, dir string) (*exec.Cmd, error) {
	// The hub agent gives this account its rights.
	onHub := "fleet-member-agent-" + name
	if err := kubectl(ctx, s.hub, "", "create", "serviceaccount", "-n", "fleet-system", onHub); err != nil {
		return nil, err
	}
	config, err := s.hub.ConfigForAccount(ctx, "fleet-system", onHub)
	if err != nil {
		return nil, err
	}
	token := filepath.Join(dir, name+".token")
	if err := os.WriteFile(token, []byte(config.BearerToken), 0o600); err != nil {
		return nil, err
	}
	onMember, err := account(ctx, s.members[i], "fleet-system", "member-agent")
	if err != nil {
		return nil, err
	}
	agent := exec.CommandContext(ctx, filepath.Join(k.build, "memberagent"), "--leader-elect=true", "--tls-insecure=false", "--v=2",
		"--metrics-bind-address=0", "--health-probe-bind-address=0", "--hub-metrics-bind-address=0", "--hub-health-probe-bind-address=0")
	if agent.Env, err = withKubeconfig(dir, name, onMember); err != nil {
		return nil, err
	}
	// The agent reads its lease's namespace if it runs in a cluster; otherwise it uses kube-system.
	agent.Env = append(agent.Env, "HUB_SERVER_URL="+config.Host, "CONFIG_PATH="+token, "MEMBER_CLUSTER_NAME="+contextPrefix+name,
		"HUB_CERTIFICATE_AUTHORITY="+base64.StdEncoding.EncodeToString(config.CAData))
	return agent, nil
}

// slipway has the command in a file.
func slipway(file string) *peer {
	return &peer{name: "Slipway", namespace: "slipway-system", install: func(ctx context.Context, s *servers, dir string) ([]*exec.Cmd, error) {
		admin := filepath.Join(dir, "admin.kubeconfig")
		if err := os.WriteFile(admin, s.hub.Kubeconfig(), 0o600); err != nil {
			return nil, err
		}
		// Slipway uses the compatibility setting of the KubeFleet version in the comparison, so
		// that both have the same objects.
		if out, err := exec.CommandContext(ctx, file, "hub", "install", "--kubeconfig", admin, "--compatibility", "v0.18").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("hub install: %w: %s", err, out)
		}
		hub, err := s.hub.KubeconfigForAccount(ctx, "slipway-system", "slipway-hub")
		if err != nil {
			return nil, err
		}
		members := filepath.Join(dir, "members")
		if err := os.Mkdir(members, 0o700); err != nil {
			return nil, err
		}
		for i, name := range memberNames() {
			kubeconfig, err := account(ctx, s.members[i], "slipway-system", "slipway-hub")
			if err != nil {
				return nil, err
			}
			if err := os.WriteFile(filepath.Join(members, contextPrefix+name+".kubeconfig"), kubeconfig, 0o600); err != nil {
				return nil, err
			}
		}
		away := strings.ReplaceAll(string(s.members[0].Kubeconfig()), s.members[0].URL(), "https://127.0.0.1:1")
		if err := os.WriteFile(filepath.Join(members, gone+".kubeconfig"), []byte(away), 0o600); err != nil {
			return nil, err
		}
		program := exec.CommandContext(ctx, file, "hub", "--kubeconfig", filepath.Join(dir, "hub.kubeconfig"), "--members", members, "--compatibility", "v0.18", "--listen", "")
		program.Env, err = withKubeconfig(dir, "hub", hub)
		return []*exec.Cmd{program}, err
	}}
}

// account makes a service account that may do everything, and returns a kubeconfig of it.
func account(ctx context.Context, s *kubeenv.Server, namespace, name string) ([]byte, error) {
	err := kubectl(ctx, s, fmt.Sprintf(`
{apiVersion: v1, kind: Namespace, metadata: {name: %[1]s}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: %[2]s, namespace: %[1]s}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[2]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: %[2]s, namespace: %[1]s}]
`, namespace, name), "create", "-f", "-")
	if err != nil {
		return nil, err
	}
	return s.KubeconfigForAccount(ctx, namespace, name)
}

// withKubeconfig writes a kubeconfig and returns the environment of a program that uses it.
func withKubeconfig(dir, name string, kubeconfig []byte) ([]string, error) {
	file := filepath.Join(dir, name+".kubeconfig")
	return append(os.Environ(), "KUBECONFIG="+file), os.WriteFile(file, kubeconfig, 0o600)
}

// kubectl runs it as an administrator of a server.
func kubectl(ctx context.Context, s *kubeenv.Server, input string, args ...string) error {
	program, err := kubeenv.Binary("kubectl")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "kubeconfig-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if _, err := file.Write(s.Kubeconfig()); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, program, append([]string{"--kubeconfig", file.Name()}, args...)...)
	c.Stdin = strings.NewReader(input)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// begin starts programs and writes their output to files in dir. It calls ended for each program
// that ends; wait returns once all programs have ended.
func begin(programs []*exec.Cmd, dir string, ended func(error)) (wait func(), err error) {
	var all sync.WaitGroup
	for i, p := range programs {
		file := filepath.Join(dir, fmt.Sprintf("%s-%d.log", filepath.Base(p.Path), i))
		log, err := os.Create(file)
		if err != nil {
			return all.Wait, err
		}
		p.Stdout, p.Stderr = log, log
		p.Cancel = func() error { return p.Process.Signal(os.Interrupt) }
		p.WaitDelay = 30 * time.Second
		if err := errors.Join(p.Start(), log.Close()); err != nil {
			return all.Wait, fmt.Errorf("%s: %w", p.Path, err)
		}
		all.Go(func() { ended(fmt.Errorf("%s has ended (%w): its log is %s", p.Path, p.Wait(), file)) })
	}
	return all.Wait, nil
}
