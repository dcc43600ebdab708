package app

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ClusterOptions tell how to reach the API server.
type ClusterOptions struct {
	// Kubeconfig is a path; empty means $KUBECONFIG, ~/.kube/config, or the ServiceAccount of the Pod.
	Kubeconfig string
	// Context and Server override what the kubeconfig says.
	Context, Server string
	// QPS and Burst limit our own requests to the API server; a negative QPS means no limit.
	QPS   float32
	Burst int

	// inside is for tests, which are in no Pod: webhooks are registered as if they were.
	inside bool
}

// cluster is a way to reach the API server, for us and for hooks.
type cluster struct {
	config *rest.Config
	// inside tells that we run in a Pod of the cluster.
	inside bool
	// namespace is that of the kubeconfig's context, outside.
	namespace string
	// env is what kubectl in a hook needs to reach the same cluster.
	env []string
}

// connect finds out how to reach the API server, without reaching for it. Files go to dir.
func connect(o ClusterOptions, dir string) (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.ClusterInfo.Server = o.Server
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	explicit := o.Kubeconfig != "" || o.Context != ""
	c := &cluster{}
	if !explicit && o.Server == "" && clientcmdapi.IsConfigEmpty(&raw) {
		c.config, err = rest.InClusterConfig()
		c.inside = err == nil
		if errors.Is(err, rest.ErrNotInCluster) {
			err = errors.New("no kubeconfig found and not running in a Pod: set --kube-config (KUBE_CONFIG), $KUBECONFIG or ~/.kube/config")
		}
	} else if c.config, err = loader.ClientConfig(); err == nil {
		c.namespace, _, _ = loader.Namespace()
		c.env, err = kubeconfigForHooks(o, raw, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find out how to reach the API server: %w", err)
	}
	c.inside = c.inside || o.inside
	c.config.QPS, c.config.Burst = o.QPS, o.Burst
	c.config.UserAgent = "shell-operator"
	return c, nil
}

// ownNamespace is where the operator's own objects belong: the namespace that was given, that of the Pod, or that of the
// kubeconfig's context.
func (c *cluster) ownNamespace(given string) (string, error) {
	switch {
	case given != "":
		return given, nil
	case c.namespace != "":
		return c.namespace, nil
	}
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return "", fmt.Errorf("cannot find out the operator's own namespace: %w: set --namespace (SHELL_OPERATOR_NAMESPACE)", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// forPatches returns the configuration of a client with limits of its own, so that many changes do not hold up the
// watches.
func (c *cluster) forPatches(o PatchOptions) *rest.Config {
	config := rest.CopyConfig(c.config)
	config.QPS, config.Burst, config.Timeout = o.QPS, o.Burst, o.Timeout
	return config
}

// kubeconfigForHooks returns the variable that leads kubectl to our cluster. Where it would go to another
// one by itself, because of overrides, it gets a private kubeconfig.
func kubeconfigForHooks(o ClusterOptions, raw clientcmdapi.Config, dir string) ([]string, error) {
	if o.Context == "" && o.Server == "" {
		if o.Kubeconfig == "" {
			return nil, nil // the hook inherits what we have found
		}
		path, err := filepath.Abs(o.Kubeconfig)
		return []string{"KUBECONFIG=" + path}, err
	}
	if o.Context != "" {
		raw.CurrentContext = o.Context
	}
	if err := clientcmdapi.MinifyConfig(&raw); err != nil {
		return nil, fmt.Errorf("cannot use context %q of the kubeconfig: %w", raw.CurrentContext, err)
	}
	if err := clientcmdapi.FlattenConfig(&raw); err != nil {
		return nil, fmt.Errorf("cannot read the certificates of the kubeconfig: %w", err)
	}
	for _, c := range raw.Clusters {
		if o.Server != "" {
			c.Server = o.Server
		}
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(raw, path); err != nil { // mode 0600
		return nil, fmt.Errorf("cannot write a kubeconfig for hooks: %w", err)
	}
	return []string{"KUBECONFIG=" + path}, nil
}
