package memory

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// server is what the API server of a cluster does with the objects it has: it checks
// preconditions, merges what managers apply, counts uids and versions, runs the
// controllers, deletes, and wakes watches. The cluster's lock guards it, and it does no I/O:
// the cluster stores what it touched.
type server struct {
	uidPrefix     string
	objects       map[key]*object
	lastUID       uint64
	lastVersion   uint64
	watches       map[*clusterWatch]struct{}
	clock         func() time.Time
	react         func(*unstructured.Unstructured) map[string]any
	managedFields bool
	recording     bool
	log           []Write
	// touched is what writes changed since the cluster stored it last. It is collected
	// where tracking is set: only a cluster that is kept has a use for it.
	tracking bool
	touched  []touch
}

// touch is an object that a write changed, or took away.
type touch struct {
	key    key
	object *object
}

// clusterWatch waits for changes of some objects.
type clusterWatch struct {
	keys   map[key]struct{}
	signal chan struct{}
}

// Write is a write that changed a cluster.
type Write struct {
	// Op is create or apply (both by Apply), release, delete, update (which
	// may create) or status.
	Op string
	ID snapshot.ID
	// Manager is the field manager of an apply or a release, empty for other writes.
	Manager string
	// ResourceVersion is the object's after the write; after a delete it is
	// the cluster's.
	ResourceVersion string
}

// keys returns the keys of all objects in order.
func (s *server) keys() []key {
	keys := make([]key, 0, len(s.objects))
	for k := range s.objects {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// check holds a precondition against the object, which may be nil.
func (s *server) check(o *object, p backend.Precondition) error {
	switch {
	case o == nil && (p.UID != "" || p.ResourceVersion != ""):
		return fmt.Errorf("%w: the object does not exist", backend.ErrConflict)
	case o == nil:
		return nil
	case p.Absent:
		return fmt.Errorf("%w: the object exists", backend.ErrConflict)
	case p.UID != "" && p.UID != s.uidOf(o.uid):
		return fmt.Errorf("%w: uid is %s, not %s", backend.ErrConflict, s.uidOf(o.uid), p.UID)
	case p.ResourceVersion != "" && p.ResourceVersion != strconv.FormatUint(o.version, 10):
		return fmt.Errorf("%w: resourceVersion is %d, not %s", backend.ErrConflict, o.version, p.ResourceVersion)
	}
	return nil
}

// admits returns a conflict unless a fence holds.
func (s *server) admits(f backend.Fence) error {
	if !f.Demands() {
		return nil
	}
	if err := s.check(s.objects[keyOf(f.Ledger)], backend.Precondition{UID: f.UID, ResourceVersion: f.ResourceVersion}); err != nil {
		return fmt.Errorf("its fence, %s: %w", f.Ledger, err)
	}
	return nil
}

// seconds returns the time in Unix seconds, 0 without a clock.
func (s *server) seconds() int64 {
	if s.clock == nil {
		return 0
	}
	return s.clock().Unix()
}

// announce wakes the watches of an object.
func (s *server) announce(k key) {
	for w := range s.watches {
		if _, ok := w.keys[k]; ok {
			wake(w.signal)
		}
	}
}

// edit makes live the content of an object, as Editor.
func (s *server) edit(k key, live tree, want backend.Precondition) error {
	o := s.objects[k]
	if err := s.check(o, want); err != nil {
		return failed("update", k.String(), err)
	}
	switch {
	case o == nil:
		return s.create(k, live, "update", owner{Editor, live})
	case !equalTrees(o.live, live):
		s.replace(k, o, live, o.edited(live), "update", "")
	}
	return nil
}

func (s *server) setStatus(k key, o *object, status tree) {
	if (status == nil) == (o.status == nil) && equalTrees(o.status, status) {
		return
	}
	o.status = status
	s.commit(k, o, "status", "")
}

// create adds an object that does not exist.
func (s *server) create(k key, live tree, op string, by owner) error {
	if err := s.hasNamespace(k); err != nil {
		return err
	}
	o := s.add(k, live, by)
	manager := ""
	if op == "create" {
		manager = by.manager
	}
	s.note(k, o, op, manager)
	s.runControllers(k, o)
	return nil
}

// hasNamespace refuses an object whose namespace is not there.
func (s *server) hasNamespace(k key) error {
	if k.namespace == "" {
		return nil
	}
	switch ns := s.objects[namespaceKey(k.namespace)]; {
	case ns == nil:
		return failed("apply", k.String(), fmt.Errorf("namespace %s: %w", k.namespace, backend.ErrNotFound))
	case ns.dying:
		return failed("apply", k.String(), errTerminating)
	}
	return nil
}

// add puts a new object in its place.
func (s *server) add(k key, live tree, by owner) *object {
	s.lastUID++
	s.lastVersion++
	o := &object{
		live: live, owner: by, uid: s.lastUID, version: s.lastVersion,
		generation: 1, created: s.seconds(),
	}
	s.objects[k] = o
	return o
}

// update applies to an object that exists.
func (s *server) update(k key, o *object, by owner) {
	before, _ := o.find(by.manager)
	if len(o.others) == 0 && before != nil && sameMap(before, o.live) {
		s.updateAlone(k, o, by)
		return
	}
	live := merge(prune(o.live, before, by.applied, o.besides(by.manager)), by.applied)
	if sameMap(live, o.live) && before != nil && equalTrees(before, by.applied) {
		return
	}
	if equalTrees(live, by.applied) {
		live = by.applied
	}
	s.replace(k, o, live, o.appliedBy(by), "apply", by.manager)
}

// updateAlone applies where the manager is the only one and the object is as it was
// applied: it becomes what is applied.
func (s *server) updateAlone(k key, o *object, by owner) {
	if equalTrees(o.live, by.applied) {
		return
	}
	old := o.live
	o.live, o.owner = by.applied, by
	s.finish(k, o, old, "apply", by.manager)
}

// replace gives the object another content and other owners.
func (s *server) replace(k key, o *object, live tree, owners []owner, op, manager string) {
	old := o.live
	o.live = live
	o.setOwners(owners)
	s.finish(k, o, old, op, manager)
}

// finish commits a write of the content, and what follows from it.
func (s *server) finish(k key, o *object, old tree, op, manager string) {
	changed := specChanged(old, o.live)
	if changed {
		o.generation++
	}
	s.commit(k, o, op, manager)
	if o.dying && !o.finalizers() {
		s.remove(k, o)
		return
	}
	if changed {
		s.runControllers(k, o)
	}
}

func (s *server) runControllers(k key, o *object) {
	var status tree
	if s.react != nil {
		status = s.react(s.materialise(o, ""))
	}
	switch {
	case status != nil:
		s.setStatus(k, o, copyTree(status))
	case k.isDefinition() && o.status == nil:
		s.setStatus(k, o, establishedStatus())
	}
}

// commit gives the object a new version and notes it.
func (s *server) commit(k key, o *object, op, manager string) {
	s.lastVersion++
	o.version = s.lastVersion
	s.note(k, o, op, manager)
}

// note logs a write that got the cluster's last version and wakes the watches.
func (s *server) note(k key, o *object, op, manager string) {
	if s.recording {
		apiVersion, _ := o.live["apiVersion"].(string)
		_, version := splitVersion(apiVersion)
		s.log = append(s.log, Write{op, k.id(version), manager, strconv.FormatUint(s.lastVersion, 10)})
	}
	if s.tracking {
		s.touched = append(s.touched, touch{k, o})
	}
	s.announce(k)
}

// specChanged reports whether something changed besides metadata and status.
func specChanged(a, b tree) bool {
	n := 0
	for k, v := range a {
		if k == "metadata" || k == "apiVersion" {
			n++
			continue
		}
		w, ok := b[k]
		if !ok || !equal(v, w) {
			return true
		}
		n++
	}
	_, inA := a["metadata"]
	_, inB := b["metadata"]
	return n != len(b) || inA != inB
}

// establishedStatus is that of a CustomResourceDefinition whose kind is served, as
// every kind is here.
func establishedStatus() tree {
	return tree{"conditions": []any{
		tree{"type": "NamesAccepted", "status": "True", "reason": "NoConflicts"},
		tree{"type": "Established", "status": "True", "reason": "InitialNamesAccepted"},
	}}
}

// errTerminating is transient: it ends when the namespace is gone.
var errTerminating = errors.New("the namespace is terminating")

// finishDeletions ends what a process that died had begun: the namespace is
// stored as terminating before anything in it is deleted.
func (s *server) finishDeletions() {
	for _, k := range s.keys() {
		o := s.objects[k]
		if o == nil {
			continue
		}
		ns := s.objects[namespaceKey(k.namespace)]
		switch {
		case o.dying && !o.finalizers():
			s.remove(k, o)
		case k.namespace != "" && ns != nil && ns.dying && !o.dying:
			s.terminate(k, o, ns.deleted)
		}
	}
}

// isPristine reports whether an object is as in every new cluster: it needs no
// record.
func (s *server) isPristine(at key, o *object) bool {
	return o.uid <= 2 && o.version == o.uid && o.status == nil && at.isNamespace()
}

// materialise returns the object as a server would, in the version that is
// asked for. It is the caller's.
func (s *server) materialise(o *object, version string) *unstructured.Unstructured {
	out := make(tree, len(o.live)+1)
	for k, v := range o.live {
		if k != "metadata" {
			out[k] = deepCopy(v)
		}
	}
	if o.status != nil {
		out["status"] = copyTree(o.status)
	}
	if version != "" {
		apiVersion, _ := o.live["apiVersion"].(string)
		group, _ := splitVersion(apiVersion)
		out["apiVersion"] = schema.GroupVersion{Group: group, Version: version}.String()
	}
	out["metadata"] = s.materialiseMetadata(o)
	return &unstructured.Unstructured{Object: out}
}

func (s *server) materialiseMetadata(o *object) tree {
	from := metadata(o.live)
	meta := make(tree, len(from)+5)
	for k, v := range from {
		meta[k] = deepCopy(v)
	}
	meta["uid"] = s.uidOf(o.uid)
	meta["resourceVersion"] = strconv.FormatUint(o.version, 10)
	meta["generation"] = o.generation
	if o.created != 0 {
		meta["creationTimestamp"] = timestamp(o.created)
	}
	if o.dying {
		meta["deletionTimestamp"] = timestamp(o.deleted)
	}
	if s.managedFields {
		meta["managedFields"] = o.managedFields()
	}
	return meta
}

// uidOf spells a counter as a UID that no other cluster has.
func (s *server) uidOf(n uint64) string {
	buf := make([]byte, 0, 36)
	buf = append(buf, s.uidPrefix...)
	digits := strconv.AppendUint(make([]byte, 0, 16), n, 16)
	for range 12 - len(digits) {
		buf = append(buf, '0')
	}
	return string(append(buf, digits...))
}
