package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
)

func newDecision(o *options, use string, verdict approval.Verdict) *cobra.Command {
	var comment string
	var yes bool
	cmd := verb(o, use+" RUN [REQUEST]", strings.ToUpper(use[:1])+use[1:]+" an open request of a run, which is shown first",
		"slipway "+use+" web-v2 --comment \"see the dashboard\"",
		o.writing(func(ctx context.Context, t *target.Target, args []string) error {
			r, err := openRequest(ctx, t, args)
			if err != nil {
				return err
			}
			if err := o.showRequest(ctx, t, o.ErrOut, r); err != nil {
				return err
			}
			if err := o.confirm(use, yes); err != nil {
				return err
			}
			if err := t.Decide(ctx, r.Run, fleet.Answer{Request: r.Name, Verdict: verdict, Comment: comment, Binding: r.Binding}); err != nil {
				return err
			}
			by := ""
			if o.As != "" {
				by = " by " + o.As
			}
			return o.recorded(t, "approval/"+r.Name, "%s%s is recorded", use, by)
		}))
	cmd.Flags().StringVar(&comment, "comment", "", "comment, which is recorded")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask, on a terminal, whether what is shown is meant")
	return cmd
}

// openRequest returns the request that is named, or the one that is open.
func openRequest(ctx context.Context, t *target.Target, args []string) (r approval.Request, err error) {
	open, err := t.Requests(ctx, runName(args[0]))
	if err != nil {
		return r, err
	}
	var names []string
	for _, r := range open {
		if len(args) == 2 && strings.TrimPrefix(args[1], "approval/") == r.Name || len(args) == 1 && len(open) == 1 {
			return r, nil
		}
		names = append(names, r.Name)
	}
	switch {
	case len(open) == 0:
		return r, fmt.Errorf("run %s has no open request: %w", runName(args[0]), backend.ErrNotFound)
	case len(args) == 1:
		return r, cli.Usagef("run %s has several open requests: name one of %s", runName(args[0]), strings.Join(names, ", "))
	}
	return r, fmt.Errorf("request %s is not open: the open ones of run %s are %s: %w", args[1], runName(args[0]), strings.Join(names, ", "), backend.ErrNotFound)
}

// mostShown is how many clusters a request is shown with.
const mostShown = 10

// showRequest shows what a request is about.
func (o *options) showRequest(ctx context.Context, t *target.Target, out io.Writer, r approval.Request) error {
	s, err := t.Status(ctx, r.Run)
	var clusters []string
	switch {
	case err == nil:
		clusters = clustersBehind(&s, r)
	case !o.isUnreadable(err):
		return err
	}
	names := strings.Join(clusters[:min(mostShown, len(clusters))], ", ")
	if more := len(clusters) - mostShown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	gate := fmt.Sprintf("%s stage %s", strings.ToLower(string(r.When)), r.Stage)
	if r.Group != "" {
		gate = fmt.Sprintf("%s group %s of stage %s", strings.ToLower(string(r.When)), r.Group, r.Stage)
	}
	var missing []string
	for _, q := range approval.Missing(r) {
		missing = append(missing, strings.TrimSpace(fmt.Sprintf("%d %s", q.Count, q.Group)))
	}
	l := &cli.List{Columns: []string{"Approval", "Run", "Gate", "Snapshot", "Plan", "Opens", "Missing", "Started by"}}
	opens := "-"
	if err == nil {
		opens = strings.TrimSpace(fmt.Sprintf("%d clusters %s", len(clusters), names))
	}
	l.Add(r.Name, r, fmt.Sprintf("%s of placement %s", r.Run, r.Placement), fmt.Sprintf("%s, attempt %d", gate, r.Attempt), r.Snapshot, r.Plan,
		opens, strings.Join(missing, ", "), r.Starter.Name)
	shown := *o
	shown.Out, shown.Output = out, cli.Table
	return shown.Fields(l)
}

// clustersBehind are the clusters that may start once the gate of a request has passed: those of the stage or the group
// behind it, or those of the next stage.
func clustersBehind(s *fleet.Status, r approval.Request) (names []string) {
	i := s.Plan.StageIndex(r.Stage)
	if r.When == approval.After && r.Group == "" {
		i++
	}
	if i < 0 || i >= len(s.Plan.Stages) {
		return nil
	}
	groups := s.Plan.Stages[i].Groups
	for j, g := range groups {
		behind := r.Group == "" || r.When == approval.Before && g.Name == r.Group
		for _, before := range g.After {
			behind = behind || r.When == approval.After && groups[before].Name == r.Group
		}
		if behind {
			for _, c := range s.Plan.Clusters[groups[j].First : groups[j].First+g.Len] {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// confirm asks on a terminal whether what was shown is meant.
func (o *options) confirm(use string, yes bool) error {
	if f, is := o.In.(*os.File); yes || !is || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	fmt.Fprintf(o.ErrOut, "%s? [y/N] ", use)
	answer, err := bufio.NewReader(o.In).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing is recorded: the answer was not y")
	}
	return nil
}
