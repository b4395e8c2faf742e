//go:build unix

package azure

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	stdflag "flag"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

var update = stdflag.Bool("update", false, "write what the program prints to testdata")

// asProgram, set in the environment of this test binary, makes it the program.
const asProgram = "AZURE_IS_THE_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		code := call(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// call calls the verbs as package main does.
func call(ctx context.Context, args []string, out, errOut io.Writer) int {
	o := &cli.Options{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut}, Name: "slipway"}
	root := cli.Group("slipway", "", Commands(o)...)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	root.PersistentFlags().StringVarP(&o.Output, "output", "o", cli.Table, "")
	root.PersistentFlags().StringVar(&o.As, "as", "", "")
	root.PersistentFlags().String("store", "", "")
	root.PersistentFlags().StringP("namespace", "n", "", "a shorthand that is the name's here")
	root.PersistentFlags().DurationVar(&o.Timeout, "timeout", 0, "")
	root.SetOut(out)
	root.SetErr(errOut)
	root.SetArgs(args)
	return o.ExitCode(root.ExecuteContext(ctx))
}

// scene is a working directory for commands, with their transcript.
type scene struct {
	t    *testing.T
	dir  string
	text strings.Builder
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, dir: t.TempDir()}
	stages, err := os.ReadFile("testdata/example-stages.json")
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "example-stages.json"), stages, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// arguments returns the arguments of a command. The words $GROUP and $FLEET are as in the
// tutorial.
func arguments(command string) []string {
	r := strings.NewReplacer("$GROUP", "my-group", "$FLEET", "my-fleet", "$AT", "-g my-group -f my-fleet")
	return append(strings.Fields(r.Replace(command)), "--as", "operator")
}

// program returns the program as a separate process, not started yet. A process that hangs is
// killed.
func (s *scene) program(command string) *exec.Cmd {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), 3*time.Minute)
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, arguments(command)...)
	// The race detector makes a process wait for a second when it ends.
	cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	cmd.Dir = s.dir
	return cmd
}

// result is the result of a command.
type result struct {
	out, err string
	code     int
}

// do gives a command and writes it down. The exit code must be this one. It is the
// program in this process, with the files of the scene named by their paths: that takes
// a hundredth of the time.
func (s *scene) do(code int, command string) result {
	s.t.Helper()
	var out, errOut bytes.Buffer
	args := arguments(command)
	for i, a := range args {
		if i > 0 && (args[i-1] == "--stages" || args[i-1] == "--store") {
			args[i] = filepath.Join(s.dir, a)
		}
	}
	if !slices.Contains(args, "--store") {
		args = append(args, "--store", filepath.Join(s.dir, "my-fleet.db"))
	}
	r := result{code: call(s.t.Context(), args, &out, &errOut)}
	r.out, r.err = s.here(out.String()), s.here(errOut.String())
	s.record(command, r, code)
	return r
}

// here takes the paths of the scene out of a text.
func (s *scene) here(text string) string { return strings.ReplaceAll(text, s.dir+"/", "") }

// process gives a command as a process of its own and writes it down.
func (s *scene) process(code int, command string) {
	s.t.Helper()
	s.begin(command).end(code)
}

func exitCode(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode()
	case err != nil:
		t.Fatal(err)
	}
	return 0
}

func (s *scene) record(command string, r result, code int) {
	s.t.Helper()
	s.text.WriteString("$ slipway " + command + "\n" + steady(r.out))
	for l := range strings.Lines(steady(r.err)) {
		s.text.WriteString("! " + l)
	}
	if r.code != code {
		s.t.Errorf("slipway %s: exit code %d, want %d\n%s%s", command, r.code, code, r.out, r.err)
	}
	if code != 0 {
		s.text.WriteString("exit code " + strconv.Itoa(code) + "\n")
	}
}

// quietly gives a command and does not write it down.
func (s *scene) quietly(code int, command string) result {
	s.t.Helper()
	text := s.text.String()
	r := s.do(code, command)
	s.text.Reset()
	s.text.WriteString(text)
	return r
}

// members adds the six members of the tutorial's groups.
func (s *scene) members(flags string) {
	s.t.Helper()
	if !strings.Contains(flags, "--takes") {
		flags += " --takes 10ms"
	}
	for _, g := range []string{"1a", "1b", "1c", "2a", "2b", "2c"} {
		s.quietly(0, "member create $AT --name member-"+g+" --member-cluster-id /aks/"+g+" --update-group group-"+g+" "+flags)
	}
}

// steady replaces times, and sorts the lines about members of groups that run at the same time.
func steady(text string) string {
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`, until [^;]+;`).ReplaceAllString(text, ", until LATER;")
	text = regexp.MustCompile(`(digest|epoch|for)=\S+`).ReplaceAllString(text, "$1=SOME")
	ofMember := regexp.MustCompile(`^TIME Cluster\w+ \S+/member-`)
	member := func(l string) string { return strings.Fields(l)[2] }
	var out, block []string
	flush := func() {
		slices.SortStableFunc(block, func(a, b string) int { return strings.Compare(member(a), member(b)) })
		out, block = append(out, block...), nil
	}
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, "TIME ") {
			l = strings.Join(strings.Fields(l), " ") + "\n"
		}
		// A run that waited for another run of its placement is taken over again when its turn
		// comes.
		if strings.Contains(l, " RunTaken ") && len(out) > 0 && out[len(out)-1] == l {
			continue
		}
		if ofMember.MatchString(l) {
			block = append(block, l)
			continue
		}
		flush()
		out = append(out, l)
	}
	flush()
	return strings.Join(out, "")
}

var recorded = regexp.MustCompile(`(?:TIME Waiting .*\n)?(TIME RunTaken .*\n)(?:TIME Waiting .*\n)?(TIME ApprovalAccepted )`)

// golden compares the transcript with the stored one.
func (s *scene) golden(name string) {
	s.t.Helper()
	path := filepath.Join("testdata", name+".txt")
	// A decision that was recorded before a start is taken in at once: whether the wait for it is
	// still seen is a matter of moments.
	text := recorded.ReplaceAllString(s.text.String(), "$1$2")
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// process is a running start command, while the test runs other commands.
type process struct {
	s       *scene
	command string
	cmd     *exec.Cmd
	lines   chan string
	out     strings.Builder
	err     bytes.Buffer
}

func (s *scene) begin(command string) *process {
	s.t.Helper()
	p := &process{s: s, command: command, cmd: s.program(command), lines: make(chan string, 1000)}
	p.cmd.Stderr = &p.err
	stdout, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for r := bufio.NewReader(stdout); ; {
			l, err := r.ReadString('\n')
			if l != "" {
				p.lines <- l
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

// until reads the output of the process until lines contain all of the texts.
func (p *process) until(texts ...string) {
	p.s.t.Helper()
	for l := range p.lines {
		p.out.WriteString(l)
		l = strings.Join(strings.Fields(l), " ")
		texts = slices.DeleteFunc(texts, func(text string) bool { return strings.Contains(l, text) })
		if len(texts) == 0 {
			return
		}
	}
	_ = p.cmd.Wait()
	p.s.t.Fatalf("slipway %s ended before %q:\n%s%s", p.command, texts, p.out.String(), p.err.String())
}

func (p *process) signal(sig syscall.Signal) {
	p.s.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.s.t.Fatal(err)
	}
}

// end waits for the process and writes it down.
func (p *process) end(code int) {
	p.s.t.Helper()
	p.s.record(p.command, p.ended(), code)
}

// ended waits for the process.
func (p *process) ended() result {
	p.s.t.Helper()
	for l := range p.lines {
		p.out.WriteString(l)
	}
	return result{code: exitCode(p.s.t, p.cmd.Wait()), out: p.out.String(), err: p.err.String()}
}
