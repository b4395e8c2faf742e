package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// completing is how long a completion may take: the shell waits for it.
const completing = 2 * time.Second

// complete returns what completes a word of a command line; where the target cannot be reached there is nothing.
func (o *options) complete(cmd *cobra.Command, kind string, g getter, word string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completing)
	defer cancel()
	t, err := o.target.Open(ctx, true)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer func() { _ = t.Close() }()
	g.Target = t
	l, err := g.list(ctx, kind, nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return beginning(l, word), cobra.ShellCompDirectiveNoFileComp
}

func beginning(l *cli.List, word string) (out []string) {
	for _, name := range l.Names() {
		if strings.HasPrefix(name, word) {
			out = append(out, name)
		}
	}
	return out
}

// completeRuns completes a run, and behind it an open request or a cluster.
func (o *options) completeRuns(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return o.complete(cmd, "runs", getter{}, word)
	case len(args) == 1 && (cmd.Name() == "approve" || cmd.Name() == "reject"):
		return o.complete(cmd, "approvals", getter{run: args[0]}, word)
	case len(args) == 1 && cmd.Name() == "explain":
		return o.complete(cmd, "clusters", getter{run: args[0]}, word)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// completePlacements completes a placement.
func (o *options) completePlacements(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.complete(cmd, "placements", getter{}, word)
}

// completeKinds completes a kind, and behind it the names of what there is of it.
func (o *options) completeKinds(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return kindNames(), cobra.ShellCompDirectiveNoFileComp
	}
	return o.complete(cmd, args[0], getter{}, word)
}
