// Command prose measures how many sentences of this repository contain a construction of
// translated English, and holds the shares to limits that only fall.
//
//	go run ./internal/prose             # the shares beside their limits, and the worst packages
//	go run ./internal/prose -show PATH  # the marked sentences below a path; titles for those of commits
//	go run ./internal/prose -check      # exits with 1 if a share is not within its limit
//	go run ./internal/prose -lower      # lowers the limits to the shares that were reached
//
// It reads comments, apart from those of generated files, comments of tests as their own measure,
// the texts of errors, the Markdown outside of code, and the titles of recent commits. The limits
// are in limits.txt beside this file.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

func main() {
	show := flag.String("show", "", "print the marked sentences of the files below this path, or the marked titles of commits for titles")
	check := flag.Bool("check", false, "exit with 1 if a share is not within its limit")
	lower := flag.Bool("lower", false, "lower the limits to the shares that were reached")
	flag.Parse()
	if err := run(os.Stdout, ".", *show, *check, *lower); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

// limitsFile holds the limits, relative to the root of the repository.
const limitsFile = "internal/prose/limits.txt"

func run(out io.Writer, root, show string, check, lower bool) error {
	texts, err := read(root)
	if err != nil {
		return err
	}
	if show != "" && show != inTitles {
		return printMarked(out, texts, show)
	}
	file := filepath.Join(root, limitsFile)
	l, err := readLimits(file)
	if err != nil {
		return err
	}
	titles, err := titlesSince(root, l.since)
	if err != nil {
		return err
	}
	if show == inTitles {
		return printTitles(out, titles)
	}
	got := measure(texts, titles)
	report(out, got, l)
	switch {
	case lower:
		return l.lowered(got).write(file)
	case check:
		return l.check(got)
	}
	return nil
}

// printTitles writes the marked titles and the long titles.
func printTitles(out io.Writer, titles []string) error {
	for _, title := range titles {
		if isMarked(title) || utf8.RuneCountInString(title) > longest {
			if _, err := fmt.Fprintln(out, title); err != nil {
				return err
			}
		}
	}
	return nil
}

// printMarked writes the marked sentences of the files below path.
func printMarked(out io.Writer, texts *texts, path string) error {
	path = filepath.ToSlash(filepath.Clean(path))
	for _, s := range texts.all() {
		if (s.file == path || path == "." || strings.HasPrefix(s.file, path+"/")) && isMarked(s.text) {
			if _, err := fmt.Fprintf(out, "%s:%d: %s\n", s.file, s.line, s.text); err != nil {
				return err
			}
		}
	}
	return nil
}
