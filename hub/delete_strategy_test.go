package hub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

const (
	foundNamespace = `{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}`
	foundConfig    = `{apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME}, data: {key: found}}`
	theirConfig    = `{apiVersion: v1, kind: ConfigMap, metadata: {name: theirs, namespace: NAME}, data: {key: theirs}}`
)

// found puts objects on a member.
func (s *scenario) found(member int, texts ...string) {
	s.Helper()
	s.mayWarn("msg=released") // earlier objects stay there
	for _, text := range texts {
		for _, obj := range s.objects(text) {
			if err := s.applyTo(s.member(member), obj); err != nil {
				s.Fatal(err)
			}
		}
	}
}

// lists lets the hub list all kinds on a member. The roles of package member do not allow that.
func (s *scenario) lists(member int) {
	s.Helper()
	s.found(member, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: slipway-lists},
  rules: [{apiGroups: ["*"], resources: ["*"], verbs: [list]}]}`,
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: slipway-lists},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: slipway-lists},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: `+memberUser+`}]}`)
}

// reported waits for an Event of the placement with all of the words.
func (s *scenario) reported(reason string, words ...string) {
	s.Helper()
	s.eventually("an Event "+reason, func() error {
		all := strings.Join(s.events("crp/NAME", reason), "\n")
		for _, word := range words {
			if !strings.Contains(all, s.own(word)) {
				return fmt.Errorf("the Events do not say %q: %q", s.own(word), all)
			}
		}
		return nil
	})
}

// TestAdoptedObjectsAreDeletedWithTheirPlacement: as in KubeFleet, objects that were already on a
// member are deleted with the placement that took them over. A namespace that contains other
// objects stays, and an Event reports that.
func TestAdoptedObjectsAreDeletedWithTheirPlacement(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.lists(1)
	s.lists(2)
	s.found(1, foundNamespace, foundConfig)
	s.found(2, foundNamespace, foundConfig, theirConfig)
	s.put("v1")
	s.place("type: RollingUpdate")
	s.eventually("both to have it", func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(2, "config", "v1")()) })
	s.delete("crp/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
	if err := errors.Join(s.has(1, "config", "")(), s.has(2, "config", "")()); err != nil {
		t.Error(err)
	}
	s.eventually("the namespace to be gone", s.gone(s.member(1), "ns/NAME"))
	ns, err := s.read(s.member(2), "ns/NAME")
	if err != nil || ns.GetDeletionTimestamp() != nil || strings.Contains(fmt.Sprint(ns.Object), "slipway") {
		t.Errorf("the namespace with an object of others: %v, %v", ns, err)
	}
	if err := s.has(2, "theirs", "theirs")(); err != nil {
		t.Error(err)
	}
	s.reported("Released", "cluster NAME-2", "Namespace.v1 NAME: not deleted", "NAME/theirs is in it")
	if all := strings.Join(s.events("crp/NAME", "Released"), "\n"); strings.Contains(all, s.own("NAME-1")) {
		t.Errorf("nothing was released on the other member: %s", all)
	}
}

// TestDeleteStrategyAbandonKeepsPlacedObjects: everything stays without a trace of the placement,
// even if Abandon was set right before the placement was deleted.
func TestDeleteStrategyAbandonKeepsPlacedObjects(t *testing.T) {
	for name, more := range map[string]string{"from the beginning": ", deleteStrategy: {propagationPolicy: Abandon}", "at the end": ""} {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t, openVouched, 1)
			s.put("v1")
			s.place("type: RollingUpdate" + more)
			s.eventually("the member to have it", s.has(1, "config", "v1"))
			s.patch("crp/NAME", `{spec: {strategy: {deleteStrategy: {propagationPolicy: Abandon}}}}`)
			s.delete("crp/NAME")
			s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
			for _, what := range []string{"cm/NAME/config", "ns/NAME"} {
				obj, err := s.read(s.member(1), what)
				if err != nil || obj.GetDeletionTimestamp() != nil || strings.Contains(fmt.Sprint(obj.Object), "slipway") {
					t.Errorf("%s: %v, %v", what, obj, err)
				}
			}
			s.reported("Abandoned", "1 clusters", "Abandon")
		})
	}
}

// TestDeleteStrategyDeleteCreatedKeepsAdoptedObjects: objects that were already on the member stay
// with their current content, and an Event names them. Objects that the placement created are
// deleted.
func TestDeleteStrategyDeleteCreatedKeepsAdoptedObjects(t *testing.T) {
	s := newScenario(t, openVouched, 1)
	s.found(1, foundNamespace, foundConfig)
	s.put("v1")
	s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: NAME}, data: {key: v1}}`)
	s.place("type: RollingUpdate, deleteStrategy: {propagationPolicy: DeleteCreated}")
	s.eventually("the member to have it", func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(1, "other", "v1")()) })
	s.delete("crp/NAME")
	s.eventually("the placement to be gone", s.gone(s.admin, "crp/NAME"))
	if err := errors.Join(s.has(1, "config", "v1")(), s.has(1, "other", "")()); err != nil {
		t.Error(err)
	}
	s.reported("Released", "cluster NAME-1", "NAME/config", "Namespace.v1 NAME", "only what it created")
}

// TestAdoptedObjectsAreDeletedWithTheirCluster: objects that were taken over on a member are
// deleted when the placement no longer picks the member.
func TestAdoptedObjectsAreDeletedWithTheirCluster(t *testing.T) {
	s := newScenario(t, openVouched, 2)
	s.lists(2)
	s.found(2, foundNamespace, foundConfig)
	s.put("v1")
	s.place("type: RollingUpdate")
	s.eventually("both to have it", func() error { return errors.Join(s.has(1, "config", "v1")(), s.has(2, "config", "v1")()) })
	s.patch("mc/NAME-2", `{metadata: {labels: {story: another}}}`)
	s.eventually("the second to lose it", func() error { return errors.Join(s.has(2, "config", "")(), s.gone(s.member(2), "ns/NAME")()) })
	if err := s.has(1, "config", "v1")(); err != nil {
		t.Error(err)
	}
}
