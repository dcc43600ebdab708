package applyset

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/shell-operator/shell-operator/internal/kube"
)

// Labels and annotations of KEP-3659, which kubectl and other tools read.
const (
	idLabel              = "applyset.kubernetes.io/id"
	partOfLabel          = "applyset.kubernetes.io/part-of"
	toolingAnnotation    = "applyset.kubernetes.io/tooling"
	groupKindsAnnotation = "applyset.kubernetes.io/contains-group-kinds"
	namespacesAnnotation = "applyset.kubernetes.io/additional-namespaces"
)

// Annotations of our own.
const (
	setAnnotation    = "shell-operator/set"
	ownerAnnotation  = "shell-operator/owner"
	formatAnnotation = "shell-operator/format"
	// placesAnnotation has the kinds of members with their namespaces, more precisely than the annotations of the KEP.
	placesAnnotation = "shell-operator/places"
	// syncAnnotation counts the Syncs, restores of deleted members and commands that have changed the set.
	syncAnnotation = "shell-operator/sync"
	// pruneKindsAnnotation has the pruneKinds of the last Sync, for commands that delete the set.
	pruneKindsAnnotation = "shell-operator/prune-kinds"
	// adoptedAnnotation has the id of the set whose members were moved to this one last.
	adoptedAnnotation = "shell-operator/adopted"
	// pruneAnnotation on a member, with the value "disabled", keeps it.
	pruneAnnotation = "shell-operator/prune"
)

// format is the number of the format of the annotations on the parent.
const format = "1"

// isKept reports whether an object is never deleted.
func isKept(annotations map[string]string) bool { return annotations[pruneAnnotation] == "disabled" }

// names identify a set and its objects in the cluster.
type names struct {
	// manager is the field manager of the hook's sets.
	manager string
	// namespace and parent are namespace and name of the parent ConfigMap, id is in the labels of parent and members.
	namespace, parent, id string
	// set and owner identify the set in the annotations of the parent; owner may be empty.
	set, owner string
}

// namesOf returns the names of a set, for the namespace of the operator. The owner has the group and the kind that the API server has.
func namesOf(instance, namespace, hook, set string, owner *SetOwner) names {
	n := names{manager: kube.FieldManager(instance, hook), namespace: namespace, set: instance + "/" + hook + "/" + set}
	if owner != nil {
		n.owner = strings.Join([]string{owner.Group, owner.Kind, owner.Namespace, owner.Name}, "/")
	}
	n.parent = parentPrefix + set + "-" + digest(strings.Join([]string{instance, hook, set, n.owner}, "\n"))[:10]
	sum := sha256.Sum256([]byte(n.parent + "." + namespace + ".ConfigMap."))
	n.id = "applyset-" + base64.RawURLEncoding.EncodeToString(sum[:]) + "-v1"
	return n
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
