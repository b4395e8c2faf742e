package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc on Linux.
const tick = 10 * time.Millisecond

// processorTime returns the total processor time of running programs.
func processorTime(programs []*exec.Cmd) (sum time.Duration, err error) {
	for _, p := range programs {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		if err != nil {
			return 0, err
		}
		// The second field is the name in parentheses, which may have spaces: the 14th and the 15th are
		// the times.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 13 {
			return 0, fmt.Errorf("the state of process %d has %d fields", p.Process.Pid, len(fields))
		}
		for _, field := range fields[11:13] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, err
			}
			sum += time.Duration(n) * tick
		}
	}
	return sum, nil
}

// memory is the most that programs that run have had so far, together, in MiB.
func memory(programs []*exec.Cmd) (sum float64, err error) {
	for _, p := range programs {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
		if err != nil {
			return 0, err
		}
		_, rest, _ := strings.Cut(string(text), "VmHWM:")
		var kib float64
		if _, err := fmt.Sscan(rest, &kib); err != nil {
			return 0, fmt.Errorf("the memory of process %d: %w", p.Process.Pid, err)
		}
		sum += kib / 1024
	}
	return sum, nil
}
