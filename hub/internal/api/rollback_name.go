package api

import (
	"strings"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// KeyOfStatus is the object of a run. That of one which takes another one back is
// beside the object of the other.
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

// TitleOf is what the engine keeps of the object of a run whose name it does not
// tell because it was cut.
func TitleOf(k Key) string {
	if _, _, ok := kubefleet.ObjectName(kubefleet.EngineName(k.Namespace, k.Name)); ok {
		return ""
	}
	return k.Namespace + "/" + k.Name
}

// keyOfRun is the object of a run, by what the engine calls it and its title. It is
// not ok for a run that was cut and has no title, as those of older versions.
func keyOfRun(run, title string) (k Key, ok bool) {
	if k.Namespace, k.Name, ok = kubefleet.ObjectName(run); ok {
		return k, true
	}
	if k.Namespace, k.Name, ok = strings.Cut(title, "/"); !ok || kubefleet.EngineName(k.Namespace, k.Name) != run {
		return Key{}, false
	}
	return k, true
}

// RollbackName is what the engine calls the nth run that takes another one back: as
// it calls an object that is beside the one of the other run.
func RollbackName(run, title string, n int) string {
	of, ok := keyOfRun(run, title)
	if !ok {
		return fleet.RollbackName(run, n)
	}
	return kubefleet.EngineName(of.Namespace, fleet.RollbackName(of.Name, n))
}

// mostRollbacks is how many runs that take one back have an object each, where the
// engine's name does not say which.
const mostRollbacks = 1000

// RollbackKey is the object of a run that takes back the one of an object. It is not
// ok where a host or an older version named that.
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

// RollbackShown is the name of a run that takes back the one of an object, as people
// know it.
func RollbackShown(of Key, run string) string {
	if k, ok := RollbackKey(of, run); ok {
		return k.Name
	}
	return run
}

// UndoneShown is the name of the run that a run takes back, as people know it.
func UndoneShown(status *fleet.Status) string {
	of := status.Plan.Rollback.Run
	if k, ok := keyOfRun(of, status.Title); ok {
		return k.Name
	}
	return of
}
