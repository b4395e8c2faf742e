package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// verb returns a command. Its arguments are the words of its line of usage up to the first flag: RUN has to be given,
// [RUN] may be, and NAME... is any number of names. They are completed by what they are.
func verb(o *options, use, short, example string, do func(*cobra.Command, []string) error) *cobra.Command {
	name, rest, _ := strings.Cut(use, " ")
	before, _, _ := strings.Cut(rest, "-")
	before, _, _ = strings.Cut(before, "|")
	words := strings.Fields(strings.TrimSuffix(before, "["))
	least, most := 0, len(words)
	for _, word := range words {
		if !strings.HasPrefix(word, "[") {
			least++
		}
		if strings.Contains(word, "...") {
			most = math.MaxInt
		}
	}
	args := cobra.RangeArgs(least, most)
	switch most {
	case least:
		args = cobra.ExactArgs(most)
	case math.MaxInt:
		args = cobra.MinimumNArgs(least)
	}
	cmd := &cobra.Command{Use: use, Short: short, Args: cli.Arguments(args), RunE: do}
	if example != "" {
		cmd.Example = "  " + strings.ReplaceAll(example, "\n", "\n  ")
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		argument := strings.Trim(words[min(len(args), len(words)-1)], "[.]")
		return o.complete(cmd.Context(), name, argument, args, word), cobra.ShellCompDirectiveNoFileComp
	}
	return cmd
}

// completing is how long a completion may take: the shell waits for it.
const completing = 2 * time.Second

// complete returns what an argument may be that begins with a word; where the target cannot be reached there is nothing.
func (o *options) complete(ctx context.Context, verb, argument string, args []string, word string) []string {
	var g getter
	kind := ""
	switch argument {
	case "KIND":
		return kindNames()
	case "PLACEMENT", "RUN":
		kind = argument
	case "REQUEST":
		kind, g.run = "approval", args[0]
	case "CLUSTER":
		kind, g.run = "cluster", args[0]
	case "NAME":
		if kind = verb; len(args) > 0 {
			kind = args[0]
		}
	}
	ctx, cancel := context.WithTimeout(ctx, completing)
	defer cancel()
	t, err := o.target.Open(ctx, true)
	if err != nil {
		return nil
	}
	defer func() { _ = t.Close() }()
	g.Target = t
	l, err := g.list(ctx, strings.ToLower(kind), nil)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(l.Names(), func(name string) bool { return !strings.HasPrefix(name, word) })
}
