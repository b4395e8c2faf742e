package fleet_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// corruption is a way to overwrite a record.
type corruption struct {
	name   string
	change func(string) string
	// gone deletes the record instead.
	gone bool
	// told reports whether an error must name the record, kept whether the record must stay
	// unchanged.
	told, kept bool
}

// corruptions returns the corruptions for a kind of record.
func corruptions(kind string) []corruption {
	all := slices.Concat(accidents(kind), attacks()[kind])
	switch kind {
	case "content":
	case "plan", "plan page":
		all = append(all, corruption{name: "of another plan", change: replacing(`c0(\d)`, "d0$1", `"placement":"web"`, `"placement":"other"`), told: true},
			corruption{name: "newer", change: replacing(`"format":1`, `"format":9`), told: true, kept: true})
	default:
		all = append(all, corruption{name: "newer", change: replacing(`"format":\d`, `"format":9`), told: true, kept: true})
	}
	return all
}

// accidents can happen to a record of any kind.
func accidents(kind string) []corruption {
	told := func(name string, change func(string) string) corruption {
		return corruption{name: name, change: change, told: true}
	}
	constant := func(s string) func(string) string { return func(string) string { return s } }
	out := []corruption{
		told("truncated", func(v string) string { return v[:len(v)*2/3] }),
		told("longer", func(v string) string { return v + "{" }),
		told("empty", constant("")), told("another type", constant(`["format",1]`)), told("null", constant(`null`)),
		told("deep nesting", constant(`{"format":1,"a":`+strings.Repeat("[", 500_000))),
		told("garbage", constant(strings.Repeat("\x00\xff{\"", 1<<18))),
		// A missing command counts as carried out; a missing run does not exist.
		{name: "gone", change: constant(""), gone: true, told: kind != "command" && kind != "run"},
	}
	if kind != "content" && !strings.HasPrefix(kind, "plan") {
		return out // stores detect single bits, see their tests
	}
	n := 3
	if soak() {
		n = 200
	}
	for i := range n {
		out = append(out, told(fmt.Sprintf("a bit flipped at %d/%d", i, n), func(v string) string {
			b := []byte(v)
			b[i*(len(b)-1)/(n-1)] ^= 1 << (i % 8)
			return string(b)
		}))
	}
	return out
}

// replacing returns a function that changes a record: it uses the first pair of a pattern and a
// replacement whose pattern matches.
func replacing(pairs ...string) func(string) string {
	return func(v string) string {
		for pair := range slices.Chunk(pairs, 2) {
			if re := regexp.MustCompile(pair[0]); re.MatchString(v) {
				return re.ReplaceAllString(v, pair[1])
			}
		}
		return v
	}
}

// bad returns a corruption that is a valid record with malicious content.
func bad(name string, pairs ...string) corruption {
	return corruption{name: name, change: replacing(pairs...), told: true}
}

// borne returns a corruption that an engine may accept as valid, as long as no other run suffers.
func borne(name string, pairs ...string) corruption {
	return corruption{name: name, change: replacing(pairs...)}
}

// mostOf is the replacement of a number by the largest.
const mostOf = `"$1":9223372036854775807`

func runAttacks() []corruption {
	return []corruption{
		bad("a stage beyond the plan", `"stage":\d+`, `"stage":99`), bad("a stage before it", `"stage":\d+`, `"stage":-1`),
		bad("the stage behind the approval", `"stage":\d+`, `"stage":1`), bad("the end", `"stage":\d+`, `"stage":2`),
		bad("no stages", `"stages":\[.*"NotStarted"\}\]`, `"stages":[]`), bad("a stage without groups", `"groups":\[[^\]]*\]`, `"groups":[]`),
		bad("an offset beyond the group", `"next":\d+`, `"next":4000`), bad("a negative offset", `"next":\d+`, `"next":-2`),
		bad("an offset that forgets a cluster", `"next":\d+`, `"next":39`), bad("too many have failed", `"next":40`, `"next":40,"failed":1`),
		bad("a negative attempt", `"attempt":1`, `"attempt":-1`), bad("no such state", `"state":"Running","attempt"`, `"state":"Dancing","attempt"`),
		bad("the end of time", `"(now)":\d+`, mostOf), bad("before time", `"now":\d+`, `"now":-1`),
		bad("waiting nowhere", `"stage":0`, `"stage":0,"waiting":[{"p":-1,"a":1}]`),
		bad("waiting in another stage", `"stage":0`, `"stage":0,"waiting":[{"p":41,"a":1}]`),
		bad("waiting twice", `"stage":0`, `"stage":0,"waiting":[{"p":1,"a":1},{"p":1,"a":1}]`),
		bad("unsuccessful clusters beyond the plan", `"stage":0`, `"stage":0,"unsuccessful":[{"p":0,"q":9000000000,"s":"Failed"}]`),
		bad("unsuccessful clusters out of order", `"stage":0`, `"stage":0,"unsuccessful":[{"p":41,"q":11,"s":"Skipped"},{"p":40,"q":40,"s":"Skipped"}]`),
		bad("a gate that is not planned", `"groups":`, `"gates":[{"when":"Before","type":"Approval","state":"Pending","opened":1}],"groups":`),
		bad("another run", `"name":"a"`, `"name":"b"`), bad("no plan", `"plan":"[^"]*"`, `"plan":"x"`), bad("no name", `"name":"a"`, `"name":""`),
		bad("another placement", `"placement":"web"`, `"placement":"other"`), bad("a hostile uid", `"uid":"[^"]*"`, `"uid":"../x"`),
		bad("a page that is not there", `"pages":\["[^"]*"`, `"pages":["x"`), bad("a hostile page", `"pages":\["[^"]*"`, `"pages":["../../run/b"`),
		bad("a journal that is not there", `"tail":"[^"]*"`, `"tail":"0-x"`), bad("fewer events", `"events":\d+`, `"events":1`),
		borne("the lease of another", `"lease":\{[^}]*\}`, `"lease":{"holder":"engine-x","epoch":9223372036854775807,"until":9223372036854775807}`),
		borne("huge numbers", `"(seq|try)":\d+`, mostOf),
	}
}

// attacks returns valid records with malicious content, by kind.
func attacks() map[string][]corruption {
	return map[string][]corruption{
		"run": runAttacks(),
		"placement": {
			borne("another epoch", `"epoch":\d+`, `"epoch":-5`), borne("a huge epoch", `"(epoch)":\d+`, mostOf),
			bad("bindings of many pages", `"pages":\d+`, `"pages":2000000000`), bad("negative pages", `"pages":\d+`, `"pages":-1`),
			borne("huge indexes", `"(nextIndex)":\d+`, mostOf), borne("negative indexes", `"index":\d+`, `"index":-1`),
			bad("another placement", `"name":"web"`, `"name":"other"`), bad("many events", `"(events)":\d+`, mostOf), bad("fewer events", `"events":\d+`, `"events":1`),
		},
		"inflight": {
			bad("beyond the plan", `"p":(1|8|16|24|32),`, `"p":4000,`), bad("negative", `"p":(1|8|16|24|32),`, `"p":-1,`), bad("of another stage", `"p":(1|8|16|24|32),`, `"p":40,`),
			bad("no phase", `"f":[1-9]`, `"f":200`),
			bad("negative attempt", `"a":1`, `"a":-1`), bad("a cluster lost", `"inFlight":\[.*\]`, `"inFlight":[]`),
			bad("a cluster twice", `(\{"p":(?:1|8|16|24|32),[^}]*\})`, `$1,$1`),
			// The record does not store which clusters have completed, so this cannot be detected.
			borne("of one that is done", `"p":(1|8|16|24|32),`, `"p":0,`),
		},
		"journal": {
			bad("a loop", `"first":\d+`, `"first":5,"prev":"SELF"`), bad("negative", `"first":\d+`, `"first":-7`),
			bad("huge", `"(first)":\d+`, mostOf), bad("no events", `"events":\[.*\]`, `"events":[]`),
		},
		"bindings": {
			borne("a cluster twice", `"c00"`, `"c00","c00"`), borne("negative indexes", `"(applied|attempted)":\d+`, `"$1":-3`),
			borne("hostile names", `"c00"`, `"../../x\u0000"`), borne("clusters of others", `"c00"`, `"c00","c99"`), borne("no groups", `"groups":\[.*\]`, `"groups":[]`),
		},
		"command": {
			borne("no verb", `"verb":"\w+"`, `"verb":"Explode"`), borne("a decision of nothing", `"verb":"\w+"`, `"verb":"Decide"`),
			borne("a skip of nothing", `"name":"c41"`, `"name":"c77"`), borne("no scope", `"scope":"\w+"`, `"scope":"All"`), borne("no id", `"id":"please"`, `"id":""`),
		},
	}
}
