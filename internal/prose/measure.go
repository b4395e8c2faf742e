package main

import (
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// whereForIf matches a place that stands for a condition.
const whereForIf = `where (?:it|that|there|one|they|a|an|the|this|nothing|neither|no|not|none|each)`

// constructions match the forms of translated English that count.
const constructions = whereForIf +
	`|what` +
	`|(?:that|those) of` +
	`|(?:one|ones|those|that) (?:that|which|who|whose)` +
	`|(?:an)?other one` +
	`|as (?:it|they|he|one) (?:is|was|are|were|has|had|does|do|did|says?|asks?)` +
	`|comes? to|came to|ha[sd] come|have come|came of|becomes? of|became of` +
	`|(?:goes|go|went|gone) on` +
	`|by now|meanwhile` +
	`|(?:is|are|was|were) to (?:be|have|go|get|come|make|do)` +
	`|(?:of|by|in|on|at|for|from|with|to|under|after|about) which` +
	`|who|whoever|nobody|somebody|anybody|whosever` +
	`|(?:takes?|gives?|puts?) (?:back|away|free|up)` +
	`|tells? (?:of|whether|that|if|how|what|which)`

var (
	marked = regexp.MustCompile(`(?i)\b(?:` + constructions + `)\b`)
	where  = regexp.MustCompile(`(?i)\b(?:` + whereForIf + `)\b`)
	ifs    = regexp.MustCompile(`(?i)\bif\b`)
)

const (
	longest  = 72 // characters of the title of a commit
	smallest = 40 // sentences of the smallest package whose share counts
)

func isMarked(text string) bool { return marked.MatchString(text) }

// The names of the measures, as in limits.txt. All but minIf are shares in percent.
const (
	inComments  = "comments"
	inTests     = "tests"
	inDocuments = "documents"
	inErrors    = "errors"
	inTitles    = "titles"
	longTitles  = "long-titles"
	wideLines   = "wide-lines"
	inPackage   = "package"  // the package with the greatest share
	whereByIf   = "where-if" // "where" for "if", beside "if"
)

// measured is the value of a measure, and the place that it is about, if it is about one.
type measured struct {
	name  string
	value float64
	place string
}

// measure returns the measures in a fixed order.
func measure(t *texts, titles []string) []measured {
	worst := worstPackage(t.comments)
	long := 0
	var commits []sentence
	for _, title := range titles {
		commits = append(commits, sentence{text: title})
		if utf8.RuneCountInString(title) > longest {
			long++
		}
	}
	return []measured{
		{inComments, share(t.comments), ""},
		{inTests, share(t.tests), ""},
		{inDocuments, share(t.documents), ""},
		{inErrors, share(t.errors), ""},
		{inTitles, share(commits), ""},
		{longTitles, percent(long, len(titles)), ""},
		{wideLines, percent(t.wide, t.lines), ""},
		worst,
		{whereByIf, percent(occurrences(t.comments, where), occurrences(t.comments, ifs)), ""},
	}
}

// share returns the percentage of marked sentences.
func share(sentences []sentence) float64 {
	n := 0
	for _, s := range sentences {
		if isMarked(s.text) {
			n++
		}
	}
	return percent(n, len(sentences))
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(of, 1)) }

func occurrences(sentences []sentence, of *regexp.Regexp) int {
	n := 0
	for _, s := range sentences {
		n += len(of.FindAllString(s.text, -1))
	}
	return n
}

// worstPackage returns the greatest share of a package that has enough sentences.
func worstPackage(comments []sentence) measured {
	packages := map[string][]sentence{}
	for _, s := range comments {
		packages[path.Dir(s.file)] = append(packages[path.Dir(s.file)], s)
	}
	worst := measured{name: inPackage}
	for name, sentences := range packages {
		s := share(sentences)
		if len(sentences) >= smallest && (s > worst.value || s == worst.value && name < worst.place) {
			worst.value, worst.place = s, name
		}
	}
	return worst
}

// report writes a line for each measure.
func report(out io.Writer, got []measured, l *limits) {
	width := len(slices.MaxFunc(got, func(a, b measured) int { return len(a.name) - len(b.name) }).name)
	for _, m := range got {
		line := fmt.Sprintf("%-*s %5.1f%%  at most %4.1f%%  %s", width, m.name, m.value, l.most[m.name], m.place)
		_, _ = fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}
