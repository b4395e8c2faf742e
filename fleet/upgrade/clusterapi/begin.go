package clusterapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/placement"
)

// rounds is the maximum number of attempts to begin a change if other writers come first. Cluster
// API writes to the objects all the time.
const rounds = 8

// errMoved reports that an object was written since it was read.
var errMoved = errors.New("another client changed it")

// Begin writes the goal of the change to the Cluster, or to the objects that create its machines.
// See [upgrade.Provider] and the package comment.
func (p *Provider) Begin(ctx context.Context, c placement.Cluster, change upgrade.Change) error {
	b := &beginning{p: p, change: change}
	err := b.run(ctx, c)
	if err == nil {
		return nil
	}
	if b.written && saysNothingBegan(err) {
		err = fmt.Errorf("begun in part: %v", err)
	}
	return fmt.Errorf("cluster %s: change %s: %w", c.Name, change.ID, err)
}

// saysNothingBegan reports whether the kind of an error implies that nothing began.
func saysNothingBegan(err error) bool {
	return errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrPermanent) || errors.Is(err, backend.ErrNotFound)
}

// beginning is one call of Begin.
type beginning struct {
	p      *Provider
	change upgrade.Change
	record string
	// written reports whether the first of several objects was changed.
	written bool
}

func (b *beginning) run(ctx context.Context, c placement.Cluster) (err error) {
	if b.record, err = recordOf(b.change); err != nil {
		return err
	}
	for range rounds {
		var s *seen
		if s, err = b.p.read(ctx, c); err != nil {
			return err
		}
		if err = b.once(ctx, s); !errors.Is(err, errMoved) {
			return err
		}
	}
	return fmt.Errorf("%v, %d times: %w", err, rounds, backend.ErrConflict)
}

// once reads the current state and writes the missing changes.
func (b *beginning) once(ctx context.Context, s *seen) error {
	record, err := s.record()
	if err != nil {
		return err
	}
	if record.ID == b.change.ID && b.complete(s) {
		return nil
	}
	if err := outranked(record, b.change); err != nil {
		return err
	}
	if err := s.idle(record, b.change); err != nil {
		return err
	}
	if err := b.p.refuse(s, b.change); err != nil {
		return err
	}
	if s.topology != nil {
		return b.writeTopology(ctx, s)
	}
	return b.writeAll(ctx, s)
}

// complete reports whether a change that the Cluster has on record was written to all objects that
// it concerns. With a topology that is only the Cluster.
func (b *beginning) complete(s *seen) bool {
	if s.topology != nil {
		return true
	}
	return !slices.ContainsFunc(s.all(), func(n *nodes) bool {
		written, err := recordIn(n.object)
		return b.concerns(s, n) && (err != nil || written.ID != b.change.ID)
	})
}

// idle refuses a change while another is under way. A change already on record needs several
// writes, and continues from the last of them.
func (s *seen) idle(record, change upgrade.Change) error {
	if record.ID == change.ID {
		return nil
	}
	if op := s.operation(record); op != nil && op.State == upgrade.Running {
		who := "another operation"
		if op.Change.ID != "" {
			who = "change " + shown(op.Change.ID)
		}
		return fmt.Errorf("%s is under way: %s: %w", who, op.Message, backend.ErrConflict)
	}
	if change.Part == upgrade.Nodes {
		if what := s.control.ailing(s.layout); what != "" {
			return fmt.Errorf("%s: %w", what, backend.ErrConflict)
		}
	}
	return nil
}

// refuse returns all reasons why the change can never be carried out on the cluster in its current
// state.
func (p *Provider) refuse(s *seen, change upgrade.Change) error {
	var problems []error
	for _, g := range change.Goal.Pools {
		n := s.find(g.Name)
		switch {
		case n == nil:
			problems = append(problems, fmt.Errorf("there is no node pool %q", g.Name))
		case change.Part == upgrade.ControlPlane && n != s.control:
		default:
			problems = append(problems, p.refuseImage(s, n, g.Image), s.refuseVersion(n, g.Version))
		}
	}
	switch change.Part {
	case upgrade.ControlPlane, upgrade.Nodes:
	default:
		problems = append(problems, fmt.Errorf("part %q is neither %s nor %s", change.Part, upgrade.ControlPlane, upgrade.Nodes))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("%w: %w", err, backend.ErrPermanent)
	}
	return nil
}

func (s *seen) refuseVersion(n *nodes, to string) error {
	switch {
	case to == "" || n == s.control:
		return nil
	case s.topology != nil && n.foreign:
		return errors.New(n.says("is held back by an annotation of the topology that is not ours: take %s or %s away", deferAnnotation, holdAnnotation))
	case s.topology != nil && !sameVersion(to, s.wanted()):
		return errors.New(n.says("is to get version %s: pools of a topology get its version, which is %s", shown(to), shown(s.wanted())))
	case newer(to, s.control.oldest()):
		return errors.New(n.says("is to get version %s, newer than that of the control plane, %s", shown(to), shown(s.control.oldest())))
	}
	return nil
}

// newer reports whether version a is newer than b.
func newer(a, b string) bool {
	va, errA := version.ParseSemantic(a)
	vb, errB := version.ParseSemantic(b)
	return errA == nil && errB == nil && vb.LessThan(va)
}

// manager is the field manager of all writes. All placements share it, because each write contains
// all fields that are ours.
const manager = "slipway-upgrade"

// apply writes an object, with the precondition that it is unchanged since it was read.
func (b *beginning) apply(ctx context.Context, obj, read tree) error {
	live := &unstructured.Unstructured{Object: read}
	_, err := b.p.conn.Apply(ctx, &unstructured.Unstructured{Object: obj}, backend.ApplyOptions{
		Manager:      manager,
		Precondition: backend.Precondition{UID: string(live.GetUID()), ResourceVersion: live.GetResourceVersion()},
	})
	if errors.Is(err, backend.ErrConflict) {
		return fmt.Errorf("%w: %v", errMoved, err)
	}
	return err
}

// skeleton returns the start of an object to apply: its name and the record.
func (b *beginning) skeleton(read tree) tree {
	return tree{
		"apiVersion": text(read, "apiVersion"),
		"kind":       text(read, "kind"),
		"metadata": tree{
			"name":        text(read, "metadata", "name"),
			"namespace":   text(read, "metadata", "namespace"),
			"annotations": tree{recordAnnotation: b.record},
		},
	}
}

// canonical returns a version in Cluster API's form, with a v, or live if both are the same
// version.
func canonical(want, live string) string {
	if want == "" || sameVersion(want, live) {
		return live
	}
	if want[0] != 'v' {
		return "v" + want
	}
	return want
}
