package main

import (
	"context"
	"strconv"
	"time"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// leaseInfo is a [fleet.Lease].
type leaseInfo struct {
	Run       string       `json:"run"`
	Placement string       `json:"placement,omitempty"`
	State     stages.State `json:"state,omitempty"`
	Holder    string       `json:"holder,omitempty"`
	Epoch     int64        `json:"epoch"`
	Until     time.Time    `json:"until,omitzero"`
	Overdue   bool         `json:"overdue,omitempty"`
	// Error is why the run's record cannot be read.
	Error string `json:"error,omitempty"`
}

// listLeases shows who holds what, of the runs that have not ended.
func listLeases(ctx context.Context, v *view) error {
	if _, err := v.runs(ctx); err != nil { // whether what is asked for is there
		return err
	}
	leases, err := v.engine.Leases(ctx)
	if err != nil {
		return err
	}
	_, of, err := v.runNames(ctx)
	if err != nil {
		return err
	}
	var all []leaseInfo
	for _, l := range leases {
		if l.Err != nil {
			l.Placement = of[l.Run]
		}
		if v.run != "" && v.run != l.Run || v.placement != "" && v.placement != l.Placement {
			continue
		}
		all = append(all, v.leaseInfo(l))
	}
	list(v, "no run is to be driven", all, []string{"RUN", "STATE", "ENGINE", "EPOCH", "LEASE UNTIL"}, leaseInfo.row)
	return nil
}

func (v *view) leaseInfo(l fleet.Lease) leaseInfo {
	return leaseInfo{l.Run, l.Placement, l.State, l.Holder, l.Epoch, l.Until, l.Overdue, v.failed(l.Err)}
}

func (l leaseInfo) row() row {
	if l.Error != "" {
		return row{[]string{l.Run, "unreadable", "-", "-", "-"}, remarksOf(l.Error)}
	}
	until := moment(l.Until)
	if l.Overdue {
		until += " (over)"
	}
	return row{cells: []string{l.Run, string(l.State), orNone(l.Holder), strconv.FormatInt(l.Epoch, 10), until}}
}
