package watch

import (
	"errors"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const definitions = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $gadgets.$GROUP}
spec:
  group: $GROUP
  scope: Namespaced
  names: {kind: $GADGET, plural: $gadgets, singular: one-$gadget, shortNames: [sh-$gadget]}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v1beta1, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: $widgets.$GROUP}
spec:
  group: $GROUP
  scope: Cluster
  names: {kind: $WIDGET, plural: $widgets}
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

func TestKinds(t *testing.T) {
	t.Parallel()
	c := testenv.Shared(t)
	ns := c.Namespace(t)
	resolver := kube.NewResolver(testenv.Client(t, c.Config(t)))
	// No other test in the cluster has kinds of these names.
	group, unique := ns+".example.com", strings.ReplaceAll(ns, "-", "")
	gadget, widget := "Gadget"+unique, "Widget"+unique
	gadgets, widgets := "gadget"+unique+"s", "widget"+unique+"s"
	crds := strings.NewReplacer("$GROUP", group, "$GADGET", gadget, "$WIDGET", widget, "$gadget", "gadget"+unique, "$widget", "widget"+unique).
		Replace(definitions)
	c.KubectlInput(t, crds, "create", "-f", "-")
	t.Cleanup(func() { c.KubectlInput(t, crds, "delete", "--wait=false", "-f", "-") })
	c.KubectlInput(t, crds, "wait", "--for=condition=Established", "--timeout=60s", "-f", "-")

	for _, test := range []struct{ apiVersion, kind, want string }{
		{"", "Pod", "/v1, Resource=pods Pod namespaced"},
		{"", "pods", "/v1, Resource=pods Pod namespaced"},
		{"", "po", "/v1, Resource=pods Pod namespaced"},
		{"", "ns", "/v1, Resource=namespaces Namespace"},
		{"v1", "configMap", "/v1, Resource=configmaps ConfigMap namespaced"},
		{"", "Deployment", "apps/v1, Resource=deployments Deployment namespaced"},
		{"apps/v1", "deployments", "apps/v1, Resource=deployments Deployment namespaced"},
		// Two groups have events: the core group comes first, an explicit version decides.
		{"", "Event", "/v1, Resource=events Event namespaced"},
		{"events.k8s.io/v1", "Event", "events.k8s.io/v1, Resource=events Event namespaced"},
		// Custom resources
		{"", gadget, group + "/v1, Resource=" + gadgets + " " + gadget + " namespaced"},
		{"", gadgets, group + "/v1, Resource=" + gadgets + " " + gadget + " namespaced"},
		{"", "One-" + gadget, group + "/v1, Resource=" + gadgets + " " + gadget + " namespaced"},
		{"", "sh-" + gadget, group + "/v1, Resource=" + gadgets + " " + gadget + " namespaced"},
		{group + "/v1beta1", gadget, group + "/v1beta1, Resource=" + gadgets + " " + gadget + " namespaced"},
		{group + "/v1alpha1", widget, group + "/v1alpha1, Resource=" + widgets + " " + widget},
		// The group prefers v1, which does not have this one.
		{"", widget, group + "/v1alpha1, Resource=" + widgets + " " + widget},
	} {
		got, err := resolver.Resolve(t.Context(), test.apiVersion, test.kind, "list", "watch")
		text := got.GroupVersionResource.String() + " " + got.Kind
		if got.Namespaced {
			text += " namespaced"
		}
		if err != nil || text != test.want {
			t.Errorf("%q %q is %s, %v, want %s", test.apiVersion, test.kind, text, err, test.want)
		}
	}

	for _, test := range []struct{ apiVersion, kind string }{
		{"", "NoSuchKind"},
		{"v1", "Deployment"},
		{"apps/v2", "Deployment"},
		{"nosuch.example.com/v1", "Frobnicator"},
		// W-5: sub-resources, and what cannot be listed or watched
		{"apps/v1", "Scale"},
		{"v1", "Binding"},
		{"authorization.k8s.io/v1", "SelfSubjectAccessReview"},
	} {
		got, err := resolver.Resolve(t.Context(), test.apiVersion, test.kind, "list", "watch")
		if !errors.As(err, new(*kube.UnknownKindError)) {
			t.Errorf("%q %q is %v, %v, want an UnknownKindError", test.apiVersion, test.kind, got, err)
		}
	}
}
