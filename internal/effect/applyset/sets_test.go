package applyset

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// A parent is recognized by its annotations if its name and its label follow from them: copies and parents of other installations are left
// alone.
func TestParse(t *testing.T) {
	a := New(Options{Instance: "ops.lease", Namespace: "ops"})
	parentOf := func(change func(p *live)) *live {
		n := namesOf("ops.lease", "ops", "dir/h.sh", "web", &SetOwner{"example.com", "Order", "shop", "o-17"})
		p := &live{ObjectMeta: metav1.ObjectMeta{Name: n.parent, Namespace: n.namespace, Labels: map[string]string{idLabel: n.id},
			Annotations: map[string]string{
				setAnnotation: n.set, ownerAnnotation: n.owner, formatAnnotation: format, placesAnnotation: `{"ConfigMap":["shop"]}`,
			}}}
		change(p)
		return p
	}
	for name, test := range map[string]struct {
		change        func(p *live)
		owner, defect string
		not           bool
	}{
		"ours":               {change: func(*live) {}, owner: "Order.example.com shop/o-17"},
		"another format":     {change: func(p *live) { p.Annotations[formatAnnotation] = "9" }, defect: `has format "9"`},
		"damaged":            {change: func(p *live) { p.Annotations[placesAnnotation] = "x" }, defect: "invalid annotation"},
		"a copy":             {change: func(p *live) { p.Namespace = "copies" }, not: true},
		"another owner":      {change: func(p *live) { p.Annotations[ownerAnnotation] = "example.com/Order/shop/o-18" }, not: true},
		"other installation": {change: func(p *live) { p.Annotations[setAnnotation] = "ops.other/dir/h.sh/web" }, not: true},
		"another program":    {change: func(p *live) { p.Annotations = nil }, not: true},
	} {
		set, ok := a.parse(parentOf(test.change))
		if ok == test.not {
			t.Errorf("%s: %t", name, ok)
			continue
		}
		owner := ""
		if set.Owner != nil {
			owner = set.Owner.String()
		}
		if ok && (set.Hook != "dir/h.sh" || set.Name != "web" || owner != test.owner || !strings.Contains(set.Problem, test.defect) ||
			(set.Problem == "") != (test.defect == "")) {
			t.Errorf("%s: %+v, owner %s", name, set, owner)
		}
	}
}

func TestStates(t *testing.T) {
	s := &session{names: names{manager: "m", id: "id"}, set: &effect.ObjectSet{}, members: map[ref]*live{}}
	at := func(kind, name string) ref { return ref{schema.GroupKind{Kind: kind}, "ns", name} }
	known, failed := map[ref]applied{}, map[ref]error{}
	for _, name := range []string{"applied", "changed", "recreated", "unknown", "kept"} {
		kind := map[bool]string{true: "PersistentVolumeClaim", false: "ConfigMap"}[name == "kept"]
		member := &live{ObjectMeta: metav1.ObjectMeta{UID: "1", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Apply"},
			{Manager: "kubectl"}}}}
		s.members[at(kind, name)] = member
		if name != "unknown" {
			known[at(kind, name)] = applied{sighting: s.sighting(member)}
		}
	}
	known[at("ConfigMap", "changed")] = applied{sighting: sighting{uid: "1", fieldsHash: "other"}}
	known[at("ConfigMap", "recreated")] = applied{sighting: sighting{uid: "2"}}
	known[at("ConfigMap", "gone")] = applied{}
	failed[at("ConfigMap", "foreign")] = errors.New("it exists")
	failed[at("Late", "x")] = fmt.Errorf("objects: %w", &kube.UnknownKindError{Kind: "Late"})
	var got []string
	for _, m := range s.states(known, failed) {
		got = append(got, fmt.Sprintf("%s %s %t", m.Name, m.State, m.Kept))
	}
	want := "applied applied false, changed drifted false, foreign rejected false, gone drifted false, recreated drifted false, " +
		"unknown unknown false, x waiting for CRD false, kept applied true"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("%s\nwant %s", text, want)
	}
}
