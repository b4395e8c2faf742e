package member_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/member"
)

// canary is in every kubeconfig of the table, in the place of a secret.
const canary = "canary-5f3a"

// kubeconfigWith returns a kubeconfig with these lines for its cluster and its user.
func kubeconfigWith(cluster, user string) []byte {
	indent := func(lines string) string {
		return "    " + strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n    ")
	}
	return []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {cluster: c, user: u}\n" +
		"clusters:\n- name: c\n  cluster:\n" + indent(cluster) + "\nusers:\n- name: u\n  user:\n" + indent(user) + "\n")
}

const (
	secure = "server: https://member.invalid:6443"
	token  = "token: " + canary
)

// TestT12ForbiddenKubeconfigFieldsAreRefused is about kubeconfigs from others.
func TestT12ForbiddenKubeconfigFieldsAreRefused(t *testing.T) {
	pem := base64.StdEncoding.EncodeToString([]byte(canary))
	exec := "exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/" + canary + ", interactiveMode: Never}"
	provider := "auth-provider: {name: oidc, config: {id-token: " + canary + "}}"
	tests := map[string]struct {
		cluster, user string
		// with permits the kubeconfig; want are the fields in the error, or none if it is permitted.
		with member.Allow
		want []string
	}{
		"token":                        {secure, token, member.Allow{}, nil},
		"basic":                        {secure, "username: a\npassword: " + canary, member.Allow{}, nil},
		"path in the address":          {"server: https://proxy.invalid/k8s/clusters/c-1", token, member.Allow{}, nil},
		"server name":                  {secure + "\ntls-server-name: other.invalid", token, member.Allow{}, nil},
		"no compression":               {secure + "\ndisable-compression: true", token, member.Allow{}, nil},
		"IPv6":                         {"server: https://[::1]:6443", token, member.Allow{}, nil},
		"exec":                         {secure, exec, member.Allow{}, []string{"user.exec"}},
		"exec beside a token":          {secure, exec + "\n" + token, member.Allow{}, []string{"user.exec"}},
		"exec allowed":                 {secure, exec, member.Allow{Programs: true}, nil},
		"exec with other rights":       {secure, exec, member.Allow{Files: true, Proxy: true, Impersonation: true, Insecure: true}, []string{"user.exec"}},
		"auth-provider":                {secure, provider, member.Allow{}, []string{"user.auth-provider"}},
		"auth-provider beside a token": {secure, provider + "\n" + token, member.Allow{}, []string{"user.auth-provider"}},
		"tokenFile":                    {secure, "tokenFile: /etc/" + canary, member.Allow{}, []string{"user.tokenFile"}},
		"tokenFile beside a token":     {secure, token + "\ntokenFile: /etc/" + canary, member.Allow{}, []string{"user.tokenFile"}},
		"tokenFile relative":           {secure, "tokenFile: ../" + canary, member.Allow{}, []string{"user.tokenFile"}},
		"client-certificate":           {secure, "client-certificate: /etc/" + canary + "\nclient-key-data: " + pem, member.Allow{}, []string{"user.client-certificate"}},
		"client-key":                   {secure, "client-certificate-data: " + pem + "\nclient-key: /etc/" + canary, member.Allow{}, []string{"user.client-key"}},
		"both files":                   {secure, "client-certificate: /a\nclient-key: /b", member.Allow{}, []string{"user.client-certificate", "user.client-key"}},
		"certificate-authority":        {secure + "\ncertificate-authority: /etc/" + canary, token, member.Allow{}, []string{"cluster.certificate-authority"}},
		"authority file beside data":   {secure + "\ncertificate-authority: /etc/" + canary + "\ncertificate-authority-data: " + pem, token, member.Allow{}, []string{"cluster.certificate-authority"}},
		"proxy-url":                    {secure + "\nproxy-url: http://" + canary + ".invalid", token, member.Allow{}, []string{"cluster.proxy-url"}},
		"proxy-url with a password":    {secure + "\nproxy-url: http://u:" + canary + "@proxy.invalid", token, member.Allow{}, []string{"cluster.proxy-url"}},
		"proxy-url allowed":            {secure + "\nproxy-url: http://proxy.invalid", token, member.Allow{Proxy: true}, nil},
		"socks":                        {secure + "\nproxy-url: socks5://proxy.invalid", token, member.Allow{}, []string{"cluster.proxy-url"}},
		"insecure":                     {secure + "\ninsecure-skip-tls-verify: true", token, member.Allow{}, []string{"cluster.insecure-skip-tls-verify"}},
		"insecure among trusted":       {secure + "\ninsecure-skip-tls-verify: true", token, member.Trusted(), []string{"cluster.insecure-skip-tls-verify"}},
		"insecure allowed":             {secure + "\ninsecure-skip-tls-verify: true", token, member.Allow{Insecure: true}, nil},
		"http":                         {"server: http://member.invalid", token, member.Allow{}, []string{"cluster.server"}},
		"http among trusted":           {"server: http://member.invalid", token, member.Trusted(), []string{"cluster.server"}},
		"http allowed":                 {"server: http://member.invalid", token, member.Allow{Insecure: true}, nil},
		"no scheme":                    {"server: member.invalid:6443", token, member.Allow{Insecure: true}, []string{"cluster.server"}},
		"no server":                    {"tls-server-name: a", token, member.Allow{Insecure: true}, []string{"cluster.server"}},
		"a socket":                     {"server: unix:///run/" + canary, token, member.Allow{Insecure: true}, []string{"cluster.server"}},
		"a user in the address":        {"server: https://u:" + canary + "@member.invalid", token, member.Allow{Insecure: true}, []string{"cluster.server"}},
		"a query in the address":       {"server: https://member.invalid/?a=" + canary, token, member.Allow{}, []string{"cluster.server"}},
		"as":                           {secure, token + "\nas: " + canary, member.Allow{}, []string{"user.as"}},
		"as system:masters":            {secure, token + "\nas: x\nas-groups: [system:masters]", member.Allow{}, []string{"user.as"}},
		"as allowed":                   {secure, token + "\nas: somebody\nas-groups: [some]", member.Allow{Impersonation: true}, nil},
		"groups without a user":        {secure, token + "\nas-groups: [" + canary + "]", member.Trusted(), []string{"user.as"}},
		"empty user with groups":       {secure, token + "\nas: ''\nas-groups: [system:masters]", member.Trusted(), []string{"user.as"}},
		"uid without a user":           {secure, token + "\nas-uid: " + canary, member.Trusted(), []string{"user.as"}},
		"extra without a user":         {secure, token + "\nas-user-extra: {a: [b]}", member.Trusted(), []string{"user.as"}},
		"nobody":                       {secure, "{}", member.Trusted(), []string{"user"}},
		"a key without a certificate":  {secure, "client-key-data: " + pem, member.Allow{}, []string{"user"}},
		"everything": {
			"server: http://member.invalid\ninsecure-skip-tls-verify: true\nproxy-url: http://a\ncertificate-authority: /a", exec + "\ntokenFile: /a\nas: b",
			member.Allow{},
			[]string{"cluster.server", "cluster.insecure-skip-tls-verify", "cluster.proxy-url", "cluster.certificate-authority", "user.exec", "user.tokenFile", "user.as"},
		},
	}
	if len(tests) < 40 {
		t.Errorf("there are %d kubeconfigs, want 40", len(tests))
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg, err := member.Kubeconfig(kubeconfigWith(test.cluster, test.user), "", test.with)
			if len(test.want) == 0 {
				if err != nil || cfg == nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, backend.ErrPermanent) {
				t.Fatalf("the error is %v, want one that is permanent", err)
			}
			for _, path := range test.want {
				if !strings.Contains(err.Error(), path+": ") {
					t.Errorf("the error does not name %s: %v", path, err)
				}
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the error quotes the kubeconfig: %v", err)
			}
		})
	}
}

func TestInvalidKubeconfigIsAPermanentErrorWithoutQuotes(t *testing.T) {
	good := string(kubeconfigWith(secure, token))
	tests := map[string]string{
		"no YAML":             "a: [" + canary,
		"another kind":        "apiVersion: v1\nkind: Secret\ndata: {a: " + canary + "}",
		"a list":              "- " + canary,
		"no current context":  strings.Replace(good, "current-context: c", "", 1),
		"no such context":     strings.Replace(good, "current-context: c", "current-context: "+canary, 1),
		"no such cluster":     strings.Replace(good, "cluster: c,", "cluster: "+canary+",", 1),
		"no such user":        strings.Replace(good, "user: u}", "user: "+canary+"}", 1),
		"a wrong certificate": string(kubeconfigWith(secure, "client-certificate-data: '"+canary+"'\nclient-key-data: YQ==")),
		"too much":            good + strings.Repeat("# "+canary+"\n", 1<<17),
		"expanding aliases":   "a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]",
		"empty":               "",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := member.Kubeconfig([]byte(text), "", member.Trusted())
			if !errors.Is(err, backend.ErrPermanent) || strings.Contains(err.Error(), canary) {
				t.Errorf("the error is %v, want one that is permanent and quotes nothing", err)
			}
		})
	}
}
