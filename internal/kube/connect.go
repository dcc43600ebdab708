package kube

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

// Options tell how to reach the API server.
type Options struct {
	// Kubeconfig is a path; empty means $KUBECONFIG, ~/.kube/config, or the ServiceAccount of the Pod.
	Kubeconfig string
	// Context and Server override what the kubeconfig says.
	Context, Server string
	// QPS and Burst limit our own requests to the API server; a negative QPS means no limit.
	QPS   float32
	Burst int

	// Inside is for tests, which are in no Pod: webhooks are registered as if they were.
	Inside bool
}

// Cluster is a way to reach the API server, for us and for hooks.
type Cluster struct {
	Config *rest.Config
	// Inside tells that we run in a Pod of the cluster.
	Inside bool
	// Namespace is that of the kubeconfig's context, outside.
	Namespace string
	// Env is what kubectl in a hook needs to reach the same cluster.
	Env []string
}

// Connect finds out how to reach the API server, without reaching for it. Files go to dir.
func Connect(o Options, dir string) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.ClusterInfo.Server = o.Server
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig: %w: look at --kube-config (KUBE_CONFIG) and $KUBECONFIG", err)
	}
	explicit := o.Kubeconfig != "" || o.Context != ""
	c := &Cluster{}
	if !explicit && o.Server == "" && clientcmdapi.IsConfigEmpty(&raw) {
		c.Config, err = rest.InClusterConfig()
		c.Inside = err == nil
		if errors.Is(err, rest.ErrNotInCluster) {
			err = errors.New("no kubeconfig found and not running in a Pod: set --kube-config (KUBE_CONFIG), $KUBECONFIG or ~/.kube/config")
		}
	} else if explicit && o.Server == "" && clientcmdapi.IsConfigEmpty(&raw) {
		err = errors.New("the kubeconfig has no cluster: look at --kube-config (KUBE_CONFIG) and $KUBECONFIG")
	} else if _, there := raw.Contexts[o.Context]; o.Context != "" && !there {
		err = fmt.Errorf("the kubeconfig has no context %q: kubectl config get-contexts shows those that it has", o.Context)
	} else if c.Config, err = loader.ClientConfig(); err == nil {
		c.Namespace, _, _ = loader.Namespace()
		c.Env, err = kubeconfigForHooks(o, raw, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot find out how to reach the API server: %w", err)
	}
	c.Inside = c.Inside || o.Inside
	c.Config.QPS, c.Config.Burst = o.QPS, o.Burst
	c.Config.UserAgent = "shell-operator"
	return c, nil
}

// OwnNamespace is where the operator's own objects belong: the namespace that was given, that of the Pod, or that of the
// kubeconfig's context.
func (c *Cluster) OwnNamespace(given string) (string, error) {
	switch {
	case given != "":
		return given, nil
	case c.Namespace != "":
		return c.Namespace, nil
	}
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return "", fmt.Errorf("cannot find out the operator's own namespace: %w: set --namespace (SHELL_OPERATOR_NAMESPACE)", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// kubeconfigForHooks returns the variable that leads kubectl to our cluster. Where it would go to another
// one by itself, because of overrides, it gets a private kubeconfig.
func kubeconfigForHooks(o Options, raw clientcmdapi.Config, dir string) ([]string, error) {
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
	for _, known := range raw.Clusters {
		if o.Server != "" {
			known.Server = o.Server
		}
	}
	path := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(raw, path); err != nil { // mode 0600
		return nil, fmt.Errorf("cannot write a kubeconfig for hooks: %w", err)
	}
	return []string{"KUBECONFIG=" + path}, nil
}
