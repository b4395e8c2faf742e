package check

import (
	"fmt"
	"net/url"
	"strings"
)

// place is a kind of position in a query. It determines which values of a word are allowed and how
// they are escaped.
type place int

const (
	inExpression place = iota
	inString
	inPattern // a string that is matched as a regular expression
	inComment
	inURL
	inPointer
	inBody
)

// position is the reading position in a query, for the escaping of values.
type position struct {
	place place
	// quote ends the string. matches reports whether =~ or !~ was the last token read
	// outside of strings.
	quote   byte
	matches bool
	last    byte
}

// startOf returns the position at the beginning of a query. A query that begins with a URL is
// for an HTTP service.
func startOf(query string) position {
	query = strings.ToLower(strings.TrimLeft(query, " \t\r\n"))
	for _, prefix := range []string{"get ", "post ", "/", "http://", "https://"} {
		if strings.HasPrefix(query, prefix) {
			return position{place: inURL}
		}
	}
	return position{place: inExpression}
}

// read moves the position behind a part of the query. Values do not move it, since they have no
// quotes.
func (p *position) read(text string) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch p.place { //nolint:exhaustive // the cases are the places outside of the body
		case inURL, inPointer:
			p.inLine(c)
		case inString, inPattern:
			if c == '\\' && p.quote != '`' {
				i++
			} else if c == p.quote {
				p.place, p.last = inExpression, c
			}
		case inComment:
			if c == '\n' {
				p.place = inExpression
			}
		case inExpression:
			p.inCode(c)
		}
	}
}

// inLine reads a byte of a URL or of a pointer. An empty first line does not end it.
func (p *position) inLine(c byte) {
	switch {
	case c == '#':
		p.place = inPointer
	case c == '\n' && p.last != 0:
		p.place = inBody
	}
	if c > ' ' {
		p.last = c
	}
}

// inCode reads a byte of an expression outside of strings.
func (p *position) inCode(c byte) {
	switch c {
	case '"', '\'', '`':
		p.place, p.quote = inString, c
		if p.matches {
			p.place = inPattern
		}
		p.matches = false
	case '#':
		p.place = inComment
	case ' ', '\t', '\r', '\n':
	default:
		p.matches = c == '~' && (p.last == '=' || p.last == '!')
		p.last = c
	}
}

// put returns the value escaped for the position.
func (p *position) put(value, word string) (string, error) {
	switch p.place { //nolint:exhaustive // the code after the switch handles the other places
	case inString:
		return value, nil
	case inPattern:
		if i := strings.IndexAny(value, "*+?()|[]^$"); i >= 0 {
			return "", fmt.Errorf("the value of {{%s}} has %q, which means something in a regular expression: match by = instead of =~", word, value[i])
		}
		return strings.ReplaceAll(value, ".", "[.]"), nil
	case inURL:
		return strings.ReplaceAll(url.QueryEscape(value), "+", "%20"), nil
	case inPointer:
		return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(value)), nil
	}
	if i := strings.IndexFunc(value, isNoWord); i >= 0 {
		return "", fmt.Errorf("the value of {{%s}} has a character other than letters, digits and _ : . - outside of a string: put the word between quotes", word)
	}
	return value, nil
}

func isNoWord(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_:.-", r)
}
