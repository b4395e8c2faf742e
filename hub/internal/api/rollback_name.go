package api

import (
	"strings"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// KeyOfStatus returns the key of the object of a run. The object of a rollback has the namespace of
// the run that it rolls back and a name derived from that run's name.
func KeyOfStatus(status *fleet.Status) (Key, bool) {
	if status.Plan.Rollback == nil {
		return keyOfRun(status.Run.Name, status.Title)
	}
	of, ok := keyOfRun(status.Plan.Rollback.Run, status.Title)
	if !ok {
		return keyOfRun(status.Run.Name, "")
	}
	return RollbackKey(of, status.Run.Name)
}

// TitleOf returns the title that the engine stores for the run of an object. It is empty unless the
// engine's name of the run was cut, so that the key cannot be read from it.
func TitleOf(k Key) string {
	if _, _, ok := kubefleet.ObjectName(kubefleet.EngineName(k.Namespace, k.Name)); ok {
		return ""
	}
	return k.Namespace + "/" + k.Name
}

// keyOfRun returns the key of the object of a run, from the engine's name and the title of the run.
// ok is false if the name was cut and the run has no title, as in older versions.
func keyOfRun(run, title string) (k Key, ok bool) {
	if k.Namespace, k.Name, ok = kubefleet.ObjectName(run); ok {
		return k, true
	}
	if k.Namespace, k.Name, ok = strings.Cut(title, "/"); !ok || kubefleet.EngineName(k.Namespace, k.Name) != run {
		return Key{}, false
	}
	return k, true
}

// RollbackName returns the engine's name for the nth rollback of a run. It is the engine's name for
// an object in the namespace of the run's object.
func RollbackName(run, title string, n int) string {
	of, ok := keyOfRun(run, title)
	if !ok {
		return fleet.RollbackName(run, n)
	}
	return kubefleet.EngineName(of.Namespace, fleet.RollbackName(of.Name, n))
}

// mostRollbacks limits the number of rollbacks of one run that can have objects if the engine's
// names of the rollbacks are cut.
const mostRollbacks = 1000

// RollbackKey returns the key of the object of a rollback, given the key of the run that it rolls
// back. ok is false if a host or an older version chose the name of the rollback.
func RollbackKey(of Key, run string) (Key, bool) {
	if ns, name, ok := kubefleet.ObjectName(run); ok {
		return Key{Namespace: ns, Name: name}, true
	}
	for n := 1; n <= mostRollbacks; n++ {
		k := Key{Namespace: of.Namespace, Name: fleet.RollbackName(of.Name, n)}
		if kubefleet.EngineName(k.Namespace, k.Name) == run {
			return k, true
		}
	}
	return Key{}, false
}

// RollbackShown returns the name of a rollback as users know it, given the key of the run that it
// rolls back.
func RollbackShown(of Key, run string) string {
	if k, ok := RollbackKey(of, run); ok {
		return k.Name
	}
	return run
}

// RolledBackShown returns the name, as users know it, of the run that a rollback rolls back.
func RolledBackShown(status *fleet.Status) string {
	of := status.Plan.Rollback.Run
	if k, ok := keyOfRun(of, status.Title); ok {
		return k.Name
	}
	return of
}
