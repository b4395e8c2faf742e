// Package clitest calls the verbs of the command's packages in tests, like package main.
package clitest

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// Result is the result of a call.
type Result struct {
	Code     int
	Out, Err string
}

// Call calls the verbs with arguments, and in as the standard input.
func Call(t testing.TB, verbs func(*cli.Options) []*cobra.Command, in string, args ...string) Result {
	t.Helper()
	var out bytes.Buffer
	code, errOut := To(t, verbs, &out, in, args...)
	return Result{code, out.String(), errOut}
}

// To is Call with a writer of the output.
func To(t testing.TB, verbs func(*cli.Options) []*cobra.Command, out io.Writer, in string, args ...string) (code int, errOut string) {
	t.Helper()
	var e bytes.Buffer
	o := &cli.Options{IOStreams: genericiooptions.IOStreams{In: strings.NewReader(in), Out: out, ErrOut: &e}, Name: "slipway"}
	root := cli.Group("slipway", "", verbs(o)...)
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	root.PersistentFlags().StringVarP(&o.Output, "output", "o", cli.Table, "")
	root.SetIn(o.In)
	root.SetOut(out)
	root.SetErr(&e)
	root.SetArgs(args)
	return o.ExitCode(root.ExecuteContext(t.Context())), e.String()
}
