package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// howTos are the pages of docs/howto whose commands run on one hub, in this order.
var howTos = []string{"approve-with-two-groups", "gate-by-prometheus", "roll-back", "drain-a-cluster"}

// Each command of the pages prints the output that its page shows, with the files of the page.
func TestTheHowTosOnAHub(t *testing.T) {
	t.Parallel()
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`)
	}))
	t.Cleanup(metrics.Close)
	w := newKubeEnv(t, "--prometheus", metrics.URL)
	w.must(os.Symlink(w.kubectl, w.path("bin/kubectl")))
	for _, name := range howTos {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("..", "..", "docs", "howto", name+".md"))
			here := *w
			here.t = t
			here.must(err)
			here.follow(string(text))
		})
	}
}

// fileName matches the name of a file in the text before its content.
var fileName = regexp.MustCompile("`([a-z]+\\.yaml)`")

// elsewhere matches blocks of commands that other tests run: the start of a hub, which runs
// already, and the programs of the repository.
var elsewhere = regexp.MustCompile(`^\$ (slipway hub|go) `)

// follow writes the files of a page and runs its commands, in their order.
func (w *kubeEnv) follow(page string) {
	w.t.Helper()
	parts := strings.Split(page, "\n```")
	for i := 1; i < len(parts); i += 2 {
		language, code, _ := strings.Cut(parts[i], "\n")
		switch {
		case language == "yaml":
			if names := fileName.FindAllStringSubmatch(parts[i-1], -1); len(names) > 0 {
				w.must(os.WriteFile(w.path(names[len(names)-1][1]), []byte(code), 0o600))
			}
		case language == "console" && !elsewhere.MatchString(code):
			for command := range strings.SplitSeq(strings.TrimPrefix(code, "$ "), "\n$ ") {
				command, output, _ := strings.Cut(command, "\n")
				w.enter(command, output)
			}
		}
	}
}

// reads matches the commands that change nothing. They are repeated until they print their output.
var reads = regexp.MustCompile(` (get|describe|wait) | --preview`)

// enter runs a command of a page, which must print each line of output, in this order.
func (w *kubeEnv) enter(command, output string) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		err := w.entered(command, output)
		if err == nil {
			return
		}
		if !reads.MatchString(command) || time.Now().After(deadline) {
			w.t.Fatalf("$ %s\n%v", command, err)
		}
	}
}

func (w *kubeEnv) entered(command, output string) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", command)
	cmd.Dir = w.files
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.path("hub.kubeconfig"), "HOME="+w.files, "PATH="+w.path("bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	text, err := cmd.CombinedOutput()
	rest := strings.Join(strings.Fields(string(text)), " ")
	for line := range strings.Lines(output) {
		_, after, found := strings.Cut(rest, strings.Join(strings.Fields(line), " "))
		if !found {
			err = errors.Join(err, fmt.Errorf("it does not print, after the lines before it: %s", line))
		}
		rest = after
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, text)
	}
	return nil
}
