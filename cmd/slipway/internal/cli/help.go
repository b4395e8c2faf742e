package cli

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the width of help in columns.
const helpWidth = 80

// SetHelp makes a command and its subcommands print help whose lines have at most 80 columns. The
// help of a subcommand only names the inherited flags, because the help of the root describes them.
// Examples and texts call the command by name.
func SetHelp(root *cobra.Command, name string) {
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		text := cmd.Long
		if text == "" {
			text = cmd.Short
		}
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", reflow(calledBy(name, text)), usage(cmd, name))
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprint(cmd.OutOrStderr(), usage(cmd, name))
		return err
	})
}

// call matches the name of the command before a verb.
var call = regexp.MustCompile(`\bslipway ([a-z])`)

// calledBy returns a text in which the command has the name under which it was called.
func calledBy(name, text string) string {
	if name != "kubectl slipway" {
		return text
	}
	return call.ReplaceAllString(strings.ReplaceAll(text, name, "slipway"), name+" $1")
}

// usage returns the part of the help below the description.
func usage(cmd *cobra.Command, name string) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", calledBy(name, cmd.Example))
	}
	title := "Available Commands:"
	for _, group := range cmd.Groups() {
		subcommands(&b, cmd, group.ID, group.Title)
		title = "Additional Commands:"
	}
	subcommands(&b, cmd, "", title)
	if cmd.HasAvailableLocalFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", cmd.LocalFlags().FlagUsagesWrapped(helpWidth))
	}
	if cmd.HasAvailableInheritedFlags() {
		var names []string
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) {
			switch {
			case f.Hidden:
			case f.Shorthand != "":
				names = append(names, "-"+f.Shorthand+", --"+f.Name)
			default:
				names = append(names, "--"+f.Name)
			}
		})
		fmt.Fprintf(&b, "\nGlobal Flags (%s --help describes them):\n%s\n", cmd.Root().CommandPath(), indented("  ", strings.Join(names, " ")))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\n%s [command] --help describes a command.\n", cmd.CommandPath())
	}
	return b.String()
}

// subcommands lists the subcommands of a group below a title.
func subcommands(b *strings.Builder, cmd *cobra.Command, group, title string) {
	for _, sub := range cmd.Commands() {
		if sub.GroupID != group || !sub.IsAvailableCommand() && sub.Name() != "help" {
			continue
		}
		if title != "" {
			fmt.Fprintf(b, "\n%s\n", title)
			title = ""
		}
		first := fmt.Sprintf("  %-*s ", sub.NamePadding(), sub.Name())
		text := indented(strings.Repeat(" ", len(first)), sub.Short)
		fmt.Fprintf(b, "%s%s\n", first, text[len(first):])
	}
}

// indented breaks a text into lines that begin with indent.
func indented(indent, text string) string {
	lines := strings.Split(fill(text, helpWidth-len(indent)), "\n")
	return indent + strings.Join(lines, "\n"+indent)
}

// fill breaks a text between words.
func fill(text string, width int) string {
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
		case at+1+n > width:
			b.WriteByte('\n')
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// reflow breaks the paragraphs and the list items of a text into lines of the width of help. Lines
// that begin with a space stay as they are, unless they continue an item.
func reflow(text string) string {
	var out, block []string
	item := false
	flush := func() {
		joined := strings.Join(block, " ")
		switch {
		case len(block) == 0:
		case item:
			out = append(out, "- "+indented("  ", joined)[len("  "):])
		default:
			out = append(out, fill(joined, helpWidth))
		}
		block, item = nil, false
	}
	for line := range strings.SplitSeq(text, "\n") {
		entry, begins := strings.CutPrefix(line, "- ")
		spaced := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case strings.TrimSpace(line) == "":
			flush()
			out = append(out, "")
		case begins:
			flush()
			item, block = true, []string{entry}
		case spaced && !item:
			flush()
			out = append(out, line)
		default:
			block = append(block, strings.TrimSpace(line))
		}
	}
	flush()
	return strings.Join(out, "\n")
}
