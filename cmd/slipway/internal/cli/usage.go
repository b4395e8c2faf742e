package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// widthOf returns the columns of a terminal, or 0 if a stream is none.
func widthOf(out io.Writer) int {
	f, is := out.(*os.File)
	if !is || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// wrapped breaks the lines of a text between words, so that a terminal does not break them inside a
// word. Words that are longer than the width stay whole. A width of 0 changes nothing.
func wrapped(text string, width int) string {
	if width <= 0 {
		return text
	}
	var out strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			out.WriteByte('\n')
		}
		at := 0
		for j, word := range strings.Split(line, " ") {
			n := utf8.RuneCountInString(word)
			switch {
			case j > 0 && at+1+n > width:
				out.WriteString("\n  ")
				at = 2
			case j > 0:
				out.WriteByte(' ')
				at++
			}
			out.WriteString(word)
			at += n
		}
	}
	return out.String()
}

// suggested is the maximum distance, in letters, between a wrong word and a suggestion.
const suggested = 2

// UnknownCommand returns the error of a word that is no subcommand of a command.
func UnknownCommand(cmd *cobra.Command, word string) error {
	cmd.SuggestionsMinimumDistance = suggested
	return Usagef("unknown command %q for %q: %s", word, cmd.CommandPath(), seeHelp(cmd, "", cmd.SuggestionsFor(word)...))
}

// seeHelp returns the end of an error of the command line: similar words, if there are any, and the
// command that shows the help.
func seeHelp(cmd *cobra.Command, prefix string, similar ...string) string {
	help := cmd.CommandPath() + " --help"
	if len(similar) == 0 {
		return "see " + help
	}
	return "did you mean " + prefix + strings.Join(similar, " or "+prefix) + "? See " + help
}

// FlagError returns the error of a command line whose flags cannot be parsed, as a UsageError. If
// the flag is unknown because the verb is, the error is about the verb.
func FlagError(cmd *cobra.Command, err error) error {
	unknown, isUnknown := errors.AsType[*pflag.NotExistError](err)
	missing, isMissing := errors.AsType[*pflag.ValueRequiredError](err)
	invalid, isInvalid := errors.AsType[*pflag.InvalidValueError](err)
	words := cmd.Flags().Args() // the words before the flag
	switch {
	case isUnknown && cmd.HasAvailableSubCommands() && len(words) > 0:
		return UnknownCommand(cmd, words[0])
	case isUnknown && unknown.GetSpecifiedShortnames() != "":
		return Usagef("unknown flag -%s: %s", unknown.GetSpecifiedName(), seeHelp(cmd, ""))
	case isUnknown && slices.Contains(strings.Fields(arguments(cmd)), strings.ToUpper(unknown.GetSpecifiedName())):
		return Usagef("unknown flag --%s: it is an argument of %s", unknown.GetSpecifiedName(), cmd.UseLine())
	case isUnknown:
		name := unknown.GetSpecifiedName()
		return Usagef("unknown flag --%s: %s", name, seeHelp(cmd, "--", similarFlags(cmd, name)...))
	case isMissing:
		return Usagef("%s has no value: %s", flagName(missing.GetFlag(), missing.GetSpecifiedShortnames() != ""), seeHelp(cmd, ""))
	case isInvalid:
		return Usagef("%s %s: %s; see %s --help", flagName(invalid.GetFlag(), false), invalid.GetValue(), wantedValue(invalid), cmd.CommandPath())
	}
	return Usagef("%w; see %s --help", err, cmd.CommandPath())
}

// arguments returns the usage of a command up to its first flag.
func arguments(cmd *cobra.Command) string {
	words, _, _ := strings.Cut(cmd.Use, "-")
	return words
}

func flagName(f *pflag.Flag, short bool) string {
	if short {
		return "-" + f.Shorthand
	}
	return "--" + f.Name
}

// wantedValue says which values a flag takes.
func wantedValue(err *pflag.InvalidValueError) string {
	switch err.GetFlag().Value.Type() {
	case "duration":
		return "want a duration with its unit, such as 5s or 10m"
	case "int":
		return "want a whole number"
	case "bool":
		return "want true or false"
	}
	return fmt.Sprint(err.Unwrap())
}

// Similar returns the names that resemble a word.
func Similar(word string, names []string) (out []string) {
	for _, name := range names {
		if distance(word, name) <= suggested && len(word) > suggested {
			out = append(out, name)
		}
	}
	return out
}

// similarFlags returns the flags of a command that resemble a name.
func similarFlags(cmd *cobra.Command, name string) (out []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && (distance(name, f.Name) <= suggested || len(name) > suggested && strings.HasPrefix(f.Name, name)) {
			out = append(out, f.Name)
		}
	})
	return out
}

// distance returns the number of letters to add, remove or replace to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row above
		row[0] = i + 1
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, replaced)
		}
	}
	return row[len(b)]
}
