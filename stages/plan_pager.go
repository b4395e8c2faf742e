package stages

import (
	"encoding/json"
	"strconv"
	"strings"
)

// What stands before the rows of a page's two kinds.
const (
	planRevisionsField = `,"revisions":[`
	planClustersField  = `,"clusters":[`
)

// planPageBegin is how the nth page begins.
func planPageBegin(format, n int) string {
	return `{"format":` + strconv.Itoa(format) + `,"page":` + strconv.Itoa(n)
}

// planRowBytes bounds what a row needs around its text, and the page around
// its rows: ASCII grows by at most five bytes a character.
const planRowBytes = 4

// planPager writes rows into pages, as encoding/json would.
type planPager struct {
	do     func([]byte)
	format int
	// pages is how many were done; page is the one that is being written.
	pages               int
	page                []byte
	revisions, clusters int
	// bytes bounds the length of the page, line is a row.
	bytes int
	line  []byte
}

func (w *planPager) revision(digest string) {
	w.line = append(w.line[:0], digest...)
	w.row(&w.revisions, planRevisionsField, w.line)
}

func (w *planPager) cluster(c *PlannedCluster) {
	w.line = append(append(w.line[:0], c.Name...), ' ')
	w.line = append(strconv.AppendInt(w.line, int64(c.Revision), 10), ' ')
	if w.format > 1 {
		w.line = append(strconv.AppendInt(w.line, int64(c.Cell), 10), ' ')
	}
	w.line = append(w.line, c.UID...)
	w.row(&w.clusters, planClustersField, w.line)
}

// row writes a row, of which the page has rows so far in its field.
func (w *planPager) row(rows *int, fieldName string, text []byte) {
	escapes := planEscapes(text)
	w.room(*rows, len(text)+planRowBytes+5*escapes)
	switch {
	case *rows > 0:
		w.page = append(w.page, ',')
	case w.revisions > 0:
		w.page = append(w.page, ']')
		fallthrough
	default:
		w.page = append(w.page, fieldName...)
	}
	*rows++
	if escapes > 0 {
		b, _ := json.Marshal(string(text)) // a string always marshals
		w.page = append(w.page, b...)
		return
	}
	w.page = append(append(append(w.page, '"'), text...), '"')
}

// room begins a new page when n bytes more do not fit into the current one.
func (w *planPager) room(rows, n int) {
	if rows == planPageRows || w.bytes+n > planPageBytes-256 {
		w.flush()
	}
	if w.revisions+w.clusters == 0 {
		w.page = append(w.page[:0], planPageBegin(w.format, w.pages)...)
	}
	w.bytes += n
}

// planEscapes counts the characters that JSON may write longer.
func planEscapes(s []byte) (n int) {
	for _, c := range s {
		switch {
		case c == '"', c == '\\', c == '<', c == '>', c == '&', c < ' ', c > '~':
			n++
		}
	}
	return n
}

func (w *planPager) flush() {
	if w.revisions+w.clusters == 0 {
		return
	}
	w.do(append(w.page, ']', '}'))
	w.pages++
	w.revisions, w.clusters, w.bytes = 0, 0, 0
}

// planScanPage reads the nth page where that is as planPager writes it and
// nothing in it is escaped, as is usual: that is several times faster than
// reading it as JSON, which is for all others. Whether it really is as it was
// written is found out in the end, by writing it again.
func planScanPage(format, n int, page string) (planPage, bool) {
	out := planPage{Format: format, Page: n}
	rest, ok := strings.CutPrefix(page, planPageBegin(format, n))
	if !ok || strings.Contains(rest, `\`) {
		return planPage{}, false
	}
	if list, found := strings.CutPrefix(rest, planRevisionsField); found {
		out.Revisions, rest, ok = planScanRows(list)
	}
	if list, found := strings.CutPrefix(rest, planClustersField); found && ok {
		out.Clusters, rest, ok = planScanRows(list)
	}
	if !ok || rest != "}" {
		return planPage{}, false
	}
	return out, true
}

// planScanRows reads strings up to the end of their list.
func planScanRows(list string) (rows []string, rest string, ok bool) {
	rows = make([]string, 0, planPageRows)
	for len(list) > 0 && list[0] == '"' {
		row, after, closed := strings.Cut(list[1:], `"`)
		if !closed {
			break
		}
		rows = append(rows, row)
		if after, ok = strings.CutPrefix(after, "]"); ok {
			return rows, after, true
		}
		list = strings.TrimPrefix(after, ",")
	}
	return nil, "", false
}
