package memory

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Namespaces and CRDs contain objects, and end with them.
var (
	namespaces = schema.GroupResource{Resource: "namespaces"}
	crds       = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
)

// protected are Namespaces that cannot be deleted.
var protected = []string{"default", "kube-system", "kube-public"}

// initialNamespaces adds those that every cluster has, if there are any.
func (s *Server) initialNamespaces() {
	for _, name := range append(slices.Clone(protected), "kube-node-lease") {
		_, _ = s.Add(fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %q, "labels": {%q: %[1]q}},
			"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}`, name, corev1.LabelMetadataName), true)
	}
}

// accepts reports whether the namespace of a new object takes it.
func (s *Server) accepts(q *request) error {
	if !s.live || !q.kind.Namespaced {
		return nil
	}
	namespace := s.objects[key{namespaces, "", q.at.namespace}]
	if namespace == nil {
		return apierrors.NewNotFound(namespaces, q.at.namespace)
	}
	if metadataOf(namespace.tree)["deletionTimestamp"] == nil {
		return nil
	}
	err := apierrors.NewForbidden(q.at.GroupResource, q.at.name,
		errors.New("unable to create new content in namespace "+q.at.namespace+" because it is being terminated"))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: "NamespaceTerminating",
		Message: "namespace " + q.at.namespace + " is being terminated", Field: "metadata.namespace"})
	return err
}

// terminate deletes a Namespace or a CRD after what it contains. It requires mu.
func (s *Server) terminate(at key, live *stored) *stored {
	next := s.deleting(live)
	if at.GroupResource == namespaces {
		next.tree["status"] = map[string]any{"phase": "Terminating"}
	}
	next = s.update(at, live, next)
	for inside := range maps.Clone(s.objects) {
		if live := s.objects[inside]; live != nil && isIn(inside, at) {
			s.deleteObject(inside, live)
		}
	}
	s.release(at)
	return next
}

// isIn reports whether an object is in a Namespace, or of the kind of a CRD.
func isIn(inside, at key) bool {
	return at.GroupResource == namespaces && inside.namespace == at.name ||
		at.GroupResource == crds && inside.GroupResource.String() == at.name
}

// contains reports whether something is in a Namespace, or of the kind of a CRD.
func (s *Server) contains(at key) bool {
	for inside := range s.objects {
		if isIn(inside, at) {
			return true
		}
	}
	return false
}

// emptied ends the Namespace or the CRD that an object was in, if it was the last one.
func (s *Server) emptied(at key) {
	if !s.live {
		return
	}
	s.release(key{namespaces, "", at.namespace})
	s.release(key{crds, "", at.GroupResource.String()})
	if at.GroupResource == crds {
		s.kinds = slices.DeleteFunc(s.kinds, func(k Kind) bool { return k.Custom && k.GroupResource().String() == at.name })
	}
}

// release removes a Namespace or a CRD that is deleted, empty, and has no finalizers.
func (s *Server) release(at key) {
	if o := s.objects[at]; o != nil {
		metadata := metadataOf(o.tree)
		finalizers, _ := metadata["finalizers"].([]any)
		if metadata["deletionTimestamp"] != nil && len(finalizers) == 0 && !s.contains(at) {
			s.remove(at, o)
		}
	}
}

// defined serves the kinds of a CRD that has been stored.
func (s *Server) defined(at key, o *stored) {
	if at.GroupResource != crds || !s.live {
		return
	}
	text, _ := json.Marshal(o.tree) // it came from JSON
	s.kinds = slices.DeleteFunc(s.kinds, func(k Kind) bool { return k.Custom && k.GroupResource().String() == at.name })
	s.kinds = append(s.kinds, CRDKinds(text)...)
}

// established is the status of a CRD, which is served when it is created.
func established() map[string]any {
	return map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
		"message": "the initial names have been accepted"}}}
}
