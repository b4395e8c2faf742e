package placement

import "strings"

// parsePointer returns the tokens of a pointer (RFC 6901), or its problem. The pointer to the
// whole document, and empty tokens, are invalid too.
func parsePointer(pointer string) (tokens []string, detail string) {
	if !strings.HasPrefix(pointer, "/") {
		return nil, `must be a JSON pointer that starts with "/", such as /data/key`
	}
	tokens = strings.Split(pointer[1:], "/")
	for i, t := range tokens {
		if t == "" {
			return nil, "must not have an empty segment"
		}
		if !validEscapes(t) {
			return nil, `must write "~" as ~0 and "/" as ~1`
		}
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
	}
	return tokens, ""
}

func validEscapes(token string) bool {
	for i := range len(token) {
		if token[i] == '~' && (i+1 == len(token) || token[i+1] != '0' && token[i+1] != '1') {
			return false
		}
	}
	return true
}
