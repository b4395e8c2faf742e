package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/snapshot"
)

// summary is a whole file in short.
type summary struct {
	File string `json:"file"`
	// FileBytes is the size of the file, RecordBytes that of the values in it.
	FileBytes   int64           `json:"fileBytes"`
	Records     int             `json:"records"`
	RecordBytes int64           `json:"recordBytes"`
	Kinds       []kindInfo      `json:"kinds"`
	Placements  []placementInfo `json:"placements"`
	Runs        []runInfo       `json:"runs"`
}

// kindInfo sums up the records whose keys have the same first segment.
type kindInfo struct {
	Kind    string `json:"kind"`
	Records int    `json:"records"`
	Bytes   int64  `json:"bytes"`
}

type placementInfo struct {
	Placement string              `json:"placement"`
	Snapshots []snapshot.Snapshot `json:"snapshots,omitempty"`
	Runs      int                 `json:"runs"`
	// Error is why the placement cannot be read.
	Error string `json:"error,omitempty"`
}

// overview shows the file in short.
func overview(ctx context.Context, v *view) error {
	records, err := v.stored(ctx, "")
	if err != nil {
		return err
	}
	s := summary{
		File: v.file, FileBytes: v.store.Stats().FileBytes, Records: len(records), RecordBytes: bytesOf(records),
		Kinds: kindsOf(records),
	}
	if s.Placements, err = v.placementInfos(ctx); err != nil {
		return err
	}
	if s.Runs, err = v.runs(ctx); err != nil {
		return err
	}
	if !v.json {
		v.showSummary(s)
		return nil
	}
	for _, r := range s.Runs {
		v.countBad(r.Error)
	}
	v.object(s)
	return nil
}

func kindsOf(records []stored) (all []kindInfo) {
	for _, rec := range records {
		kind, _, _ := strings.Cut(rec.Key, "/")
		if len(all) == 0 || all[len(all)-1].Kind != kind {
			all = append(all, kindInfo{Kind: kind})
		}
		last := &all[len(all)-1]
		last.Records, last.Bytes = last.Records+1, last.Bytes+int64(rec.Bytes)
	}
	return all
}

func (v *view) placementInfos(ctx context.Context) (all []placementInfo, err error) {
	names, err := v.placements(ctx)
	for _, name := range names {
		info := placementInfo{Placement: name}
		placed, err := v.engine.View(ctx, name)
		switch {
		case err == nil:
			runs, err := v.engine.Runs(ctx, name)
			if err != nil {
				return nil, err
			}
			info.Snapshots, info.Runs = placed.Snapshots(), len(runs)
		case isLasting(err):
			info.Error = v.failed(err)
		default:
			return nil, err
		}
		all = append(all, info)
	}
	return all, err
}

func (v *view) showSummary(s summary) {
	v.field("file", s.File)
	v.field("size", fmt.Sprintf("%s, with %s of %s", size(s.FileBytes), count(s.Records, "record"), size(s.RecordBytes)))
	v.head("Records")
	list(v, "none", s.Kinds, []string{"KIND", "RECORDS", "SIZE"}, func(k kindInfo) row {
		return row{cells: []string{k.Kind, strconv.Itoa(k.Records), size(k.Bytes)}}
	})
	v.head("Placements")
	list(v, "none", s.Placements, []string{"PLACEMENT", "SNAPSHOTS", "RUNS"}, placementInfo.row)
	v.head("Runs")
	v.showRuns(s.Runs)
}

func (p placementInfo) row() row {
	if p.Error != "" {
		return row{[]string{p.Placement, "unreadable", "-"}, remarksOf(p.Error)}
	}
	out := row{cells: []string{p.Placement, strconv.Itoa(len(p.Snapshots)), strconv.Itoa(p.Runs)}}
	for _, s := range p.Snapshots {
		out.remarks = append(out.remarks, fmt.Sprintf("snapshot %d, %s, taken %s, digest %s", s.Index, count(s.Objects, "object"), moment(s.TakenAt), shorten(s.Digest)))
	}
	return out
}
