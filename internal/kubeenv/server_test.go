package kubeenv

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestAServerIsTheReleaseThatTheModuleNames(t *testing.T) {
	t.Parallel()
	s := clusters.Server(t, "one")
	var version struct{ GitVersion, Major, Minor string }
	if err := json.Unmarshal([]byte(must(t, s, http.MethodGet, "/version", "")), &version); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("servers/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Split(string(mod), "\n"), "\tk8s.io/kubernetes "+version.GitVersion) {
		t.Errorf("the server is %s, which is not what servers/go.mod requires: run make kube", version.GitVersion)
	}
	if !strings.HasPrefix(version.GitVersion, "v"+version.Major+"."+version.Minor+".") {
		t.Errorf("the server is %+v", version)
	}
	if group := must(t, s, http.MethodGet, "/apis/admissionregistration.k8s.io/v1", ""); !strings.Contains(group, `"mutatingadmissionpolicies"`) {
		t.Errorf("no MutatingAdmissionPolicy v1 in %s", group)
	}
}

func TestServersOfAnEnvironmentDoNotSeeEachOthersObjects(t *testing.T) {
	t.Parallel()
	one, two := clusters.Server(t, "one"), clusters.Server(t, "two")
	namespace := one.Namespace(t)
	must(t, one, http.MethodGet, "/api/v1/namespaces/"+namespace, "")
	if code, answer := ask(t, two.Config(), http.MethodGet, "/api/v1/namespaces/"+namespace, ""); code != http.StatusNotFound {
		t.Errorf("the other server answers %d %s", code, answer)
	}
	if one.URL() == two.URL() {
		t.Errorf("both are at %s", one.URL())
	}
}

func TestAServerRefusesTheCredentialsOfAnother(t *testing.T) {
	t.Parallel()
	one, two := clusters.Server(t, "one"), clusters.Server(t, "two")
	c := one.Config()
	c.CertData, c.KeyData = two.Config().CertData, two.Config().KeyData
	if code, answer := ask(t, c, http.MethodGet, "/api/v1/namespaces", ""); code != http.StatusUnauthorized {
		t.Errorf("it answers %d %s", code, answer)
	}
	c = one.Config()
	c.Host = two.Config().Host
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, err := askWith(t.Context(), client, http.MethodGet, two.URL()+"/version", ""); err == nil {
		t.Errorf("a client that trusts one server takes another's answer %d", code)
	}
}

func TestConfigForIsTheUserInTheGroups(t *testing.T) {
	t.Parallel()
	s := clusters.Server(t, "one")
	review := `{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}`
	code, answer := ask(t, s.ConfigFor("alice", "team-a", "team-b"), http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
	var is struct {
		Status struct {
			UserInfo struct {
				Username string
				Groups   []string
			}
		}
	}
	if err := json.Unmarshal([]byte(answer), &is); err != nil || code != http.StatusCreated {
		t.Fatalf("%d %s", code, answer)
	}
	if user := is.Status.UserInfo; user.Username != "alice" || !slices.Equal(user.Groups, []string{"team-a", "team-b", "system:authenticated"}) {
		t.Errorf("the server takes it for %+v", user)
	}
}

func TestUsersHaveTheirRBACRights(t *testing.T) {
	t.Parallel()
	s := clusters.Server(t, "one")
	namespace := s.Namespace(t)
	path := "/api/v1/namespaces/" + namespace + "/configmaps"
	if code, answer := ask(t, s.ConfigFor("bob"), http.MethodGet, path, ""); code != http.StatusForbidden {
		t.Errorf("without a right: %d %s", code, answer)
	}
	rights := "/apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace
	must(t, s, http.MethodPost, rights+"/roles",
		`{"metadata":{"name":"reader"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["list"]}]}`)
	must(t, s, http.MethodPost, rights+"/rolebindings",
		`{"metadata":{"name":"readers"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reader"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"Group","name":"readers"}]}`)
	eventually(t, "the right is known", func() bool {
		code, _ := ask(t, s.ConfigFor("bob", "readers"), http.MethodGet, path, "")
		return code == http.StatusOK
	})
	if code, answer := ask(t, s.ConfigFor("bob"), http.MethodGet, path, ""); code != http.StatusForbidden {
		t.Errorf("without the group: %d %s", code, answer)
	}
}

func TestInvalidUserNamesHaveNoClient(t *testing.T) {
	t.Parallel()
	s := clusters.Server(t, "one")
	if _, err := rest.HTTPClientFor(s.ConfigFor("\xff")); err == nil {
		t.Error("a client is made without credentials")
	}
}

func TestKubectlReadsTheKubeconfigs(t *testing.T) {
	t.Parallel()
	s := clusters.Server(t, "one")
	kubectl, err := Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	for user, config := range map[string][]byte{"admin": s.Kubeconfig(), "carol: \"x\"": s.KubeconfigFor("carol: \"x\"", "g")} {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(file, config, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), kubectl, "--kubeconfig", file, "auth", "whoami", "-o", "jsonpath={.status.userInfo.username}").CombinedOutput()
		if err != nil || string(out) != user {
			t.Errorf("kubectl is %q, want %q: %v", out, user, err)
		}
	}
}

func TestAServerComesBackWithItsObjectsAtItsAddress(t *testing.T) {
	t.Parallel()
	s := clusters.Server(t, "mortal")
	namespace, url := s.Namespace(t), s.URL()
	for _, end := range []func() error{s.Kill, s.Kill, func() error { return s.Stop(t.Context()) }} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.request(t.Context(), http.MethodGet, "/version", ""); err == nil {
			t.Error("it answers though it is down")
		}
	}
	dead := s.Pid()
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s.URL() != url || s.Pid() == dead {
		t.Errorf("it is at %s with process %d, and was at %s with %d", s.URL(), s.Pid(), url, dead)
	}
	must(t, s, http.MethodGet, "/api/v1/namespaces/"+namespace, "")
	dead = s.Pid()
	if err := s.Restart(t.Context()); err != nil || s.Pid() == dead || alive(dead) {
		t.Errorf("a server that runs is not restarted: %v", err)
	}
	must(t, s, http.MethodGet, "/api/v1/namespaces/"+namespace, "")
	dead = s.Pid()
	if err := s.Stop(t.Context()); err != nil || alive(dead) {
		t.Errorf("it does not stop: %v", err)
	}
}

func TestAPausedServerAnswersWhenItIsResumed(t *testing.T) {
	t.Parallel()
	s := clusters.Server(t, "paused")
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := s.request(ctx, http.MethodGet, "/version", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused server: %v", err)
	}
	s.Resume()
	must(t, s, http.MethodGet, "/version", "")
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("a paused server does not stop: %v", err)
	}
}

func TestTheControllersEmptyANamespaceThatIsDeleted(t *testing.T) {
	t.Parallel()
	s := clusters.Server(t, "controlled")
	if err := s.StartControllerManager(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.StartControllerManager(t.Context()); err == nil {
		t.Error("a second controller manager is started")
	}
	namespace := "/api/v1/namespaces/" + s.Namespace(t)
	must(t, s, http.MethodPost, namespace+"/configmaps", `{"metadata":{"name":"a"}}`)
	eventually(t, "the namespace has an account", func() bool {
		code, _ := ask(t, s.Config(), http.MethodGet, namespace+"/serviceaccounts/default", "")
		return code == http.StatusOK
	})
	token := must(t, s, http.MethodPost, namespace+"/serviceaccounts/default/token", `{"spec":{"expirationSeconds":600}}`)
	var issued struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(token), &issued); err != nil {
		t.Fatal(err)
	}
	c := rest.AnonymousClientConfig(s.Config())
	c.BearerToken = issued.Status.Token
	if code, answer := ask(t, c, http.MethodGet, namespace+"/configmaps", ""); code != http.StatusForbidden || !strings.Contains(answer, ":default") {
		t.Errorf("the account is not known by its token: %d %s", code, answer)
	}
	must(t, s, http.MethodDelete, namespace, "")
	eventually(t, "the namespace is gone", func() bool {
		code, _ := ask(t, s.Config(), http.MethodGet, namespace, "")
		return code == http.StatusNotFound
	})
}
