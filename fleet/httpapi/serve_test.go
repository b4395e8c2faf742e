package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
)

// serve serves the engine of an environment. It returns the file of its store, its address, and a
// function that ends it.
func serve(v *env, o httpapi.ServeOptions) (store, address string, end func()) {
	v.t.Helper()
	if o.Store == "" {
		o.Store = filepath.Join(v.t.TempDir(), "state.db")
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	o.Ready = func(address string) { ready <- address }
	go func() { ended <- httpapi.Serve(ctx, v.engine, o) }()
	end = func() {
		v.t.Helper()
		cancel()
		v.must(<-ended)
		ended <- nil
	}
	v.t.Cleanup(end)
	select {
	case address = <-ready:
	case err := <-ended:
		v.t.Fatal(err)
	}
	return o.Store, address, end
}

func client(v *env, address string, o httpapi.ClientOptions) *httpapi.Client {
	v.t.Helper()
	c, err := httpapi.NewClient(address, o)
	v.must(err)
	return c
}

// A second program approves while the first one follows, and finds it through the file of the
// store.
func TestAProgramIsFoundThroughTheFileOfItsStore(t *testing.T) {
	v := newEnv(t)
	store, address, end := serve(v, httpapi.ServeOptions{})
	found, err := httpapi.Find(store)
	if err != nil || found != address {
		t.Fatalf("found %q, %v, want %q", found, err, address)
	}
	followed := make(chan stages.EventType)
	go func() {
		defer close(followed)
		for ev, err := range client(v, found, httpapi.ClientOptions{}).Run("shop-2").Follow("").Events(context.Background()) {
			if err == nil && (ev.Type == stages.ApprovalAccepted && ev.By == "bob" || ev.Type == stages.RunCompleted) {
				followed <- ev.Type
			}
		}
	}()
	bob := client(v, found, httpapi.ClientOptions{As: approval.Identity{Name: "bob", Groups: []string{"ops", "release"}}})
	v.must(bob.Run("shop-2").Command(t.Context(), stages.Command{Verb: stages.Decide, Name: "shop-2-after-canary", Decision: &approval.Decision{Verdict: approval.Approve}}))
	var got []stages.EventType
	for typ := range followed {
		got = append(got, typ)
	}
	if !cmp.Equal(got, []stages.EventType{stages.ApprovalAccepted, stages.RunCompleted}) {
		t.Errorf("followed %v", got)
	}
	end()
	if _, err := httpapi.Find(store); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := os.Lstat(filepath.Dir(strings.TrimPrefix(address, "unix:"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the socket is left: %v", err)
	}
}

func TestSocketIdentityDefaultsToTheLocalUser(t *testing.T) {
	v := newEnv(t)
	_, address, _ := serve(v, httpapi.ServeOptions{})
	starter := func(name string, as approval.Identity) approval.Identity {
		s, err := client(v, address, httpapi.ClientOptions{As: as}).CreateRun(t.Context(), fleet.RunSpec{Name: name, Placement: "shop", Strategy: strategy()})
		v.must(err)
		return s.Run.Starter
	}
	if by := starter("a", approval.Identity{}); by.Name == "" || by.Groups != nil {
		t.Errorf("started by %+v", by)
	}
	bob := approval.Identity{Name: "bob", Groups: []string{"ops", "release"}}
	if by := starter("b", bob); !cmp.Equal(by, bob) {
		t.Errorf("started by %+v", by)
	}
}

func TestOnlyTheUserOfTheProcessReachesASocket(t *testing.T) {
	v := newEnv(t)
	store, address, _ := serve(v, httpapi.ServeOptions{})
	for path, want := range map[string]fs.FileMode{store + ".serve": 0o600, filepath.Dir(strings.TrimPrefix(address, "unix:")): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	v.must(os.Chmod(store+".serve", 0o666))
	if _, err := httpapi.Find(store); err == nil || !strings.Contains(err.Error(), "may be written by another user") {
		t.Errorf("a file that others may write is trusted: %v", err)
	}
	v.must(os.Chmod(store+".serve", 0o600))
	v.must(os.Chmod(filepath.Dir(strings.TrimPrefix(address, "unix:")), 0o777))
	if _, err := httpapi.Find(store); err == nil || !strings.Contains(err.Error(), "other users may write") {
		t.Errorf("a directory that others may write is trusted: %v", err)
	}
}

func TestAnnouncementOfAKilledProcessIsStale(t *testing.T) {
	v := newEnv(t)
	store := filepath.Join(t.TempDir(), "state.db")
	socket := filepath.Join(t.TempDir(), "api")
	text, err := json.Marshal(map[string]any{"address": "unix:" + socket, "pid": 1})
	v.must(err)
	v.must(os.Chmod(filepath.Dir(socket), 0o700))
	v.must(os.WriteFile(store+".serve", text, 0o600))
	ln, err := net.Listen("unix", socket)
	v.must(err)
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	v.must(ln.Close())
	if _, err := httpapi.Find(store); !errors.Is(err, httpapi.ErrStale) {
		t.Errorf("found with %v", err)
	}
	_, address, _ := serve(v, httpapi.ServeOptions{Store: store})
	if found, err := httpapi.Find(store); err != nil || found != address {
		t.Errorf("after another one: %q, %v", found, err)
	}
	if _, err := os.Lstat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket of the process is left: %v", err)
	}
	for _, damaged := range []string{"", "{", "{}", "null", `{"address":5}`} {
		v.must(os.WriteFile(store+".serve", []byte(damaged), 0o600))
		if _, err := httpapi.Find(store); err == nil {
			t.Errorf("%q is accepted", damaged)
		}
	}
}

func TestTokenIdentity(t *testing.T) {
	v := newEnv(t)
	authenticate, err := httpapi.Tokens(strings.NewReader("s3cret,bob,1001,\"ops,release\"\nother,eve,1002\n"))
	v.must(err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	v.must(err)
	store, address, _ := serve(v, httpapi.ServeOptions{Listener: ln, Options: httpapi.Options{Authenticate: authenticate}})
	if found, err := httpapi.Find(store); err != nil || found != address || !strings.HasPrefix(found, "http://127.0.0.1:") {
		t.Errorf("found %q, %v", found, err)
	}
	if text, err := os.ReadFile(store + ".serve"); err != nil || bytes.Contains(text, []byte("s3cret")) {
		t.Errorf("announced %s, %v", text, err)
	}
	for token, want := range map[string]int{"": http.StatusUnauthorized, "s3cre": http.StatusUnauthorized, "s3cret": http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/v1/runs", http.NoBody)
		v.must(err)
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(r)
		v.must(err)
		v.must(answer.Body.Close())
		// only a caller with an identity keeps a connection
		if answer.StatusCode != want || answer.Close != (want == http.StatusUnauthorized) {
			t.Errorf("token %q: code %d, want %d; Connection: close is %v", token, answer.StatusCode, want, answer.Close)
		}
	}
	spec := fleet.RunSpec{Name: "shop-3", Placement: "shop", Strategy: strategy()}
	for _, o := range []httpapi.ClientOptions{{}, {Token: "s3cre"}, {Token: "s3cret2"}, {As: approval.Identity{Name: "bob"}}} {
		c := client(v, address, o)
		_, err := c.Runs(t.Context())
		_, werr := c.CreateRun(t.Context(), spec)
		for _, err := range []error{err, werr} {
			if e, is := errors.AsType[*httpapi.Error](err); !is || e.Code != http.StatusUnauthorized {
				t.Errorf("%+v: %v", o, err)
			}
		}
	}
	_, err = client(v, address, httpapi.ClientOptions{Token: "other", As: approval.Identity{Name: "bob"}}).CreateRun(t.Context(), spec)
	if e, is := errors.AsType[*httpapi.Error](err); !is || e.Code != http.StatusForbidden {
		t.Errorf("another identity beside a token: %v", err)
	}
	s, err := client(v, address, httpapi.ClientOptions{Token: "s3cret"}).CreateRun(t.Context(), spec)
	v.must(err)
	if want := (approval.Identity{Name: "bob", Groups: []string{"ops", "release"}}); !cmp.Equal(s.Run.Starter, want) {
		t.Errorf("started by %+v", s.Run.Starter)
	}
}

func TestAFileOfTokensIsCheckedWithoutShowingThem(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "there is none",
		"s3cret,ann":                      "line 1: want token,user,uid",
		",ann,1":                          "line 1",
		"a,ann,1\ns3cret,,1\ns3cret,b":    "line 3",
		"s3cret,ann,1\nb,b,2\ns3cret,c,3": "line 3: the token of an earlier line",
		"s3cret,\"ann,1":                  "quot",
	} {
		_, err := httpapi.Tokens(strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Without tokens and without a socket no caller is known, so nothing can be changed.
func TestAListenerWithoutAuthenticationOnlyReads(t *testing.T) {
	v := newEnv(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	v.must(err)
	_, address, _ := serve(v, httpapi.ServeOptions{Listener: ln})
	c := client(v, address, httpapi.ClientOptions{As: approval.Identity{Name: "eve"}})
	_, err = c.Runs(t.Context())
	v.must(err)
	if e, is := errors.AsType[*httpapi.Error](c.Run("shop-2").Delete(t.Context(), true)); !is || e.Reason != "ReadOnly" {
		t.Errorf("a run is deleted: %v", e)
	}
}
