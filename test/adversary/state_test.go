package adversary

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// state has the objects of a workload, by resource, namespace and name, without what differs between two runs.
type state map[string]string

// resources are those that state reads: of the script, of all writes so far, and of the reference.
func (w *world) resources() []schema.GroupVersionResource {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := maps.Clone(w.touched)
	if w.reference != nil {
		for _, r := range w.reference.resources {
			all[r] = true
		}
		return slices.Collect(maps.Keys(all))
	}
	for _, s := range w.load.steps {
		if s.Object != nil {
			all[resourceOf(s.Object)] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// state reads everything.
func (w *world) state() (state, error) {
	var objects []unstructured.Unstructured
	var kinds []string
	for _, gvr := range w.resources() {
		gvr.Group = w.words.Replace(gvr.Group)
		list, err := w.client.Resource(gvr).List(context.Background(), metav1.ListOptions{})
		if apierrors.IsNotFound(err) { // its CRD is not there
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			if w.isOurs(&o) {
				objects, kinds = append(objects, o), append(kinds, gvr.GroupResource().String())
			}
		}
	}
	// The operator deletes the record of a set without an owner a minute after its start, and then every hour.
	owners := map[string]bool{"": true}
	for _, o := range objects {
		owners[strings.Join([]string{o.GroupVersionKind().Group, o.GetKind(), o.GetNamespace(), o.GetName()}, "/")] = true
	}
	words := []string{}
	uids := map[string]string{}
	for i, o := range objects {
		uids[string(o.GetUID())] = "uid of " + kinds[i] + " " + o.GetName()
		if id := o.GetLabels()["applyset.kubernetes.io/id"]; id != "" && setParent.MatchString(o.GetName()) {
			name := setName(o.GetName(), o.GetAnnotations()["shell-operator/owner"])
			words = append(words, id, "id of "+name, o.GetName(), name)
		}
	}
	names := strings.NewReplacer(append(words, w.namespace, "NS")...)
	s := state{}
	for i, o := range objects {
		if setParent.MatchString(o.GetName()) && !owners[o.GetAnnotations()["shell-operator/owner"]] {
			continue
		}
		key := kinds[i] + " " + o.GetNamespace() + "/" + o.GetName()
		text, err := json.MarshalIndent(normal(&o), "", " ")
		if err != nil {
			return nil, err
		}
		text = uid.ReplaceAllFunc(text, func(id []byte) []byte {
			if name, ok := uids[string(id)]; ok {
				return []byte(name)
			}
			return []byte("uid of nothing")
		})
		text = moment.ReplaceAll(random.ReplaceAll(text, nil), []byte("a time"))
		text = revision.ReplaceAll(text, []byte("$1"))
		s[names.Replace(key)] = names.Replace(string(text))
	}
	w.external(s)
	return s, nil
}

func (w *world) isOurs(o *unstructured.Unstructured) bool {
	if o.GetNamespace() == "" {
		_, after, found := strings.Cut(o.GetName(), w.namespace)
		return found && (after == "" || !strings.Contains("0123456789", after[:1]))
	}
	return slices.Contains(w.namespaces, o.GetNamespace()) && o.GetName() != "kube-root-ca.crt"
}

var (
	uid      = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	moment   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	random   = regexp.MustCompile(`kube-api-access-\w+|process replica-\d+/\w+`)
	revision = regexp.MustCompile(`(uid of \S+ \S+)/\d+`) // with a generation, which counts the changes of a script
	bcrypt   = regexp.MustCompile(`\$2[aby]\$\d+\$[./A-Za-z0-9]{53}`)
)

// normal leaves out times, versions, and what control planes and certificates make different.
func normal(o *unstructured.Unstructured) map[string]any {
	content := o.DeepCopy().Object
	metadata := content["metadata"].(map[string]any)
	generation, _ := metadata["generation"].(int64)
	for _, key := range []string{"resourceVersion", "generation", "creationTimestamp", "selfLink", "deletionGracePeriodSeconds"} {
		delete(metadata, key)
	}
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		delete(annotations, "shell-operator/sync")
		delete(annotations, "applyset.kubernetes.io/tooling")
		delete(annotations, "deployment.kubernetes.io/revision")
	}
	metadata["managedFields"] = managers(o)
	switch spec, _ := content["spec"].(map[string]any); o.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Kind: "Service"}:
		maps.DeleteFunc(spec, func(key string, _ any) bool { return strings.HasPrefix(key, "clusterIP") })
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}, schema.GroupKind{Kind: "Namespace"}:
		delete(content, "status")
	case schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:
		delete(content, "status")
		forget(content, "clientConfig")
	case schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
		schema.GroupKind{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}:
		forget(content, "clientConfig")
		forget(metadata, "shell-operator.io/webhooks") // a hash of paths with the namespace
		forget(metadata, "shell-operator.io/started")  // a number of starts
	case schema.GroupKind{Kind: "Secret"}:
		data, _ := content["data"].(map[string]any)
		for key, value := range data {
			text, _ := base64.StdEncoding.DecodeString(fmt.Sprint(value))
			data[key] = bcrypt.ReplaceAllString(string(text), "a hash")
			if strings.Contains(o.GetName(), "shell-operator") { // certificates
				data[key] = "secret"
			}
		}
	}
	if conditions, ok, _ := unstructured.NestedSlice(content, "status", "conditions"); ok {
		for _, c := range conditions {
			if observed, ok := c.(map[string]any)["observedGeneration"].(int64); ok && observed == generation {
				c.(map[string]any)["observedGeneration"] = "current"
			}
		}
		_ = unstructured.SetNestedSlice(content, conditions, "status", "conditions")
	}
	return content
}

// forget removes a key wherever it is.
func forget(in any, key string) {
	switch v := in.(type) {
	case map[string]any:
		delete(v, key)
		for _, inner := range v {
			forget(inner, key)
		}
	case []any:
		for _, inner := range v {
			forget(inner, key)
		}
	}
}

// managers are the entries of the operator in managedFields by which sets know their members. Those of other writes depend on which of them
// was first.
func managers(o *unstructured.Unstructured) (all []any) {
	for _, m := range o.GetManagedFields() {
		if strings.HasPrefix(m.Manager, "shell-operator") && m.Operation == metav1.ManagedFieldsOperationApply {
			all = append(all, fmt.Sprint(m.Manager, " ", m.FieldsV1))
		}
	}
	slices.SortFunc(all, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
	return all
}

// orphans reports whether there are objects whose owner has gone.
func (s state) orphans() bool {
	for _, text := range s {
		if _, owners, found := strings.Cut(text, `"ownerReferences": [`); found {
			if owners, _, _ = strings.Cut(owners, "]"); strings.Contains(owners, "uid of nothing") {
				return true
			}
		}
	}
	return false
}

// difference is empty if two states are equal.
func (s state) difference(want state) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(merged(s, want))) {
		is, wanted := s[key], want[key]
		switch {
		case is == wanted:
		case wanted == "":
			fmt.Fprintf(&b, "there is %s:\n%s\n", key, is)
		case is == "":
			fmt.Fprintf(&b, "there is no %s\n", key)
		default:
			fmt.Fprintf(&b, "%s:\n%s", key, lines(is, wanted))
		}
	}
	return b.String()
}

// lines shows the lines that differ.
func lines(is, want string) string {
	text := string(diff.Diff("expected", []byte(want+"\n"), "is", []byte(is+"\n")))
	return text[strings.Index(text, "@@"):]
}

func merged(a, b state) state {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
