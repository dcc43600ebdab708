package simulate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
)

// find returns the object of the cluster for a reference.
func find(s *memory.Server, ref string) (memory.Object, error) {
	found, err := findAmong(s.Objects(), ref)
	if err == nil {
		found, _ = s.Get(found)
	}
	return found, err
}

// findAmong returns the object of a reference: KIND/NAME or KIND/NAMESPACE/NAME. The kind is a kind, plural or short name.
func findAmong(objects []memory.Object, ref string) (found memory.Object, err error) {
	parts := strings.Split(ref, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return found, fmt.Errorf("%q is no reference: write KIND/NAME or KIND/NAMESPACE/NAME", ref)
	}
	similar := slices.DeleteFunc(slices.Clone(objects), func(o memory.Object) bool { return !o.Kind.Called(parts[0]) })
	all := slices.DeleteFunc(slices.Clone(similar), func(o memory.Object) bool { return !refersTo(ref, o) })
	switch len(all) {
	case 0:
		return found, fmt.Errorf("there is no object %s%s", ref, others(similar))
	case 1:
		return all[0], nil
	}
	return found, fmt.Errorf("%s is ambiguous: it may be %s", ref, refs(all))
}

// refersTo reports whether a reference may mean an object.
func refersTo(ref string, o memory.Object) bool {
	parts := strings.Split(ref, "/")
	return o.Kind.Called(parts[0]) && o.Name == parts[len(parts)-1] && (len(parts) < 3 || o.Namespace == parts[1])
}

// missing explains that there is no such object, with objects of its name in other namespaces, or else others of its kind.
func missing(s *memory.Server, o memory.Object) string {
	similar := slices.DeleteFunc(s.Objects(), func(other memory.Object) bool {
		return other.Kind.GroupResource() != o.Kind.GroupResource()
	})
	named := slices.DeleteFunc(slices.Clone(similar), func(other memory.Object) bool { return other.Name != o.Name })
	text := "there is no " + o.Kind.Kind + " " + path.Join(o.Namespace, o.Name)
	if len(named) > 0 {
		return text + others(named) + ": name the namespace"
	}
	return text + others(similar)
}

// others follows the statement that there is no such object.
func others(similar []memory.Object) string {
	switch len(similar) {
	case 0:
		return ", and none of its kind"
	case 1:
		return "; there is " + refs(similar)
	}
	return "; there are " + refs(similar)
}

// refs lists references, not more than fit in a message.
func refs(objects []memory.Object) string {
	const most = 5
	names := make([]string, len(objects))
	for i := range objects {
		names[i] = objects[i].Ref()
	}
	if len(names) > most {
		names = append(names[:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return strings.Join(names, ", ")
}
