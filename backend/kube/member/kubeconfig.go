package member

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	config "k8s.io/client-go/tools/clientcmd/api"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
)

// Allow says which features of a kubeconfig the process permits beyond an address, an authority
// and credentials. The zero value permits nothing: it is for kubeconfigs of others, for example
// in Secrets. See [Trusted].
type Allow struct {
	// Programs allows users.user.exec and users.user.auth-provider, which run a program.
	Programs bool
	// Files allows paths: certificate-authority, client-certificate, client-key and tokenFile. With
	// a path, its author can read every file that the process can read.
	Files bool
	// Proxy allows proxy-url, which sends credentials through another server.
	Proxy bool
	// Impersonation allows as, as-uid, as-groups and as-user-extra.
	Impersonation bool
	// Insecure allows insecure-skip-tls-verify, and an address that is not https.
	Insecure bool
}

// Trusted allows everything except an unprotected connection: it is for files that the operator
// of the process wrote.
func Trusted() Allow {
	return Allow{Programs: true, Files: true, Proxy: true, Impersonation: true}
}

// maxKubeconfig limits the size of a kubeconfig.
const maxKubeconfig = 1 << 20

// Kubeconfig reads a kubeconfig for a context, or for the current context if it is empty. If the
// kubeconfig is unusable or needs more than allow permits, the error is ErrPermanent; it names all
// forbidden fields and quotes no values. Kubeconfig uses neither the environment nor the process's
// own account.
func Kubeconfig(text []byte, context string, allow Allow) (*rest.Config, error) {
	return kubeconfigAt(text, "", context, allow)
}

// kubeconfigAt reads a kubeconfig from a file; its paths are relative to the file.
func kubeconfigAt(text []byte, path, context string, allow Allow) (*rest.Config, error) {
	all, err := parseKubeconfig(text, path)
	if err != nil {
		return nil, api.Permanent(err)
	}
	if context == "" {
		context = all.CurrentContext
	}
	cluster, user, err := chosen(all, context)
	if err != nil {
		return nil, api.Permanent(err)
	}
	if problems := append(allow.cluster(cluster), allow.user(user)...); len(problems) > 0 {
		return nil, api.Permanent(problems.ToAggregate())
	}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*all, context, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, api.Permanent(errors.New("the kubeconfig cannot be used: a certificate, a key or a file is missing or is none"))
	}
	return cfg, nil
}

// parseKubeconfig reads a kubeconfig. It hides the errors of the parser, because they quote the
// file.
func parseKubeconfig(text []byte, path string) (*config.Config, error) {
	if len(text) > maxKubeconfig {
		return nil, fmt.Errorf("the kubeconfig has %d bytes, at most %d are allowed", len(text), maxKubeconfig)
	}
	all, err := clientcmd.Load(text)
	if err != nil {
		return nil, errors.New("the text is not a kubeconfig")
	}
	for _, c := range all.Clusters {
		c.LocationOfOrigin = path
	}
	for _, u := range all.AuthInfos {
		u.LocationOfOrigin = path
	}
	if path != "" && clientcmd.ResolveLocalPaths(all) != nil {
		return nil, errors.New("the paths in the kubeconfig cannot be resolved")
	}
	return all, nil
}

// errNoContext reports that a kubeconfig does not have a context.
var errNoContext = errors.New("the kubeconfig has no such context")

// chosen returns the cluster and the user of a context.
func chosen(all *config.Config, name string) (*config.Cluster, *config.AuthInfo, error) {
	if name == "" {
		return nil, nil, errors.New("the kubeconfig has no current-context")
	}
	c := all.Contexts[name]
	if c == nil {
		return nil, nil, errNoContext
	}
	cluster, user := all.Clusters[c.Cluster], all.AuthInfos[c.AuthInfo]
	switch {
	case cluster == nil:
		return nil, nil, errors.New("the cluster of the kubeconfig's context is not in it")
	case user == nil:
		return nil, nil, errors.New("the user of the kubeconfig's context is not in it")
	}
	return cluster, user, nil
}

// cluster returns the problems, and the forbidden fields, of the cluster of a kubeconfig.
func (a Allow) cluster(c *config.Cluster) (problems field.ErrorList) {
	at := field.NewPath("cluster")
	problems = append(problems, a.server(c.Server)...)
	if c.InsecureSkipTLSVerify && !a.Insecure {
		problems = append(problems, field.Forbidden(at.Child("insecure-skip-tls-verify"), "the certificate of the API server must be verified"))
	}
	if c.ProxyURL != "" && !a.Proxy {
		problems = append(problems, field.Forbidden(at.Child("proxy-url"), "proxies are not allowed here"))
	}
	return append(problems, a.files(at, map[string]string{"certificate-authority": c.CertificateAuthority})...)
}

// server returns the problems of the address of an API server.
func (a Allow) server(address string) field.ErrorList {
	at := field.NewPath("cluster", "server")
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		return field.ErrorList{field.Forbidden(at, "must be a URL such as https://api.example.com:6443")}
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return field.ErrorList{field.Forbidden(at, "must have no user, query or fragment")}
	case u.Scheme == "http" && !a.Insecure:
		return field.ErrorList{field.Forbidden(at, "must begin with https://")}
	}
	return nil
}

// user returns the problems, and the forbidden fields, of the user of a kubeconfig.
func (a Allow) user(u *config.AuthInfo) (problems field.ErrorList) {
	at := field.NewPath("user")
	if u.Exec != nil && !a.Programs {
		problems = append(problems, field.Forbidden(at.Child("exec"), "programs are not allowed here: use a token or a client certificate"))
	}
	if u.AuthProvider != nil && !a.Programs {
		problems = append(problems, field.Forbidden(at.Child("auth-provider"), "programs are not allowed here: use a token or a client certificate"))
	}
	problems = append(problems, a.files(at, map[string]string{
		"client-certificate": u.ClientCertificate, "client-key": u.ClientKey, "tokenFile": u.TokenFile,
	})...)
	problems = append(problems, a.impersonation(u)...)
	if len(problems) == 0 && !hasCredentials(u) {
		problems = append(problems, field.Required(at, "there is no token, client certificate, username, exec or auth-provider, so that the API server would see nobody"))
	}
	return problems
}

func (a Allow) impersonation(u *config.AuthInfo) field.ErrorList {
	more := u.ImpersonateUID != "" || len(u.ImpersonateGroups) > 0 || len(u.ImpersonateUserExtra) > 0
	at := field.NewPath("user", "as")
	switch {
	case u.Impersonate == "" && !more:
		return nil
	case !a.Impersonation:
		return field.ErrorList{field.Forbidden(at, "impersonation is not allowed here")}
	case u.Impersonate == "":
		return field.ErrorList{field.Required(at, "as-uid, as-groups and as-user-extra need a user")}
	}
	return nil
}

// files returns the fields that have a path.
func (a Allow) files(at *field.Path, paths map[string]string) (problems field.ErrorList) {
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		if paths[name] != "" && !a.Files {
			problems = append(problems, field.Forbidden(at.Child(name), "paths are not allowed here: use the field with -data, or token"))
		}
	}
	return problems
}

func hasCredentials(u *config.AuthInfo) bool {
	certificate := len(u.ClientCertificateData) > 0 || u.ClientCertificate != ""
	key := len(u.ClientKeyData) > 0 || u.ClientKey != ""
	return certificate && key || u.Token != "" || u.TokenFile != "" || u.Username != "" || u.Exec != nil || u.AuthProvider != nil
}
