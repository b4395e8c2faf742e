package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
)

func FuzzNames(f *testing.F) {
	long := strings.Repeat("a", plainKeyMax)
	f.Add("a", "a/b")
	f.Add("run/x", "run/x2")
	f.Add(long, long+"b")
	f.Add(long+"b", long+"c")
	f.Add(long[:headLen], long+"c")
	f.Fuzz(func(t *testing.T, a, b string) {
		if backend.ValidateKey(a) != nil || backend.ValidateKey(b) != nil {
			return
		}
		checkName(t, a)
		checkNames(t, a, b)
	})
}

// checkName proves that a server takes the name and the labels of a key.
func checkName(t *testing.T, key string) {
	t.Helper()
	name := recordName(key)
	if problems := validation.NameIsDNSSubdomain(name, false); len(problems) > 0 {
		t.Errorf("key %q has the name %q: %q", key, name, problems)
	}
	if problems := metavalidation.ValidateLabels(labelsOf(key), field.NewPath("labels")); len(problems) > 0 {
		t.Errorf("key %q: %v", key, problems)
	}
}

// checkNames checks that different keys have different names, and that the names of keys of valid
// form have the order of the keys.
func checkNames(t *testing.T, a, b string) {
	t.Helper()
	byKey, byName := strings.Compare(a, b), strings.Compare(recordName(a), recordName(b))
	if (byKey == 0) != (byName == 0) {
		t.Errorf("keys %q and %q have the names %q and %q", a, b, recordName(a), recordName(b))
	}
	if !isLong(a) && !isLong(b) && byKey != byName {
		t.Errorf("keys %q and %q are in order %d, their names in order %d", a, b, byKey, byName)
	}
}

func TestObjectNamesKeepTheOrderOfKeys(t *testing.T) {
	keys := randomKeys(rand.New(rand.NewPCG(1, 1)), 150)
	for _, a := range keys {
		checkName(t, a)
		for _, b := range keys {
			checkNames(t, a, b)
		}
	}
}

func TestRecordsThatComeByNameAreYieldedByKey(t *testing.T) {
	for seed := range uint64(50) {
		keys := randomKeys(rand.New(rand.NewPCG(seed, 2)), 60)
		slices.SortFunc(keys, func(a, b string) int { return strings.Compare(recordName(a), recordName(b)) })
		var got []string
		o := inOrder{yield: func(r backend.Record, _ error) bool {
			got = append(got, r.Key)
			return true
		}}
		for _, key := range keys {
			o.add(backend.Record{Key: key})
		}
		o.flush()
		slices.Sort(keys)
		if d := cmp.Diff(keys, got); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
	}
}

func TestASelectorSelectsAllRecordsUnderAPrefix(t *testing.T) {
	keys := randomKeys(rand.New(rand.NewPCG(3, 3)), 100)
	for _, key := range keys {
		for n := range len(key) + 1 {
			selector, err := labels.Parse(selectorOf(key[:n]))
			if err != nil {
				t.Fatal(err)
			}
			if !selector.Matches(labels.Set(labelsOf(key))) {
				t.Fatalf("the selector of %q is %q, which does not select %q", key[:n], selector, key)
			}
		}
	}
	for prefix, others := range map[string][]string{"a/b/": {"a/c/x", "b/b/x", "a/b"}, "a/": {"b/x"}, "a/b/c/": {"a/b/d/x", "a/b/c"}} {
		for _, other := range others {
			selector, _ := labels.Parse(selectorOf(prefix))
			if selector.Matches(labels.Set(labelsOf(other))) != (prefix == "a/" && other[0] == 'a') {
				t.Errorf("the selector of %q selects %q", prefix, other)
			}
		}
	}
}

// randomKeys returns n different keys that have much in common, some of them too
// long for a name.
func randomKeys(r *rand.Rand, n int) []string {
	keys := map[string]bool{}
	for len(keys) < n {
		b, length := []byte{}, 1+r.IntN(8)
		if r.IntN(2) == 0 {
			b = []byte(strings.Repeat("a", headLen-1))
			length = headLen + r.IntN(plainKeyMax-headLen+20)
		}
		for len(b) < length {
			b = append(b, "-./0_az"[r.IntN(7)])
		}
		if key := string(b); backend.ValidateKey(key) == nil {
			keys[key] = true
		}
	}
	return slices.Collect(maps.Keys(keys))
}

func TestARecordReadsAsItWasWritten(t *testing.T) {
	for _, key := range []string{"a", "run/example", strings.Repeat("k", backend.MaxKey)} {
		for _, value := range []string{"", "value"} {
			s := newRecord("ns", key, []byte(value))
			s.ResourceVersion, s.UID = "7", "u"
			got, err := readRecord(s)
			want := backend.Record{Key: key, Value: []byte(value), Revision: "7.u"}
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Error(err, d)
			}
		}
	}
}

func TestADamagedRecordIsAnErrorThatNamesKeyAndObject(t *testing.T) {
	const secret = "hunter2"
	for name, damage := range map[string]struct {
		do   func(*corev1.Secret)
		want error
	}{
		"value":            {func(s *corev1.Secret) { s.Data["value"] = []byte(secret + "x") }, ErrDamaged},
		"no value":         {func(s *corev1.Secret) { s.Data = nil }, ErrDamaged},
		"other field":      {func(s *corev1.Secret) { s.Data["more"] = nil }, ErrDamaged},
		"sum":              {func(s *corev1.Secret) { s.Annotations[sumAnnotation] = strings.Repeat("0", 32) }, ErrDamaged},
		"no sum":           {func(s *corev1.Secret) { delete(s.Annotations, sumAnnotation) }, ErrDamaged},
		"type":             {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, ErrDamaged},
		"other key":        {func(s *corev1.Secret) { s.Annotations[keyAnnotation] = "run/other" }, ErrDamaged},
		"invalid key":      {func(s *corev1.Secret) { s.Annotations[keyAnnotation] = "run//" }, ErrDamaged},
		"other name":       {func(s *corev1.Secret) { s.Name = recordName("run/other") }, ErrDamaged},
		"no format":        {func(s *corev1.Secret) { delete(s.Annotations, formatAnnotation) }, ErrDamaged},
		"zero format":      {func(s *corev1.Secret) { s.Annotations[formatAnnotation] = "0" }, ErrDamaged},
		"no format at all": {func(s *corev1.Secret) { s.Annotations = nil }, ErrDamaged},
		"newer format":     {func(s *corev1.Secret) { s.Annotations[formatAnnotation], s.Annotations[keyAnnotation] = "2", "RUN" }, ErrNewer},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRecord("ns", "run/example", []byte(secret))
			damage.do(s)
			_, err := readRecord(s)
			if !errors.Is(err, damage.want) || !errors.Is(err, backend.ErrPermanent) {
				t.Fatalf("the error is %v, want %v", err, damage.want)
			}
			for _, want := range []string{"ns/" + s.Name, fmt.Sprintf("%q", s.Annotations[keyAnnotation])} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not name %s: %v", want, err)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error has the value in it: %v", err)
			}
		})
	}
}

func TestRevisionsThatNoServerReturnsAreRefused(t *testing.T) {
	for _, bad := range []backend.Revision{"", "1", "1.", ".u", "0.u", "00.u", "01.u", "-1.u", "+1.u", "x.u", "99999999999999999999.u"} {
		if rv, uid, err := readRevision(bad); err == nil {
			t.Errorf("revision %q is version %q of %q", bad, rv, uid)
		}
	}
	if rv, uid, err := readRevision("17.u.v"); rv != "17" || uid != "u.v" || err != nil {
		t.Errorf("revision 17.u.v is version %q of %q: %v", rv, uid, err)
	}
}
