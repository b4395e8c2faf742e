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

// print shows a value as an object, or else as text.
func (p printer) print(v any, text string) error {
	if p.json {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		text = string(b)
	}
	_, err := fmt.Fprintln(p.out, text)
	return err
}

// note shows something that the program does or says itself, which is no object.
func (p printer) note(format string, args ...any) error {
	if p.json {
		return nil
	}
	return p.print(nil, "# "+fmt.Sprintf(format, args...))
}

func (p printer) event(e stages.Event) error {
	switch {
	case !p.drawn:
		return p.print(e, watch.Line(e))
	case e.Type == stages.SnapshotTaken:
		return p.note("snapshot %d of %d objects: %s", *e.Index, e.Count, e.Message)
	}
	return nil
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
	if p.drawn {
		return p.note("%s has %s", m.Cluster, text)
	}
	return p.print(m, watch.LineOf(m.Time, m.Type, []string{m.Run, m.Cluster}, text))
}
