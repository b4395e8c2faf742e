package check

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Subject is the run, the stage or the cluster that is measured. Its fields are the values of a
// query's words.
type Subject struct {
	Run, Placement, Stage, Group string
	// Snapshot is the index of the snapshot that is rolled out.
	Snapshot int
	// Cluster and Labels belong to the measured cluster, if there is one.
	Cluster string
	Labels  map[string]string
	// Window is the age of the measured state: the time since the run reached the gate or the stage,
	// or since the cluster became healthy.
	Window time.Duration
}

// Words of a query that are replaced.
const (
	wordCluster   = "cluster"
	wordLabels    = "labels."
	wordRun       = "run"
	wordPlacement = "placement"
	wordStage     = "stage"
	wordGroup     = "group"
	wordSnapshot  = "snapshot"
	wordWindow    = "window"
)

// Resolve returns the query for a subject. It replaces these words:
//
//	{{cluster}}       the cluster that is measured
//	{{labels.KEY}}    its label KEY, as the inventory has it
//	{{run}} {{placement}} {{stage}} {{group}} {{snapshot}}
//	{{window}}        Subject.Window as a PromQL duration of at least 1s, rounded down to one of
//	                  1s 5s 10s 20s 40s 80s 160s 320s 640s and so on, so that the query covers
//	                  only the time after the change
//
// The value of a word replaces only the word and cannot change the rest of the query. A value with
// a quote, a backslash, a brace or a control character is an error everywhere, and so is a label
// that the cluster does not have. The other values depend on the position of the word:
//
//   - A string of PromQL may contain any other value. If =~ or !~ matches the string, a dot becomes
//     [.], and other characters of regular expressions are an error.
//   - In other PromQL, and in a body, a value may have only letters, digits and _ : . -
//   - In a URL, and in the pointer behind #, the value is escaped. A query has a URL if it begins
//     with a URL, or with GET or POST.
func (c *Check) Resolve(s *Subject) (string, error) {
	var out strings.Builder
	rest, at := c.Query, startOf(c.Query)
	for {
		before, after, found := strings.Cut(rest, "{{")
		out.WriteString(before)
		at.read(before)
		if !found {
			return out.String(), nil
		}
		word, behind, closed := strings.Cut(after, "}}")
		if !closed {
			return "", fmt.Errorf("check %s: query: {{ without }}", c.Name)
		}
		value, err := s.value(strings.TrimSpace(word))
		if err == nil {
			value, err = at.put(value, strings.TrimSpace(word))
		}
		if err != nil {
			return "", fmt.Errorf("check %s: query: %w", c.Name, err)
		}
		out.WriteString(value)
		rest = behind
	}
}

// value returns the value of a word.
func (s *Subject) value(word string) (string, error) {
	value := ""
	switch key, isLabel := strings.CutPrefix(word, wordLabels); {
	case isLabel:
		label, ok := s.Labels[key]
		if !ok {
			return "", fmt.Errorf("cluster %s has no label %s", s.Cluster, key)
		}
		value = label
	case word == wordCluster:
		value = s.Cluster
	case word == wordRun:
		value = s.Run
	case word == wordPlacement:
		value = s.Placement
	case word == wordStage:
		value = s.Stage
	case word == wordGroup:
		value = s.Group
	case word == wordSnapshot:
		value = strconv.Itoa(s.Snapshot)
	case word == wordWindow:
		return seconds(Rounded(s.Window)), nil
	default:
		return "", fmt.Errorf("there is no word {{%s}}", word)
	}
	if strings.ContainsFunc(value, endsString) {
		return "", fmt.Errorf("the value of {{%s}} has a quote, a backslash, a brace or a control character", word)
	}
	return value, nil
}

func endsString(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune("\"'`\\{}", r) }

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) + "s" }

// Rounded returns the window of a query, rounded down so that clusters that became healthy at about
// the same time share one window.
func Rounded(window time.Duration) time.Duration {
	step := 5 * time.Second
	if window < step {
		return shortestWindow
	}
	for step*2 <= window {
		step *= 2
	}
	return step
}

// UsesLabels reports whether the query uses a label of the cluster.
func (c *Check) UsesLabels() bool { return strings.Contains(c.Query, wordLabels) }

// queryProblem returns the problem with the words of the query. one reports whether the query
// is asked for one cluster.
func (c *Check) queryProblem(one bool) string {
	rest := c.Query
	for {
		_, after, found := strings.Cut(rest, "{{")
		if !found {
			return ""
		}
		word, behind, closed := strings.Cut(after, "}}")
		word = strings.TrimSpace(word)
		switch _, isLabel := strings.CutPrefix(word, wordLabels); {
		case !closed:
			return "{{ without }}"
		case isLabel || word == wordCluster:
			if !one {
				return "{{" + word + "}} is only in checks of clusters, and only in those without a clusterLabel, whose query is asked for one cluster"
			}
		case word != wordRun && word != wordPlacement && word != wordStage && word != wordGroup && word != wordSnapshot && word != wordWindow:
			return "there is no word {{" + word + "}}: there are cluster, labels.KEY, run, placement, stage, group, snapshot and window"
		}
		rest = behind
	}
}
