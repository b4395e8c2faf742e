package watch

import "strings"

// block is a part of a frame: a line that is always there, or a list that may be cut.
type block struct {
	line string
	list *list
}

// list is a part of a frame whose number of lines depends on the height.
type list struct {
	// first is the list's rank when lines are distributed: lower ranks come first.
	first int
	n     int
	// line draws an element; more draws one line for all elements from i on.
	line func(i int) string
	more func(i int) string
	// granted is the number of lines.
	granted int
}

// newList returns the list of n items, with a last line for the omitted ones.
func newList(first, n int, line, more func(i int) string) block {
	return block{list: &list{first: first, n: n, line: line, more: more}}
}

func (l *list) lines() (out []string) {
	shown := l.n
	if l.granted < l.n {
		shown = l.granted - 1
	}
	for i := range shown {
		out = append(out, l.line(i))
	}
	if shown >= 0 && shown < l.n {
		out = append(out, l.more(shown))
	}
	return out
}

// fit draws blocks on at most height lines. If there is room, every list gets one line, in their
// order, and then each one more in turn.
func fit(blocks []block, height int) []string {
	var lists []*list
	for _, b := range blocks {
		if b.list == nil {
			height--
		} else {
			lists = append(lists, b.list)
		}
	}
	byFirst(lists)
	for granting := true; granting && height > 0; {
		granting = false
		for _, l := range lists {
			if l.granted < l.n && height > 0 {
				l.granted++
				height--
				granting = true
			}
		}
	}
	var out []string
	for _, b := range blocks {
		if b.list == nil {
			out = append(out, b.line)
		} else {
			out = append(out, b.list.lines()...)
		}
	}
	return out
}

// frame puts body above footer, cut to the height and the width.
func (s Style) frame(body, footer []string, width, height int) string {
	footer = footer[:min(len(footer), max(0, height-1))]
	body = body[:min(len(body), max(0, height-len(footer)))]
	lines := append(append([]string{}, body...), footer...)
	for i := range lines {
		lines[i] = strings.TrimRight(s.cut(lines[i], width), " ")
	}
	return strings.Join(lines, "\n")
}
