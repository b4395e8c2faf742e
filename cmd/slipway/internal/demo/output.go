package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/watch"
)

// printer shows what happens as lines: objects, or text. Where runs are drawn it shows only what is not of a run.
type printer struct {
	out         io.Writer
	json, drawn bool
}

// note shows something that the program does or says itself.
func (p printer) note(format string, args ...any) error {
	if p.json {
		return nil
	}
	return p.line("# " + fmt.Sprintf(format, args...))
}

func (p printer) event(e stages.Event) error {
	switch {
	case p.json:
		return p.object(e)
	case p.drawn && e.Type == stages.SnapshotTaken:
		return p.note("snapshot %d of %d objects: %s", *e.Index, e.Count, e.Message)
	case p.drawn:
		return nil
	}
	return p.line(watch.Line(e))
}

// Member is what a cluster really holds after a run, read from the cluster.
type Member struct {
	Time time.Time `json:"time"`
	// Type is "Member".
	Type    string `json:"type"`
	Run     string `json:"run"`
	Cluster string `json:"cluster"`
	// Data is that of the ConfigMap; null if the cluster has none.
	Data map[string]string `json:"data"`
}

func (p printer) member(m Member) error {
	var data []string
	for k, v := range m.Data {
		data = append(data, k+"="+v)
	}
	slices.Sort(data)
	text := strings.Join(data, " ")
	if m.Data == nil {
		text = "(no ConfigMap)"
	}
	switch {
	case p.json:
		return p.object(m)
	case p.drawn:
		return p.note("%s has %s", m.Cluster, text)
	}
	return p.line(watch.LineOf(m.Time, m.Type, []string{m.Run, m.Cluster}, text))
}

func (p printer) object(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.line(string(b))
}

func (p printer) line(text string) error {
	_, err := fmt.Fprintln(p.out, text)
	return err
}
