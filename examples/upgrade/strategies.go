package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/stages"
)

// strategy is an update strategy: stages that runs are made from, as Azure has them.
type strategy struct {
	Format int             `json:"format"`
	Name   string          `json:"name"`
	Stages json.RawMessage `json:"strategy"`
}

// strategyView is a strategy as it is printed.
type strategyView struct {
	ID            string          `json:"id"`
	Name          string          `json:"name"`
	ResourceGroup string          `json:"resourceGroup"`
	Strategy      json.RawMessage `json:"strategy"`
}

// readStages reads a file of stages.
func readStages(path string) (stages.Strategy, error) {
	f, err := os.Open(path)
	if err != nil {
		return stages.Strategy{}, fmt.Errorf("--stages: %w", err)
	}
	s, err := azure.Read(f, path)
	if err == nil && azure.CheckUpgrade(&s) != nil {
		err = fmt.Errorf("%s: %w", path, azure.CheckUpgrade(&s))
	}
	return s, errors.Join(err, f.Close())
}

func createStrategy(ctx context.Context, s *session) error {
	read, err := readStages(s.one("stages"))
	if err != nil {
		return err
	}
	text, err := azure.Write(read)
	if err != nil {
		return err
	}
	st := strategy{Format: keptVersion, Name: s.name(), Stages: text}
	err = s.store.write(ctx, stagesKeys+st.Name, st, "")
	if errors.Is(err, backend.ErrConflict) {
		return fmt.Errorf("update strategy %s is there already: delete it first, or choose another name", st.Name)
	}
	if err != nil {
		return err
	}
	return s.strategy(st)
}

// strategy reads a strategy.
func (s *store) strategy(ctx context.Context, name string) (strategy, error) {
	var st strategy
	_, err := s.read(ctx, stagesKeys+name, &st)
	if errors.Is(err, backend.ErrNotFound) {
		err = fmt.Errorf("there is no update strategy %s: updatestrategy list shows which there are", name)
	}
	return st, err
}

func showStrategy(ctx context.Context, s *session) error {
	st, err := s.store.strategy(ctx, s.name())
	if err != nil {
		return err
	}
	return s.strategy(st)
}

func (s *session) strategy(st strategy) error {
	v := s.strategyView(st)
	return s.print(v, func() { s.strategyTable([]strategyView{v}) })
}

func (s *session) strategyView(st strategy) strategyView {
	return strategyView{ID: s.strategyID(st.Name), Name: st.Name, ResourceGroup: s.one("resource-group"), Strategy: st.Stages}
}

// strategyID is the resource id of a strategy.
func (s *session) strategyID(name string) string { return s.id("updateStrategies", name) }

// id is the resource id of something of the fleet. There is no subscription.
func (s *session) id(kind, name string) string {
	return fmt.Sprintf("/resourceGroups/%s/providers/Microsoft.ContainerService/fleets/%s/%s/%s", s.one("resource-group"), s.fleet(), kind, name)
}

func listStrategies(ctx context.Context, s *session) error {
	list, err := each[strategy](ctx, s.store, stagesKeys)
	if err != nil {
		return err
	}
	views := []strategyView{}
	for _, st := range list {
		views = append(views, s.strategyView(st))
	}
	return s.print(views, func() { s.strategyTable(views) })
}

func deleteStrategy(ctx context.Context, s *session) error {
	if _, err := s.store.strategy(ctx, s.name()); err != nil {
		return err
	}
	return s.store.remove(ctx, stagesKeys+s.name())
}

// stagesOfRun returns the stages of a run that is made: those of a file, a copy of
// those of a strategy, or one member after the other.
func (s *session) stagesOfRun(ctx context.Context) (stages.Strategy, error) {
	out := azure.OneByOne()
	switch name := s.one("update-strategy-name"); {
	case s.given("stages"):
		read, err := readStages(s.one("stages"))
		if err != nil {
			return out, err
		}
		out = read
	case name != "":
		st, err := s.store.strategy(ctx, name)
		if err != nil {
			return out, err
		}
		if out, err = azure.Read(bytes.NewReader(st.Stages), "update strategy "+name); err != nil {
			return out, err
		}
		out.Name = name
	}
	s.shorten(&out)
	return out, nil
}

// shorten makes the waits after stages as many times shorter as --speed says.
func (s *session) shorten(st *stages.Strategy) {
	n := max(1, s.number("speed"))
	for i := range st.Stages {
		for j := range st.Stages[i].After {
			if t := &st.Stages[i].After[j]; t.Type == stages.TimedWait {
				seconds := int(t.Wait / time.Second)
				t.Wait = time.Duration((seconds+n-1)/n) * time.Second
			}
		}
	}
}
