package main

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
)

// getter is a client configuration that reads discovery once per call. Kubectl keeps discovery in files, one for each version of a
// group, and decodes all of them for each look-up of a kind, a short name or a category.
type getter struct {
	genericclioptions.RESTClientGetter
	// warn prints that a short name is ambiguous.
	warn func(string)

	mu     sync.Mutex // guards what follows
	client *memory
	mapper meta.RESTMapper
}

func (g *getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	client, err := g.discovery()
	if err != nil {
		return nil, err // and not a pointer
	}
	return client, nil
}

func (g *getter) discovery() (*memory, error) {
	if g.client == nil {
		client, err := g.RESTClientGetter.ToDiscoveryClient()
		if err != nil {
			return nil, err
		}
		g.client = &memory{CachedDiscoveryInterface: client}
	}
	return g.client, nil
}

// ToRESTMapper makes the mapper of kubectl.
func (g *getter) ToRESTMapper() (meta.RESTMapper, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mapper == nil {
		client, err := g.discovery()
		if err != nil {
			return nil, err
		}
		g.mapper = restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(client), client, g.warn)
	}
	return g.mapper, nil
}

// memory keeps the result of discovery until it is invalidated. Callers do not change it.
type memory struct {
	discovery.CachedDiscoveryInterface

	mu        sync.Mutex // guards what follows
	groups    []*metav1.APIGroup
	resources []*metav1.APIResourceList
}

func (m *memory) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	m.mu.Lock()
	groups, resources := m.groups, m.resources
	m.mu.Unlock()
	if resources != nil {
		return groups, resources, nil
	}
	groups, resources, err := m.CachedDiscoveryInterface.ServerGroupsAndResources()
	if err == nil { // otherwise a part may be missing
		m.mu.Lock()
		m.groups, m.resources = groups, resources
		m.mu.Unlock()
	}
	return groups, resources, err
}

func (m *memory) Invalidate() {
	m.mu.Lock()
	m.groups, m.resources = nil, nil
	m.mu.Unlock()
	m.CachedDiscoveryInterface.Invalidate()
}
