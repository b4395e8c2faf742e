package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
)

// A run that is rolled back is followed to the end of the rollback, whichever verb follows it: no
// cluster has the change when the verb ends. All of them, and describe, name the run that rolls
// back, and say how it ended.
func TestARunIsFollowedToTheEndOfItsRollback(t *testing.T) {
	for verb, follow := range map[string][]string{
		"watch": {"watch", "shop-2"}, "wait": {"wait", "shop-2"}, "history": {"history", "run/shop-2", "--follow"},
	} {
		t.Run(verb, func(t *testing.T) {
			v := newEnv(t)
			v.serve()
			lines, end := v.start(append(follow, "--store", v.file)...)
			v.shows(cli.ExitDone, "reject shop-2 --as ann --yes")
			var out []string
			for lines.Scan() {
				out = append(out, lines.Text())
			}
			if got := v.key("eu-1"); got != "v1" {
				t.Errorf("eu-1 has %s when %s has ended, want v1", got, verb)
			}
			code, errOut := end()
			want := map[string]int{"history": cli.ExitDone}
			if code != want[verb] && code != cli.ExitUnsuccessful {
				t.Errorf("exit code %d, %s", code, errOut)
			}
			if verb != "history" && !strings.Contains(errOut, "run shop-2 failed: request shop-2-after-canary was rejected by ann; it is rolled back by run shop-2-rollback") {
				t.Errorf("it says %s", errOut)
			}
			if last := out[len(out)-1]; verb != "wait" && (!strings.Contains(last, "RunCompleted") || !strings.Contains(last, "shop-2-rollback")) {
				t.Errorf("the last line is %s", last)
			}
			v.shows(cli.ExitDone, "describe run shop-2", "Rollback:     rolled back by run shop-2-rollback")
			v.shows(cli.ExitDone, "describe run shop-2-rollback", "Rolls back:   shop-2")
			v.shows(cli.ExitDone, "get run shop-2", "Failed", "/3, rolled back")
			v.shows(cli.ExitDone, "explain shop-2", "run/shop-2: Failed: request shop-2-after-canary was rejected by ann; rolled back by run shop-2-rollback")
		})
	}
}

// The verbs that follow a run wait for the next engine if the engine on the file of the store ends,
// and say so once. The next engine has another address.
func TestARunIsFollowedAcrossEngines(t *testing.T) {
	for verb, follow := range map[string][]string{
		"watch": {"watch", "shop-2"}, "wait": {"wait", "shop-2"}, "history": {"history", "run/shop-2", "--follow"},
	} {
		t.Run(verb, func(t *testing.T) {
			v := newEnv(t)
			first, end := v.serve()
			lines, stop := v.start(append(follow, "--store", v.file)...)
			if verb == "wait" {
				time.Sleep(8 * time.Second) // it prints nothing before the end, so give it time to connect
			} else {
				until(t, lines, string(stages.ApprovalRequested))
			}
			rest := make(chan string)
			go func() {
				out := ""
				for lines.Scan() {
					out += lines.Text() + "\n"
				}
				rest <- out
			}()
			end()
			v.shows(cli.ExitDone, "approve shop-2 --as ann --yes", "for the engine that runs on this store next")
			time.Sleep(5 * time.Second) // the command asks an engine that has gone
			if second, _ := v.serve(); second == first {
				t.Errorf("both engines are at %s", first)
			}
			out := <-rest
			code, errOut := stop()
			if want := "no engine answers on " + v.file + " since "; code != cli.ExitDone || strings.Count(out+errOut, want) != 1 {
				t.Errorf("exit code %d, want one %q in\n%s%s", code, want, out, errOut)
			}
			if strings.Contains(out+errOut, "unix") || verb == "watch" && !strings.Contains(out, "; trying again\n") || !strings.Contains(out, "Completed") {
				t.Errorf("%s%s", out, errOut)
			}
		})
	}
}

// If the connection is lost after the last event, the rest of the stream has no event, and the
// command ends.
func TestAConnectionIsLostAfterTheLastEvent(t *testing.T) {
	v := newEnv(t)
	v.engine(func(_ context.Context, e *fleet.Engine) {
		handler, err := httpapi.NewHandler(e, httpapi.Options{})
		v.must(err)
		streams := []string{`{"cursor":"1","item":{"number":1,"type":"RunCompleted","run":"shop-2"}}`, `{"end":true}`}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("follow") == "" {
				handler.ServeHTTP(w, r)
				return
			}
			_, _ = io.WriteString(w, streams[0])
			streams = streams[1:]
		}))
		defer server.Close()
		code, out, errOut := v.run("--server", server.URL, "--timeout", "8s", "history", "run/shop-2", "--follow")
		if code != cli.ExitDone || strings.Count(out, "RunCompleted") != 1 || len(streams) != 0 {
			t.Errorf("exit code %d with %d streams left: %s%s", code, len(streams), out, errOut)
		}
	})
}

// An engine of an older release does not know recorded commands, and checks a command when it is
// sent.
func TestAnOlderEngineHasNoRecordedCommands(t *testing.T) {
	v := newEnv(t)
	v.engine(func(_ context.Context, e *fleet.Engine) {
		handler, err := httpapi.NewHandler(e, httpapi.Options{Authenticate: func(*http.Request) (approval.Identity, error) { return approval.Identity{Name: "ann"}, nil }})
		v.must(err)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/commands/check"):
				httpapi.WriteError(w, &httpapi.Error{Code: http.StatusNotFound, Reason: "NoRoute"})
			case strings.HasSuffix(r.URL.Path, "/commands") && r.Method == http.MethodGet:
				httpapi.WriteError(w, &httpapi.Error{Code: http.StatusMethodNotAllowed, Reason: "NoRoute"})
			default:
				handler.ServeHTTP(w, r)
			}
		}))
		defer server.Close()
		for _, args := range []string{"describe run shop-2", "explain shop-2", "skip shop-2 --what cluster/eu-2 --yes", "approve shop-2 --yes"} {
			if code, _, errOut := v.run(append(strings.Fields(args), "--server", server.URL)...); code != cli.ExitDone {
				t.Errorf("%s: exit code %d: %s", args, code, errOut)
			}
		}
	})
}

// If wait ends before the run, it prints the waits of the run.
func TestWaitEndsBeforeTheRun(t *testing.T) {
	v := newEnv(t)
	v.engine(func(_ context.Context, e *fleet.Engine) {
		handler, err := httpapi.NewHandler(e, httpapi.Options{})
		v.must(err)
		following := make(chan bool, 10)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("follow") != "" {
				following <- true
			}
			handler.ServeHTTP(w, r)
		}))
		defer server.CloseClientConnections()
		const want = "run/shop-2 is Running, and continues without this command; Decision shop-2-after-canary: "
		_, stop := v.start("wait", "shop-2", "--server", server.URL)
		<-following
		if code, errOut := stop(); code != cli.ExitInterrupted || !strings.Contains(errOut, want) {
			t.Errorf("exit code %d: %s", code, errOut)
		}
		code, _, errOut := v.run("wait", "shop-2", "--server", server.URL, "--timeout", "6s")
		if code != cli.ExitTimeout || !strings.Contains(errOut, want) || !strings.Contains(errOut, "error: --timeout has passed") {
			t.Errorf("exit code %d: %s", code, errOut)
		}
	})
}

// watch of a run in a file without an engine shows it and fails as wait does, unless it has ended.
func TestWatchWithoutAnEngine(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitFailed, "watch shop-2", "ApprovalRequested", "error: no engine runs on the store, so nothing would change: start one with slipway serve")
	v.shows(cli.ExitDone, "watch shop-1", "RunCompleted")
}

// On a file without an engine, the command reports a requested rollback and does not wait for it.
func TestWaitWithoutAnEngineReportsARequestedRollback(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "approve shop-2 --as ann --yes")
	v.engine(func(ctx context.Context, e *fleet.Engine) { v.wait(ctx, e, "shop-2") })
	v.shows(cli.ExitDone, "rollback shop-2 --name back --as ann --yes")
	v.shows(cli.ExitFailed, "wait shop-2", "no engine runs on the store")
	v.shows(cli.ExitFailed, "watch shop-2", "RunCompleted", "no engine runs on the store")
	v.shows(cli.ExitDone, "describe run shop-2", "going to be rolled back by run back")
}

// A command to a run that has ended is refused with its state, in a file and through its server.
func TestACommandToAnEndedRunIsRefused(t *testing.T) {
	v := newEnv(t)
	refuses := func() {
		t.Helper()
		for _, verb := range []string{"start", "stop", "abort --yes", "retry", "skip --what cluster/eu-1 --yes"} {
			v.shows(cli.ExitFailed, verb+" shop-1", "run shop-1", "ended as Completed")
		}
	}
	refuses()
	v.serve()
	refuses()
}

// A stage whose clusters have completed is Running while it waits for its approval, as in watch.
func TestDescribeShowsAStageThatWaitsForItsApproval(t *testing.T) {
	v := newEnv(t)
	out := v.shows(cli.ExitDone, "describe run shop-2")
	if !regexp.MustCompile(`(?m)^canary +Running +1/1 `).MatchString(out) {
		t.Errorf("stage canary is not Running:\n%s", out)
	}
}

// wait says that a stopped run waits for a start, and continues until --timeout.
func TestWaitNamesARunThatIsStopped(t *testing.T) {
	v := newEnv(t)
	v.serve()
	v.shows(cli.ExitDone, "stop shop-2")
	for range 600 {
		if strings.Contains(v.shows(cli.ExitDone, "get run shop-2"), "Stopped") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	_, _, errOut := v.on("wait", "shop-2", "--timeout", "6s")
	if !strings.Contains(errOut, "run/shop-2: Stopped: it waits until it is started: slipway start shop-2") || strings.Contains(errOut, "continues without") {
		t.Error(errOut)
	}
}
