package runstate

import "github.com/slipway-dev/slipway/stages"

// presence is whether a field is set in a phase.
type presence uint8

const (
	never presence = iota
	sometimes
	always
)

// belonging has the presence of the fields of a cluster in flight that depend on its phase.
type belonging struct{ soakEnds, notYet, checks presence }

// belongings is the table of the phases. If a cluster was Soaking and becomes Settling because its
// state is unknown, it keeps the end of its soak; a Measuring cluster keeps its checks.
func belongings(p stages.ClusterPhase) (b belonging, isPhase bool) {
	switch p {
	case stages.Applying:
		return belonging{}, true
	case stages.Settling:
		return belonging{soakEnds: sometimes, checks: sometimes}, true
	case stages.Soaking:
		return belonging{soakEnds: always}, true
	case stages.Measuring:
		return belonging{checks: always}, true
	case stages.BackingOff:
		return belonging{notYet: always}, true
	default:
		return belonging{}, false
	}
}

// Enter moves the cluster to a phase, and clears the fields that are never set in that phase.
func (f *InFlight) Enter(p stages.ClusterPhase) {
	f.Phase = p
	b, _ := belongings(p)
	if b.soakEnds == never {
		f.SoakEnds = 0
	}
	if b.notYet == never {
		f.NotYet = 0
	}
	if b.checks == never {
		f.Checks = nil
	}
}

// Wrong returns the field that contradicts the phase of the cluster, or "".
func (f *InFlight) Wrong() string {
	b, isPhase := belongings(f.Phase)
	switch {
	case !isPhase:
		return "there is no such phase"
	case b.soakEnds == always && f.SoakEnds == 0:
		return "it has no end of its soak"
	case b.soakEnds == never && f.SoakEnds != 0:
		return "it has an end of its soak"
	case b.notYet == always && f.NotYet == 0:
		return "it has no end of its backoff"
	case b.notYet == never && f.NotYet != 0:
		return "it has an end of its backoff"
	case b.checks == always && f.Checks == nil:
		return "it has no checks"
	case b.checks == never && f.Checks != nil:
		return "it has checks"
	case f.SoakEnds != 0 && f.Checks != nil:
		return "it soaks and has checks at once"
	default:
		return ""
	}
}
