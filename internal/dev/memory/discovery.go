package memory

import (
	"encoding/json"
	"runtime"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// described is what a path that names no resource describes: the versions, kinds and fields that the server serves; nil for another path.
func (s *Server) described(path string, version schema.GroupVersion) any {
	path = strings.Trim(path, "/")
	switch path {
	case "api":
		return &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}
	case "apis":
		return s.groups()
	case "version":
		return map[string]any{"major": "1", "minor": "36", "gitVersion": "v1.36.0+memory", "gitCommit": "", "gitTreeState": "clean",
			"buildDate": moment, "goVersion": runtime.Version(), "compiler": runtime.Compiler, "platform": runtime.GOOS + "/" + runtime.GOARCH}
	case "readyz", "livez", "healthz":
		return "ok"
	case "openapi/v3":
		documents, _ := s.openAPI()
		return map[string]any{"paths": documents}
	case "openapi/v3/all":
		_, paths := s.openAPI()
		return map[string]any{"openapi": "3.0.0", "info": map[string]any{"title": "Kubernetes", "version": "v1.36.0"}, "paths": paths,
			"components": map[string]any{"schemas": map[string]any{}}}
	}
	if list := s.resources(version); len(list.APIResources) > 0 {
		return list
	}
	if name, isGroup := strings.CutPrefix(path, "apis/"); isGroup {
		groups := s.groups().Groups
		if at := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == name }); at >= 0 {
			groups[at].TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			return groups[at]
		}
	}
	return nil
}

// inAll are the resources that "kubectl get all" shows.
const inAll = " pods services deployments replicasets statefulsets daemonsets jobs cronjobs replicationcontrollers " +
	"horizontalpodautoscalers "

// openAPI is as much of the descriptions of versions as kubectl reads: the document of each version, which is one for all here, and its
// paths, which say that objects of a kind can be patched, and that the server validates fields.
func (s *Server) openAPI() (documents, paths map[string]any) {
	documents, paths = map[string]any{}, map[string]any{}
	parameter := func(name string) any {
		return map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": "string"}}
	}
	for _, k := range s.kinds {
		version := strings.Join(k.Path(""), "/")
		version = strings.Trim(strings.TrimSuffix(version, k.GroupVersionResource.Resource), "/")
		documents[version] = map[string]any{"serverRelativeURL": "/openapi/v3/all"}
		paths[strings.Join(k.Path("{namespace}"), "/")+"/{name}"] = map[string]any{"patch": map[string]any{
			"x-kubernetes-action":             "patch",
			"x-kubernetes-group-version-kind": map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind},
			"parameters":                      []any{parameter("fieldValidation"), parameter("dryRun")}, "responses": map[string]any{},
		}}
	}
	return documents, paths
}

func (s *Server) groups() *metav1.APIGroupList {
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, k := range s.kinds {
		if k.Group == "" {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.GroupVersion().String(), Version: k.Version}
		at := slices.IndexFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == k.Group })
		if at < 0 {
			list.Groups = append(list.Groups, metav1.APIGroup{Name: k.Group, PreferredVersion: version})
			at = len(list.Groups) - 1
		}
		if !slices.Contains(list.Groups[at].Versions, version) {
			list.Groups[at].Versions = append(list.Groups[at].Versions, version)
		}
	}
	return list
}

func (s *Server) resources(version schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}}
	for _, k := range s.kinds {
		if k.GroupVersion() != version {
			continue
		}
		list.GroupVersion = version.String()
		one := metav1.APIResource{
			Name: k.GroupVersionResource.Resource, Kind: k.Kind, Namespaced: k.Namespaced,
			SingularName: strings.ToLower(k.Kind), ShortNames: strings.FieldsFunc(k.ShortNames, func(r rune) bool { return r == ',' }),
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}
		if strings.Contains(inAll, " "+one.Name+" ") {
			one.Categories = []string{"all"}
		}
		list.APIResources = append(list.APIResources, one)
		one.Categories, one.ShortNames, one.Verbs = nil, nil, metav1.Verbs{"get", "patch", "update"}
		if k.Status {
			one.Name = k.GroupVersionResource.Resource + "/status"
			list.APIResources = append(list.APIResources, one)
		}
		if k.Scale {
			one.Name, one.Group, one.Version, one.Kind = k.GroupVersionResource.Resource+"/scale", "autoscaling", "v1", "Scale"
			list.APIResources = append(list.APIResources, one)
		}
	}
	return list
}

// review answers a question for permissions, of which there are none: everything is allowed. It is nil for another resource.
func review(resource string, body []byte) map[string]any {
	if !strings.HasSuffix(resource, "subjectaccessreviews") {
		return nil
	}
	var tree map[string]any
	if json.Unmarshal(body, &tree) != nil || tree == nil {
		return nil
	}
	tree["status"] = map[string]any{"allowed": true, "reason": "the API server in memory has no permissions"}
	return tree
}
